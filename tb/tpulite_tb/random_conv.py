"""Random CONVs: matrix products, convolutions, dense mode and depthwise mode."""

from tpulite.arch import isa
from tpulite.arch.config import Config
from tpulite.arch.effects import Effects, effects, tile_rows
from tpulite.arch.isa import BYTE_STEPS, RAW_ROWS, Axis, Command, Drain, Opcode, RecordForm
from tpulite_tb.random_records import BlockKind, DepthwiseTaps
from tpulite_tb.random_state import Drawn, State, hazard, mask

__all__ = ["draw_conv"]

_MODES = ("product", "product", "image", "image", "bytes", "depthwise", "depthwise")


def draw_conv(state: State) -> Drawn | None:  # noqa: C901 - a branch for each kind
    """Draw a CONV on written rows; None if there are no such rows."""
    rng, config = state.rng, state.config
    mode = rng.choice(_MODES)
    taps = None
    if mode == "depthwise":
        found = state.resident(BlockKind.TILE)
        if found is None:
            return None
        weight_row, taps = found[0], found[1].taps
        assert taps is not None
        fields = _depthwise_fields(state, taps) | {"weight_row": weight_row}
    elif mode == "product":
        fields = _product_fields(state)
    else:
        fields = _image_fields(state, in_bytes=mode == "bytes")
    wide = config.int16 and mode in ("product", "image") and rng.random() < 0.5
    if wide:
        mode = f"int16 {mode}"
        columns = fields["columns"] + fields["columns"] % 2
        fields |= {"int16": 1, "inner": Axis.X, "columns": columns}
        fields["digit"] = rng.choice([0, 0, 1, 2, 3])
    transposes = config.has_transposed_tiles and not wide and mode in ("product", "image")
    if transposes and rng.random() < 0.6:
        mode = f"transposed {mode}"
        fields |= {"transposed": 1}
    elif config.int4 and mode in ("product", "image") and rng.random() < 0.6:
        mode = f"int4 {mode}"
        fields |= {"int4": 1}
    outputs = fields["rows"] * fields["columns"]
    if outputs > config.acc_rows:
        return None
    drains = _drain_fields(state, depthwise=mode == "depthwise")
    if drains is None:
        return None
    drain_fields, drain_name = drains
    fields |= drain_fields
    if wide and fields["drain"] != Drain.REQUANTIZE:
        return None  # kept sums leave every other row undefined
    kept = state.kept_run(outputs) if rng.random() < 0.6 else None
    if wide and kept is not None and kept % 2:
        kept = None
    acc_row = rng.randrange(config.acc_rows - outputs + 1) if kept is None else kept
    acc_row -= acc_row % 2 * wide
    fields |= {"acc_row": acc_row, "accumulate": kept is not None}

    for _ in range(8):
        fields |= _places(state, fields)
        if taps is None:
            tiles = fields["blocks"] * fields["kernel_rows"] * fields["kernel_columns"]
            rows = tile_rows(fields.get("int4", 0), config)
            weight_row = state.written_run(tiles * rows)
            if weight_row is None:
                return None
            fields["weight_row"] = weight_row
        command = Command.make(Opcode.CONV, **fields)
        if not _fits(command, config):
            continue
        access = effects(command, config)
        legal = state.is_written(access.early) and state.is_written(access.reads)
        if not access.reads and rng.random() < 0.8:
            continue  # nothing but padding is always legal, and would be drawn too often
        if legal and not hazard(access.reads, access.writes, access.reads_before):
            tags = _tags(command, config, mode, drain_name, access)
            return state.drawn(command, touched=access, tags=tags)
    return None


def _product_fields(state: State) -> dict[str, int]:
    rng, size = state.rng, state.config.array_size
    m = rng.choice([1, rng.randint(1, size), size, rng.randint(1, 3 * size)])
    k_tiles = rng.choice([1, 1, 2, 3, 4])
    fields = isa.dense(m=m, k_tiles=k_tiles, act_pitch=rng.choice([m, m, 2 * m, rng.randint(0, m)]))
    # With one row this pitch has no effect.
    return fields | {"act_pitch": rng.randrange(1 << 14)}


