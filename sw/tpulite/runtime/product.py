"""Products of two matrices of int8 on the machine: ``C = A B``, as ncnn's packed GEMM computes it.

A streams through the array, row by row; B is held by it, in tiles. The sums are int32; with a scale
they are requantized to int8.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tpulite.arch.config import Config
from tpulite.arch.numerics import INT32, Rounding
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.stages import traffic
from tpulite.configs import named_config
from tpulite.golden.timing import program_cycles
from tpulite.graph.layers import Activation, Conv, LayerGraph, Requantization
from tpulite.program import Program
from tpulite.quant.exactness.scaling import make_requantization
from tpulite.runtime.device import Device, require_device
from tpulite.runtime.session import Session

PRODUCT_ORDERS = ("fast", "document")
"""Orders of :func:`gemm`."""

_DOCUMENT = Options(order="panels", grouping=False, simplify=False)


@dataclass(frozen=True, eq=False)
class Product:
    """What :func:`gemm` returns.

    Parameters
    ----------
    output : ndarray of int32 or int8, [M, N]
        The product.
    cycles : int
        Cycles from start to interrupt, as the device counts them; where it has no clock, those of
        the cycle model.
    program : Program
        What ran.
    """

    output: np.ndarray
    cycles: int
    program: Program

    @property
    def dram_bytes(self) -> int:
        """Bytes that the program moves between DRAM and the chip, its commands included."""
        return traffic(self.program.commands, self.program.config)

    def __repr__(self) -> str:
        m, n = self.output.shape
        return (
            f"<Product {self.output.dtype}[{m}, {n}]: {self.cycles:,} cycles, "
            f"{self.dram_bytes:,} bytes of DRAM traffic>"
        )


def gemm(
    a: np.ndarray,
    b: np.ndarray,
    *,
    bias: ArrayLike | None = None,
    scale: ArrayLike | None = None,
    order: str = "fast",
    device: str | Device = "golden",
    config: str | Config = "16x16",
) -> Product:
    """Multiply two matrices of int8 on the machine.

    Parameters
    ----------
    a : ndarray of int8, [M, K]
        Streams through the array: M is never padded.
    b : ndarray of int8, [K, N]
        In tiles of the size of the array: K and N are padded to it.
    bias : int, or array_like of int, [N], optional
        Added to the int32 sums of each column, wrapping.
    scale : float, or array_like of float, [N], optional
        Float32, of all columns or of each: then the result is int8, else it is the int32 sums.
        What is computed is ``clip(rint(float32(sum + bias) * float32(scale)), -128, 127)``, where
        ``rint`` rounds half to even. Without a scale the machine has no place for a bias, so that
        the host adds it.
    order : str
        ``document``: for blocks of rows of A, for blocks of columns of B, all of K. Blocks are as
        wide as the array, and at most as high, of nearly equal height. ``fast``: what takes the
        fewest cycles of this and of what the compiler finds.
    device : str or Device
        ``golden`` in numpy, ``rtl`` for the Verilated chip, or a device of your own.
    config : str or Config
        The machine: ``"8x8"``, ``"16x16,ub_rows=4096"``.

    Returns
    -------
    Product
        The result, its cycles and the program. Sums are exact up to K = 131,071, and wrap beyond.

    Raises
    ------
    ValueError
        If an argument has a wrong dtype, shape or value, or the product does not fit the machine.
    RuntimeError
        If the machine stops at a fault.

    Examples
    --------
    >>> a, b = np.arange(6, dtype=np.int8).reshape(2, 3), np.ones((3, 1), np.int8)
    >>> gemm(a, b).output.tolist(), gemm(a, b, bias=[-1], scale=0.5).output.tolist()
    ([[3], [12]], [[1], [6]])
    """
    machine = named_config(config) if isinstance(config, str) else config
    if isinstance(device, str):
        require_device(device)
    if order not in PRODUCT_ORDERS:
        raise ValueError(f"order: must be one of {', '.join(PRODUCT_ORDERS)}, not {order!r}")
    _check_matrices(a, b)
    (m, k), n = a.shape, b.shape[1]
    added, scales = _integers("bias", bias, n), _floats("scale", scale, n)
    layer = Conv(
        name="gemm",
        inputs=("a",),
        output="c",
        weight=np.ascontiguousarray(b)[None, None],
        requantization=_requantization(added, scales, machine),
    )
    dtype = "int32" if scales is None else "int8"
    tensors = {"a": Activation((m, 1, k)), "c": Activation((m, 1, n), dtype)}
    layers = LayerGraph("gemm", (layer,), tensors, ("a",), ("c",))
    program = compile_layers(layers, machine, _DOCUMENT)
    if order == "fast":
        programs = compile_layers(layers, machine), program
        program = min(programs, key=program_cycles)
    results = Session(program, device).run(a.reshape(m, 1, k))
    output = results.output.reshape(m, n)
    if added is not None and scales is None:
        output += added
    cycles = results.cycles
    if cycles is None:
        cycles = program_cycles(program)
    return Product(output, cycles, program)


def _check_matrices(a: np.ndarray, b: np.ndarray) -> None:
    for name, matrix, extents in (("a", a, "[M, K]"), ("b", b, "[K, N]")):
        if not isinstance(matrix, np.ndarray) or matrix.dtype != np.int8:
            kind = getattr(matrix, "dtype", type(matrix).__name__)
            raise ValueError(f"{name}: must be an array of int8, not {kind}")
        if matrix.ndim != 2 or not matrix.size:
            raise ValueError(f"{name}: must be {extents}, with no extent of 0, not {matrix.shape}")
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"b: must have {a.shape[1]} rows, as a has columns, not {b.shape[0]}")


def _integers(name: str, values: ArrayLike | None, columns: int) -> np.ndarray | None:
    """Return biases as int32, [columns] or [1]."""
    if values is None:
        return None
    array = _by_column(name, values, columns)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name}: must be integers, not {array.dtype}")
    for value in array:
        if int(value) not in INT32:
            raise ValueError(f"{name}: must be int32, not {value}")
    return array.astype(np.int32)


def _floats(name: str, values: ArrayLike | None, columns: int) -> np.ndarray | None:
    """Return scales as float32, [columns] or [1]."""
    if values is None:
        return None
    array = _by_column(name, values, columns)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name}: must be floats, not {array.dtype}")
    with np.errstate(over="ignore", under="ignore"):
        singles = array.astype(np.float32)
    for value, single in zip(array, singles, strict=True):
        if not (np.isfinite(single) and single > 0):
            raise ValueError(f"{name}: must be above 0 and finite in float32, not {value}")
    return singles


def _by_column(name: str, values: ArrayLike, columns: int) -> np.ndarray:
    array = np.asarray(values)
    if array.shape not in ((), (1,), (columns,)):
        raise ValueError(
            f"{name}: must be one value, or {columns}, one for each column of b, not "
            f"{array.shape}; for one of each row multiply the transposes, gemm(b.T, a.T)"
        )
    return np.atleast_1d(array)


def _requantization(
    bias: np.ndarray | None, scales: np.ndarray | None, config: Config
) -> Requantization | None:
    if scales is None:
        return None
    if "float32" not in config.roundings:
        raise ValueError(
            f"scale: needs a machine that rounds float32, not {', '.join(config.roundings)}"
        )
    return make_requantization(
        scales.astype(np.float64), Rounding.FLOAT32, bias=0 if bias is None else bias
    )
