"""Rotations by position, ONNX's and ONNX Runtime's, as a product with a matrix of 1, 0 and -1."""

import numpy as np

from tpulite.frontend.onnx.library import CONTRIBUTED
from tpulite.quant.floats.attend import FLAT, HEADS_APART
from tpulite.quant.floats.expansion import Expansion, Rules


def _contributed(e: Expansion) -> bool:
    """Rotate channels: x, positions, cosines, sines."""
    if e.flags.get("is_packed_batching") or e.flags.get("scale", 1.0) != 1:
        return False
    return _rotary(e, e.input(2), e.input(3), e.input(1))


def _standard(e: Expansion) -> bool:
    """Rotate channels: x, cosines, sines, perhaps positions."""
    return _rotary(e, e.input(1), e.input(2), e.input(3))


def _rotary(e: Expansion, cos: str, sin: str, positions: str) -> bool:
    """Rotate, if all channels of a head are rotated."""
    tables = [e.links.constants.get(name) for name in (cos, sin)]
    heads, pairs = int(e.flags.get("num_heads", 0)), bool(e.flags.get("interleaved", 0))
    if tables[0] is None or tables[1] is None or e.flags.get("rotary_embedding_dim", 0):
        return False
    index, rank = e.links.constants.get(positions), e.axes.rank(e.input(0)) or (heads and FLAT)
    if positions and (e.axes.rank(positions) if index is None else index.ndim) != 2:
        return False
    if rank not in (HEADS_APART, FLAT):
        return False
    x, y, width = e.input(0), e.node.output[0], 2 * tables[0].shape[-1]
    flat = rank == FLAT
    places = positions if index is None else index
    rotation = Rotation(e, (tables[0], tables[1]), places, pairs=pairs, axis=2 if flat else 1)
    if not flat:
        rotation.apply(e, x, y)
        return True
    x = e.add("Reshape", x, e.constant(np.array([0, 0, -1, width])))
    e.add("Reshape", rotation.apply(e, x), e.constant(np.array([0, 0, -1])), y=y)
    return True


class Rotation:
    """Cosines and sines of tokens, written once for all that they rotate.

    Parameters
    ----------
    e : Expansion
        Where it is written.
    tables : tuple of ndarray
        Cosines and sines, each [positions, D / 2], or of each token if no positions are given.
    positions : str or ndarray
        Rows of the tables, [B, T]: the name of a tensor, or known; empty if there are none.
    pairs : bool
        Whether neighbors are turned, not channels of both halves.
    axis : int
        Axis of the heads of what they rotate.
    """

    def __init__(
        self,
        e: Expansion,
        tables: tuple[np.ndarray, np.ndarray],
        positions: str | np.ndarray,
        *,
        pairs: bool = False,
        axis: int = 1,
    ) -> None:
        self._turn = _turn(tables[0].shape[-1], pairs)
        self._factors = []
        for table in tables:
            wide = np.repeat(table, 2, -1) if pairs else np.concatenate([table, table], -1)
            if isinstance(positions, str) and positions:
                gathered = e.add("Gather", e.constant(wide), positions)
                self._factors.append(e.add("Unsqueeze", gathered, e.constant(np.array([axis]))))
            else:
                chosen = wide if isinstance(positions, str) else wide[positions]
                self._factors.append(e.constant(np.expand_dims(chosen, axis)))

    def apply(self, e: Expansion, x: str, y: str = "") -> str:
        """Write x * cos + turned(x) * sin; return the name of the result, ``y`` if given."""
        turned = e.add("MatMul", x, e.constant(self._turn))
        pairs = zip((x, turned), self._factors, strict=True)
        return e.add("Add", *(e.add("Mul", *each) for each in pairs), y=y)


def _turn(half: int, pairs: bool) -> np.ndarray:
    """Return the matrix that turns each pair of channels by 90 degrees: float32 [D, D]."""
    low = np.arange(0, 2 * half, 2) if pairs else np.arange(half)
    high = low + 1 if pairs else low + half
    matrix = np.zeros((2 * half, 2 * half), np.float32)
    matrix[high, low], matrix[low, high] = -1, 1
    return matrix


ROTATIONS: Rules = {
    (CONTRIBUTED, "RotaryEmbedding"): _contributed,
    ("", "RotaryEmbedding"): _standard,
}
