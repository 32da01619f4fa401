"""Random commands with legal fields, most of which stay in the buffer."""

import random

from tpulite.arch import isa
from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import Axis, Command, Drain, Opcode
from tpulite.arch.memory import PAGE_BYTES, WindowBinding

__all__ = ["CONFIGS", "WINDOWS", "draw_command"]

CONFIGS = {
    "4x4": Config(array_size=4, ub_rows=1024, acc_rows=64),
    "8x8 with int4": Config(array_size=8, ub_rows=2048, acc_rows=64, int4=True),
    "16x16": Config(array_size=16, ub_rows=4096, acc_rows=256),
    "32x32": Config(array_size=32, ub_rows=4096, acc_rows=256),
}

_WINDOW_BYTES = 1 << 18
WINDOWS = tuple(
    WindowBinding(base=PAGE_BYTES + i * _WINDOW_BYTES, size=_WINDOW_BYTES, read=True, write=True)
    for i in range(4)
)


def draw_command(rng: random.Random, opcode: Opcode, config: Config) -> Command:
    """Draw a command; about one in ten reaches beyond the buffer or its window."""
    draw = {Opcode.CONV: _conv, Opcode.VECTOR: _vector}.get(opcode, _transfer)
    while True:
        command = Command.make(opcode, **draw(rng, config))
        values = {"opcode": opcode, **command.fields}
        if (
            isa.COMMANDS[opcode].problem(values) is None
            and isa.illegal_combination(command, config) is None
        ):
            return command


def _some(rng: random.Random, most: int) -> int:
    """Draw from 1 to ``most``, small ones more often."""
    return min(rng.randint(1, most), rng.randint(1, most))


def _row(rng: random.Random, config: Config) -> int:
    return rng.randrange(config.ub_rows // 2)


def _transfer(rng: random.Random, config: Config) -> dict[str, int]:
    rows, lines = _some(rng, 60), rng.choice([1, 1, _some(rng, 12)])
    beats = -(-rows * config.row_bytes // BEAT_BYTES)
    pitch, stride = (
        rng.choice([0, rows, rng.randrange(90)]),
        rng.choice([beats, rng.randrange(200)]),
    )
    return {
        "window": rng.randrange(4),
        "offset": BEAT_BYTES * rng.randrange(_WINDOW_BYTES // BEAT_BYTES // 2),
        "stride": BEAT_BYTES * stride,
        "lines": lines,
        "rows": rows,
        "row": _row(rng, config),
        "pitch": pitch,
    }


def _conv(rng: random.Random, config: Config) -> dict[str, int]:
    height, width = _some(rng, 16), _some(rng, 16)
    pitch = rng.choice([width, width + rng.randrange(8), rng.randrange(40)])
    fields = {
        "depthwise": int(rng.random() < 0.3),
        "inner": rng.choice(list(Axis)),
        "byte_step": rng.choice([0, 0, rng.randint(1, min(config.array_size, isa.BYTE_STEPS - 1))]),
        "rows": _some(rng, 9),
        "columns": _some(rng, 12),
        "stride_y": _some(rng, 3),
        "stride_x": _some(rng, 3),
        "act_pitch": pitch,
        "act_block_pitch": rng.choice([height * pitch, rng.randrange(300)]),
        "height": height,
        "width": width,
        "pad_top": rng.choice([0, rng.randrange(5)]),
        "pad_left": rng.choice([0, rng.randrange(5)]),
        "pad": rng.randint(-128, 127),
        "blocks": rng.choice([1, _some(rng, 6)]),
        "kernel_rows": _some(rng, 5),
        "kernel_columns": _some(rng, 5),
        "dilation_y": rng.choice([1, _some(rng, 3)]),
        "dilation_x": rng.choice([1, _some(rng, 3)]),
        "acc_row": rng.choice([0, rng.randrange(16)]),
        "accumulate": rng.randrange(2),
        "drain": rng.choice(list(Drain)),
        "record_form": rng.randrange(2),
        "out_pitch": rng.choice([12, rng.randrange(60)]),
        "out_step": rng.choice([1, 1, isa.RAW_ROWS, rng.randrange(9)]),
        "prefetch": rng.randrange(2),
        "int4": int(config.int4 and rng.random() < 0.5),
        "transposed": int(config.has_transposed_tiles and rng.random() < 0.5),
    }
    for name in ("act_row", "weight_row", "record_row", "out_row"):
        fields[name] = _row(rng, config)
    return fields


def _vector(rng: random.Random, config: Config) -> dict[str, int]:
    columns = _some(rng, 12)
    fields = {
        "operation": rng.choice(isa.operations(config)),
        "rows": _some(rng, 9),
        "columns": columns,
        "window_rows": _some(rng, 5),
        "window_columns": _some(rng, 5),
        "window_pitch": rng.choice([columns, rng.randrange(40)]),
        "param_row": _row(rng, config),
        "high": 127,
        "tail": rng.randrange(config.array_size) if config.has_softmax else 0,
    }
    for name in ("a", "b", "out"):
        fields |= {
            f"{name}_row": _row(rng, config),
            f"{name}_pitch": rng.choice([0, columns, rng.randrange(60)]),
            f"{name}_step": rng.choice([0, 1, 1, rng.randrange(6)]),
        }
    return fields
