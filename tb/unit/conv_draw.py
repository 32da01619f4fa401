"""Random CONVs of every kind, small enough for a bench."""

import random

from tpulite.arch.config import Config
from tpulite.arch.isa import (
    BYTE_STEPS,
    Axis,
    Command,
    Drain,
    Opcode,
    RecordForm,
    dense,
    illegal_combination,
)

__all__ = ["KINDS", "ONES", "any_image", "draw_conv", "draw_kinds", "stretched"]

KINDS = ("product", "window", "bytes", "depthwise", "lines", "pairs")
"""Matrix products, convolutions, dense mode, depthwise mode, and that with delay lines, of which
the last streams two vectors a cycle."""

WIDE = ("wide_product", "wide_window")
"""Matrix products and convolutions of int16."""

INT4 = ("int4_product", "int4_window")
"""Matrix products and convolutions whose weights are int4."""

TRANSPOSED = ("transposed_product", "transposed_window")
"""Matrix products and convolutions whose weight tiles are transposed."""

ONES = dict.fromkeys(("rows", "columns", "blocks", "kernel_rows", "kernel_columns"), 1)
"""Extents of a CONV of one output, of one block and tap."""

_DEPTHWISE_STREAM = 350  # vectors


def draw_kinds(config: Config, count: int) -> list[str]:
    """Return kinds of CONVs at random, half of them such as only some machines have, if it does."""
    kinds: list[str] = random.choices(KINDS, k=count)
    special = WIDE * config.int16 + TRANSPOSED * config.has_transposed_tiles + INT4 * config.int4
    if special:
        kinds[1::2] = random.choices(special, k=len(kinds[1::2]))
    return kinds


def draw_conv(
    config: Config, kind: str, *, inputs: range, operands: range, outputs: range, **fields: int
) -> Command:
    """Return a legal CONV: its image lies in ``inputs``, its output in ``outputs``.

    Its weights and records begin in ``operands``. Other fields may be given.
    """
    while True:
        command = Command.make(
            Opcode.CONV,
            **(_common(config, operands) | getattr(_Draw(config), kind)() | fields),
        )
        image = _last_row(command, "act_pitch", "act_block_pitch", "height", "blocks")
        image += command["width"] - 1
        output = _last_row(command, "out_pitch", "out_step", "rows", "columns")
        output += 3 * (command["drain"] == Drain.RAW)
        m = command["rows"] * command["columns"]
        k_tiles = command["blocks"] * command["kernel_rows"] * command["kernel_columns"]
        if (
            illegal_combination(command, config) is None
            and image < len(inputs)
            and output < len(outputs)
            and m <= config.acc_rows
            and (command["depthwise"] or k_tiles <= 12)
            and (not command["depthwise"] or _positions(command) <= _DEPTHWISE_STREAM)
        ):
            free = {
                "act_row": inputs[random.randrange(len(inputs) - image)],
                "out_row": outputs[random.randrange(len(outputs) - output)],
                "acc_row": random.randrange(config.acc_rows - m + 1),
            }
            if command["int16"]:
                free["acc_row"] &= -2
            return command.replace(**(free | fields))


