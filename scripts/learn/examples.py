"""The small products and convolutions that the pages show, and their recordings."""

from functools import cache

import numpy as np

from learn.recording import Recording, record
from tpulite.arch.config import Config
from tpulite.arch.isa import Command, Drain, Opcode, RecordForm, dense
from tpulite.arch.numerics import Rounding, quantize_multiplier
from tpulite.layout.records import pack_records
from tpulite.layout.weights import pack_weights

MACHINE = Config(array_size=4, ub_rows=256, acc_rows=64)
"""The 4x4 machine of the pages."""

N = MACHINE.array_size
_SEED = 893
"""With few zeros, and no result near a tie."""

_draw = np.random.default_rng(_SEED)


class Product:
    """A matrix product.

    Parameters
    ----------
    m, k : int
        Rows of A, and columns of it; a multiple of N.
    """

    def __init__(self, m: int, k: int) -> None:
        self.a = _draw.integers(-5, 10, (m, k)).astype(np.int8)
        self.w = _draw.integers(-5, 10, (k, N)).astype(np.int8)

    @property
    def tiles(self) -> int:
        """Number of k-tiles."""
        return self.a.shape[1] // N


PRODUCTS = {"plain": Product(6, 4), "tiles": Product(6, 8), "vector": Product(1, 16)}
IMAGE = _draw.integers(0, 10, (3, 3, N)).astype(np.int8)
KERNEL = _draw.integers(-3, 4, (3, 3, N, N)).astype(np.int8)
"""[kernel row, kernel column, input channel, output channel]"""

SCALE = 0.31

RECORDS = [
    {
        "bias": bias,
        "multiplier": quantize_multiplier(SCALE)[0],
        "shift": quantize_multiplier(SCALE)[1],
        "rounding": Rounding.SINGLE,
        "zero_point": -8,
        "low": -128,
        "high": 127,
    }
    for bias in (12, -20, 5, 0)
]
"""How the channels of the draining products are requantized: one scale, four biases."""

_ROWS = {"activations": 0, "weights": 64, "records": 200, "output": 224}
"""Where things lie in the unified buffer."""


@cache
def recordings() -> dict[str, Recording]:
    """Return the recordings of all products and of the convolution, from one simulation."""
    buffer = np.zeros((MACHINE.ub_rows, N), np.int8)
    act, weights = _ROWS["activations"], _ROWS["weights"]
    records = pack_records(RECORDS, MACHINE, RecordForm.SHORT).view(np.int8)
    buffer[_ROWS["records"] : _ROWS["records"] + len(records)] = records
    commands = {}

    def place(a: np.ndarray, tiles: np.ndarray) -> tuple[int, int]:
        """Put vectors and weight tiles behind those of the commands before."""
        nonlocal act, weights
        at = act, weights
        for rows, start in ((a.reshape(-1, N), act), (tiles.reshape(-1, N), weights)):
            buffer[start : start + len(rows)] = rows
        act, weights = act + a.size // N, weights + tiles.size // N
        return at

    for name, product in PRODUCTS.items():
        m = len(product.a)
        vectors = product.a.reshape(m, product.tiles, N).swapaxes(0, 1)
        act_row, weight_row = place(vectors, pack_weights(product.w, MACHINE))
        drain = Drain.KEEP if name == "plain" else Drain.REQUANTIZE
        shape = dense(m=m, k_tiles=product.tiles, act_row=act_row, act_pitch=m, drain=drain)
        fields = {
            "weight_row": weight_row,
            "record_row": _ROWS["records"],
            "record_form": RecordForm.SHORT,
        }
        commands[name] = shape | fields | {"out_row": _ROWS["output"]}

    act_row, weight_row = place(IMAGE, KERNEL)
    side = IMAGE.shape[0]
    commands["conv"] = {
        **{"rows": side, "columns": side, "height": side, "width": side, "act_pitch": side},
        **{"stride_y": 1, "stride_x": 1, "dilation_y": 1, "dilation_x": 1, "blocks": 1},
        **{"kernel_rows": 3, "kernel_columns": 3, "pad_top": 1, "pad_left": 1},
        **{"act_row": act_row, "weight_row": weight_row, "drain": Drain.KEEP},
    }
    made = [Command.make(Opcode.CONV, **fields) for fields in commands.values()]
    return dict(zip(commands, record(MACHINE, buffer, made), strict=True))