def _image_fields(state: State, *, in_bytes: bool) -> dict[str, int]:
    rng, size = state.rng, state.config.array_size
    kernel = rng.choice([(1, 1), (3, 3), (2, 1), (rng.randint(1, 4), rng.randint(1, 4))])
    rows, columns = rng.randint(1, 5), rng.choice([rng.randint(1, 8), size, size + 1])
    fields = {
        "rows": rows, "columns": columns, "kernel_rows": kernel[0], "kernel_columns": kernel[1],
        "stride_y": rng.choice([1, 1, 2, 3]), "stride_x": rng.choice([1, 1, 2, 3]),
        "dilation_y": rng.choice([1, 1, 2]), "dilation_x": rng.choice([1, 1, 2, 3]),
        "blocks": rng.choice([1, 1, 2, 3]), "inner": rng.choice(list(Axis)),
    }  # fmt: skip
    across = (columns - 1) * fields["stride_x"]
    if in_bytes:
        most = min(size, BYTE_STEPS - 1)
        fields |= {"byte_step": rng.choice([1, most, rng.randint(1, most)]), "inner": Axis.X}
        across = (columns - 1) * fields["byte_step"] // size + 1
    return fields | _extents(state, fields, across)


def _depthwise_fields(state: State, taps: DepthwiseTaps) -> dict[str, int]:
    rng = state.rng
    outputs, stride = rng.randint(1, 5), rng.choice([1, 1, 2, 3])
    inner, outer = ("columns", "x"), ("rows", "y")
    axis = rng.choice(list(Axis)) if taps.axis is None else taps.axis
    if axis == Axis.Y:
        inner, outer = outer, inner
    fields = {
        "depthwise": 1, "blocks": 1, "inner": axis, "weight_zero_point": taps.zero_point,
        inner[0]: taps.outputs, f"kernel_{inner[0]}": taps.inner, f"stride_{inner[1]}": taps.stride,
        outer[0]: outputs, f"kernel_{outer[0]}": taps.outer, f"stride_{outer[1]}": stride,
        "dilation_y": rng.choice([1, 1, 2]), "dilation_x": rng.choice([1, 1, 2, 3]),
    }  # fmt: skip
    if taps.dilation is not None:
        fields[f"dilation_{inner[1]}"] = taps.dilation
    across = (fields["columns"] - 1) * fields["stride_x"] * fields["dilation_x"]
    return fields | _extents(state, fields, across)


def _extents(state: State, fields: dict[str, int], across: int) -> dict[str, int]:
    """Draw extents and padding of an image that the taps leave on some sides, or on none."""
    rng = state.rng
    step = fields["dilation_y"] if fields.get("depthwise") else 1
    down = (fields["rows"] - 1) * fields["stride_y"] * step
    down += (fields["kernel_rows"] - 1) * fields["dilation_y"] + 1
    across += (fields["kernel_columns"] - 1) * fields["dilation_x"] + 1
    top, left = (rng.choice([0, 0, 1, 2, rng.randint(0, 31)]) for _ in range(2))
    if rng.random() < 0.8:
        top, left = min(top, down - 1), min(left, across - 1)
    height = max(1, down - top - rng.choice([0, 0, 1, rng.randint(-2, 4)]))
    width = max(1, across - left - rng.choice([0, 0, 1, rng.randint(-2, 4)]))
    return {
        "height": height,
        "width": width,
        "pad_top": top,
        "pad_left": left,
        "act_pitch": rng.choice([width, width, width + 1, rng.randint(0, width)]),
        "act_block_pitch": rng.choice([height * width, 1, rng.randint(0, height * width)]),
        "pad": rng.randrange(-128, 128),
    }