def any_image(command: Command, rows: int) -> Command:
    """Return a CONV with an image of any height, width and pitches, anywhere in a buffer."""
    height, width = (random.getrandbits(random.randint(1, 11)) or 1 for _ in range(2))
    height = min(height, rows)
    pitch = random.randrange(rows // height if height > 1 else 1 << 14)
    left = rows - (height - 1) * pitch
    width = min(width, left)
    block_pitch = random.getrandbits(14)
    if command["blocks"] > 1:
        block_pitch %= (left - width) // (command["blocks"] - 1) + 1
    left -= (command["blocks"] - 1) * block_pitch + width
    return command.replace(
        height=height,
        width=width,
        act_pitch=pitch,
        act_block_pitch=block_pitch,
        act_row=random.randrange(left + 1),
    )


def stretched(command: Command, block: int = 1) -> Command:
    """Return a CONV with one long axis, of output or of blocks that take ``block`` cycles each."""
    axes = {"rows": command["stride_y"], "columns": command["stride_x"]}
    if not command["depthwise"]:
        axes = {"rows": 1, "columns": 1, "blocks": block}
    axis = random.choice(list(axes))
    count = random.choice([2047, random.getrandbits(11)]) // axes[axis]
    return command.replace(**(ONES | {axis: max(count, 1)}))


def _common(config: Config, operands: range) -> dict[str, int]:
    return {
        "wait": random.randrange(16),
        "signal": random.randrange(16),
        "prefetch": random.randrange(2),
        "pad": random.randrange(-128, 128),
        "weight_row": random.choice(operands),
        "weight_zero_point": random.randrange(-128, 128),
        "accumulate": random.randrange(2),
        "drain": random.choice(list(Drain)),
        "record_form": random.choice(list(RecordForm)),
        # Whole records, and biases that are records' bytes in the short form: any int32 will do.
        "record_row": operands[random.randrange(8) * max(1, 16 // config.array_size) * 4],
        "out_pitch": random.randrange(40),
        "out_step": random.randrange(9),
    }


class _Draw:
    """Fields that differ from kind to kind."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def product(self) -> dict[str, int]:
        n = self.config.array_size
        m = random.choice([1, 2, n, n + 1, 20])
        pitch = random.randrange(40)
        return dense(m=m, k_tiles=random.randint(1, 4), act_pitch=pitch)

    def window(self) -> dict[str, int]:
        return {
            "inner": random.choice(list(Axis)),
            "rows": random.randint(1, 5),
            "columns": random.randint(1, 5),
            "stride_y": random.choice([1, 1, 2, 3, 15]),
            "stride_x": random.choice([1, 1, 2, 3, 15]),
            "height": random.randint(1, 8),
            "width": random.randint(1, 8),
            "act_pitch": random.randrange(12),
            "act_block_pitch": random.randrange(40),
            "pad_top": random.choice([0, 1, 2, 3, 31]),
            "pad_left": random.choice([0, 1, 2, 3, 31]),
            "blocks": random.randint(1, 3),
            "kernel_rows": random.choice([1, 2, 3, 4, random.randint(1, 15)]),
            "kernel_columns": random.choice([1, 2, 3, 4, random.randint(1, 15)]),
            "dilation_y": random.choice([1, 1, 2, 15]),
            "dilation_x": random.choice([1, 1, 2, 15]),
        }

    def bytes(self) -> dict[str, int]:
        return self.window() | {
            "inner": Axis.X,
            "columns": random.randint(1, 12),
            "byte_step": random.randint(1, min(self.config.array_size, BYTE_STEPS - 1)),
        }

    def wide_product(self) -> dict[str, int]:
        m = 2 * random.choice([1, 2, self.config.array_size, 20])
        pitch = random.randrange(40)
        return dense(m=m, k_tiles=random.randint(1, 4), act_pitch=pitch) | self._wide()

    def wide_window(self) -> dict[str, int]:
        pairs = {"columns": 2 * random.randint(1, 3), "stride_x": random.choice([1, 2, 3, 7])}
        return self.window() | pairs | self._wide()

    def transposed_product(self) -> dict[str, int]:
        return self.product() | {"transposed": 1}

    def transposed_window(self) -> dict[str, int]:
        return self.window() | {"transposed": 1}

    def int4_product(self) -> dict[str, int]:
        return self.product() | {"int4": 1, "weight_zero_point": 0}

    def int4_window(self) -> dict[str, int]:
        return self.window() | {"int4": 1, "weight_zero_point": 0}

    def _wide(self) -> dict[str, int]:
        drain = random.choice([Drain.KEEP, Drain.REQUANTIZE])
        digit = random.choice([0, 0, 1, 2, 3])
        return {"int16": 1, "inner": Axis.X, "drain": drain, "digit": digit}

    def depthwise(self) -> dict[str, int]:
        return self.window() | {"depthwise": 1, "blocks": 1}

    def lines(self) -> dict[str, int]:
        """Return what goes through delay lines, or hardly not."""
        inner = random.choice(list(Axis))
        names = [("columns", "stride_x"), ("rows", "stride_y")][:: 1 if inner == Axis.X else -1]
        (count, stride), (outer, step) = names
        between = random.choice([1, 1, 2, 2, 3])
        most = random.choice([33, 33 * between])
        lines, taps = random.choice([(3, 3), (3, 3), (3, 5), (3, 5), (5, 3), (3, 4), (5, 5)])
        return self.depthwise() | {
            "inner": inner,
            "kernel_rows": lines if inner == Axis.X else taps,
            "kernel_columns": taps if inner == Axis.X else lines,
            "dilation_x": random.choice([1, 1, 1, 2]),
            count: random.randint(4, most) // between + 1,
            stride: between,
            outer: random.randint(1, 3),
            step: random.choice([1, 1, 2]),
        }

    def pairs(self) -> dict[str, int]:
        """Return what streams pairs, or hardly not; the image ends about where the stream does."""
        least = self.config.array_size // 2
        columns = random.choice([least - 1, least, 33, 34, random.randint(least, 33)])
        hardly = random.choice(
            [
                {"inner": Axis.Y},
                {"stride_x": random.choice([1, 3, 6, 10])},
                {"dilation_x": random.choice([2, 3, 5, 9])},
                {"kernel_rows": random.choice([1, 2, 7, 11])},
                {"kernel_columns": random.choice([1, 2, 7, 11])},
            ]
        )
        return self.depthwise() | {
            "inner": Axis.X,
            "kernel_rows": 3,
            "kernel_columns": 3,
            "dilation_x": 1,
            "columns": columns,
            "stride_x": 2,
            "width": 2 * columns + random.randint(-1, 3),
            "pad_left": random.choice([0, 1, 1, 2, 3]),
            "rows": random.randint(1, 3),
            "stride_y": random.choice([1, 2, 2]),
            **random.choice([{}, {}, {}, hardly]),
        }


def _last_row(command: Command, *names: str) -> int:
    pitch, step, rows, columns = (command[name] for name in names)
    return (rows - 1) * pitch + (columns - 1) * step


def _positions(command: Command) -> int:
    rows = (command["rows"] - 1) * command["stride_y"] + command["kernel_rows"]
    return rows * ((command["columns"] - 1) * command["stride_x"] + command["kernel_columns"])
