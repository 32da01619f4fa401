"""Hand-written programs and the small machine that runs them."""

import numpy as np

from tpulite.arch import isa
from tpulite.arch.config import RECORD_BYTES, Config
from tpulite.arch.isa import Command, Drain, Engine, Opcode, VectorOp
from tpulite.arch.memory import Window, WindowBinding
from tpulite.arch.numerics import Rounding
from tpulite.golden.machine.dram import Dram

__all__ = [
    "CONFIG",
    "WINDOWS",
    "L",
    "S",
    "V",
    "X",
    "conv",
    "copy",
    "end",
    "filled_dram",
    "image_of",
    "load",
    "matmul",
    "mlp",
    "records",
    "store",
    "vector",
]  # fmt: skip

CONFIG = Config(array_size=4, ub_rows=256, acc_rows=32)
L, S, X, V = (1 << engine for engine in (Engine.LOAD, Engine.STORE, Engine.MXU, Engine.VPU))

WINDOWS = (
    WindowBinding(base=0x1000, size=0x1000, read=True),
    WindowBinding(base=0x2000, size=0xF80, read=True),
    WindowBinding(base=0x3000, size=0xF80, write=True),
    WindowBinding(base=0x4000, size=0x1000, read=True, write=True),
)


def load(row: int, rows: int, window: int = Window.INPUT, **fields: int) -> Command:
    """LOAD a line of rows."""
    return Command.make(
        Opcode.LOAD, **{"row": row, "rows": rows, "window": window, "lines": 1} | fields
    )


def store(row: int, rows: int, window: int = Window.OUTPUT, **fields: int) -> Command:
    """STORE a line of rows."""
    return Command.make(
        Opcode.STORE, **{"row": row, "rows": rows, "window": window, "lines": 1} | fields
    )


def conv(**fields: int) -> Command:
    """Build a CONV whose extents, strides and dilations are 1 unless told otherwise."""
    return Command.make(Opcode.CONV, **isa.dense(m=1, k_tiles=1) | fields)


def image_of(height: int, width: int) -> dict[str, int]:
    """Return the fields of an image without gaps."""
    return {"height": height, "width": width, "act_pitch": width}


def matmul(*, m: int = 4, k_tiles: int = 1, **fields: int) -> Command:
    """Build a CONV that multiplies four vectors by one weight tile, unless told otherwise."""
    return Command.make(Opcode.CONV, **isa.dense(m=m, k_tiles=k_tiles, **fields))


def vector(operation: VectorOp, **fields: int) -> Command:
    """Build a VECTOR of one output with a window of 1 x 1 that clamps nothing."""
    ones = dict.fromkeys(("rows", "columns", "window_rows", "window_columns"), 1)
    steps = {"a_step": 1, "b_step": 1, "out_step": 1, "low": -128, "high": 127}
    return Command.make(Opcode.VECTOR, operation=operation, **ones | steps | fields)


def copy(source: int, target: int, count: int, **fields: int) -> Command:
    """Build a VECTOR that copies rows."""
    return vector(VectorOp.COPY, columns=count, a_row=source, out_row=target, **fields)


def end() -> Command:
    """END."""
    return Command.make(Opcode.END)


def records(count: int, **fields: int) -> bytes:
    """Return equal records that scale by 1/16, unless told otherwise."""
    scale = {"multiplier": 1 << 30, "shift": -3, "rounding": Rounding.SINGLE}
    rest = {"bias": 0, "zero_point": 0, "low": -128, "high": 127, "gain": 0}
    word = isa.RECORD.pack(**rest | scale | fields)
    return count * word.to_bytes(RECORD_BYTES, "little")


def filled_dram(seed: int = 0, **errors) -> Dram:
    """Return a DRAM with random bytes everywhere, and records at the start of the constants."""
    dram = Dram(0x5000, **errors)
    dram.write(0, np.random.default_rng(seed).integers(0, 256, dram.size).astype(np.uint8))
    dram.write(WINDOWS[Window.CONSTANTS].base, records(CONFIG.array_size))
    return dram


def mlp() -> list[Command]:
    """Return two layers with a clamp between them, every engine, prefetch and a buffer used twice.

    Rows: inputs 0, weights 16 and 32, records 48, sums of layer 1 at 64, clamped 80, result 96.
    """
    requantize = {"drain": Drain.REQUANTIZE, "record_row": 48, "m": 8}
    return [
        load(48, 16, Window.CONSTANTS),
        load(16, 8, Window.CONSTANTS, offset=64),
        load(0, 16, signal=X),
        matmul(
            wait=L, signal=X | V, k_tiles=2, act_row=0, act_pitch=8, weight_row=16, out_row=64,
            **requantize,
        ),
        load(32, 4, Window.CONSTANTS, offset=128, signal=X),
        copy(64, 80, 8, wait=X, signal=X | V, low=0),
        matmul(
            wait=L | V | X, signal=S | L, act_row=80, weight_row=32, out_row=96, **requantize
        ),
        store(96, 8, wait=X, signal=X | L),
        load(0, 16, offset=256, wait=X),
        copy(80, 112, 8, wait=V, signal=X),
        load(32, 4, Window.CONSTANTS, offset=128, wait=S, signal=X),
        matmul(
            wait=L | V | S, signal=S, act_row=112, weight_row=32, out_row=96, prefetch=0,
            **requantize,
        ),
        matmul(act_row=112, weight_row=32, out_row=128, prefetch=1, signal=S, **requantize),
        store(96, 8, offset=128, wait=X),
        store(128, 8, Window.SCRATCH, wait=X, signal=L),
        load(160, 8, Window.SCRATCH, wait=S, signal=S),
        store(160, 8, offset=256, wait=L),
        end(),
    ]  # fmt: skip