def _drain_fields(state: State, *, depthwise: bool) -> tuple[dict[str, int], str] | None:
    """Draw what becomes of the sums, and its name; None if it needs records that are not there."""
    rng, config = state.rng, state.config
    drain = rng.choice([Drain.KEEP, *[Drain.REQUANTIZE] * 3, Drain.RAW])
    if depthwise and (drain == Drain.RAW or config.lanes < config.array_size):
        drain = Drain.KEEP if config.lanes < config.array_size else Drain.REQUANTIZE
    fields = {"drain": drain, "record_row": rng.randrange(1 << 14)}
    if drain != Drain.REQUANTIZE:
        return fields, drain.name.lower()
    found = state.resident(BlockKind.FULL, BlockKind.SHORT)
    if found is None:
        return None
    row, block = found
    form = RecordForm[block.kind.name]
    return fields | {"record_form": form, "record_row": row}, f"{block.kind} {block.name}"


def _places(state: State, fields: dict[str, int]) -> dict[str, int]:
    """Draw where the image lies, where the output goes, and what weights count as zero."""
    rng, limit = state.rng, state.config.ub_rows
    extent = (fields["height"] - 1) * fields["act_pitch"] + fields["width"]
    extent += (fields["blocks"] - 1) * fields["act_block_pitch"]
    act_row = None
    if rng.random() < 0.8:
        act_row = state.written_run(extent)
    step = RAW_ROWS if fields["drain"] == Drain.RAW else 1
    step = rng.choice([step, step, step, step + 1, rng.randint(0, 2 * step)])
    pitch = rng.choice([step * fields["columns"]] * 2 + [rng.randint(0, 3 * fields["columns"])])
    places = {
        "act_row": rng.randrange(limit) if act_row is None else act_row,
        "out_row": rng.randrange(limit),
        "out_step": step,
        "out_pitch": pitch,
    }
    if fields["drain"] != Drain.KEEP and rng.random() < 0.2:
        places["out_row"] = places["act_row"]
    if fields.get("int4"):
        places["weight_zero_point"] = 0
    elif not fields.get("depthwise"):
        places["weight_zero_point"] = rng.choice([0, rng.randrange(-128, 128)])
    return places


def _fits(command: Command, config: Config) -> bool:
    """Say whether image and output lie in the buffer."""
    c = command.fields
    image = c["act_row"] + (c["blocks"] - 1) * c["act_block_pitch"]
    image += (c["height"] - 1) * c["act_pitch"] + c["width"]
    output = c["out_row"] + (c["rows"] - 1) * c["out_pitch"] + (c["columns"] - 1) * c["out_step"]
    if c["drain"] == Drain.KEEP:
        output = 0
    elif c["drain"] == Drain.RAW:
        output += RAW_ROWS - 1
    return image <= config.ub_rows and output < config.ub_rows


def _pair(y: int, x: int) -> str:
    return f"{y}x{x}" if y == x else "uneven"


def _tags(
    command: Command, config: Config, mode: str, drain_name: str, access: Effects
) -> tuple[tuple[str, str], ...]:
    c, size = command.fields, config.array_size
    m = c["rows"] * c["columns"]
    count = "m=1" if m == 1 else "m<N" if m < size else "m=N" if m == size else "m>N"
    tags = [(f"{mode} {drain_name}", count)]
    if mode != "product":
        sides = [side for side in ("top", "left") if c[f"pad_{side}"]]
        tags += [
            (f"{mode} kernel", _pair(c["kernel_rows"], c["kernel_columns"])),
            (f"{mode} stride", _pair(c["stride_y"], c["stride_x"])),
            (f"{mode} dilation", _pair(c["dilation_y"], c["dilation_x"])),
            (f"{mode} inner", Axis(c["inner"]).name.lower()),
            (f"{mode} padding", "+".join(sides) or "none above or left"),
        ]
        if not access.reads:
            tags.append((f"{mode} padding", "nothing else"))
    if c["accumulate"]:
        tags.append((mode, "accumulate"))
    if mask(access.writes) & mask(access.reads):
        tags.append((mode, "over its image"))
    return tuple(tags)
