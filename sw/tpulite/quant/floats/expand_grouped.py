"""GroupQueryAttention of ONNX Runtime's, as onnxruntime-genai writes decoders."""

from dataclasses import dataclass

import numpy as np

from tpulite.frontend.onnx.library import CONTRIBUTED
from tpulite.quant.floats.attend import (
    FLAT,
    HEADS_APART,
    LOWEST,
    Heads,
    apart,
    attend,
    causal,
    flat,
    joined,
    scale_of,
)
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


_FLOAT, _INT64 = 1, 7  # onnx.TensorProto

_USUAL = {
    **{"causal": 1, "sliding_window_cache": 0, "qk_output": 0},
    **{"k_quant_type": "NONE", "v_quant_type": "NONE"},
}
"""What attributes of GroupQueryAttention must say."""


@dataclass(frozen=True)
class _Sizes:
    """Extents of attention of grouped heads."""

    count: int  #: Heads of queries.
    shared: int  #: Heads of keys and values.
    depth: int  #: Channels of a head.
    rows: int  #: New tokens.
    before: int  #: Tokens of the past that there is room for.


def _grouped(e: Expansion) -> bool:
    """Write GroupQueryAttention: q, k, v, past k, past v, tokens - 1, tokens, cosines, sines.

    Further inputs are positions, and what is added to scores. Queries may hold keys and values
    behind them. Where the tokens are less than the past and the new ones, the first ones of the
    past count, as many as there are.
    """
    sizes = _sizes(e)
    if sizes is None:
        return False
    before, rows, seen = sizes.before, sizes.rows, e.value(5)
    if seen is not None and (seen != before + rows - 1).any():
        return False
    window = int(e.flags.get("local_window_size", -1))
    places: str | np.ndarray = np.arange(before, before + rows)[None]
    added = [causal(e, rows, before + rows, before, window)]
    if before and seen is None:
        if window > 0 or e.input(10):
            return False  # where the new tokens are among the others would be computed
        places, hidden = e.once(("past", e.input(5), before, rows), lambda: _past(e, before, rows))
        added.append(hidden)
    added += [e.input(10)] if e.input(10) else []
    q, k, v = _parts(e, sizes)
    if e.flags.get("do_rotary", 0):
        rotation = _rotation(e, places, sizes.depth)
        if rotation is None:
            return False
        q, k = rotation.apply(e, q), rotation.apply(e, k)
    k, v = (joined(e, i + 2 if before else None, x, i) for i, x in ((1, k), (2, v)))
    copies, shape = sizes.count // sizes.shared, (0, sizes.count, -1, sizes.depth)
    cap = float(e.flags.get("softcap", 0))
    heads = Heads(q, k, v, scale_of(e, sizes.depth), copies, shape, cap, added)
    flat(e, attend(e, heads), e.node.output[0])
    return True


def _sizes(e: Expansion) -> _Sizes | None:
    """Return the extents; None if they are not known, or the operator means something rarer."""
    flags, query, past, total = e.flags, e.shape(0), e.shape(3), e.value(6)
    if any(flags.get(name, value) != value for name, value in _USUAL.items()):
        return None
    if flags.get("smooth_softmax", 0) > 0:  # -1 is none
        return None
    if any(map(e.input, range(11, 17))) or e.output(3) or len(query) != FLAT or 0 in query[1:]:
        return None
    if e.input(3) and (len(past) != HEADS_APART or total is None):
        return None
    count, shared = int(flags["num_heads"]), int(flags["kv_num_heads"])
    depth = query[2] // (count if e.input(1) else count + 2 * shared)
    before = past[2] if past else 0
    if total is not None and int(total.item()) != before + query[1]:
        return None
    return _Sizes(count, shared, depth, query[1], before)


def _parts(e: Expansion, sizes: _Sizes) -> list[str]:
    """Write queries, keys and values with their heads apart."""
    counts = (sizes.count, sizes.shared, sizes.shared)
    parts = [e.input(index) for index in range(3)]
    if not e.input(1):
        parts = _split(e, parts[0], [n * sizes.depth for n in counts])
    return [apart(e, x, n) for x, n in zip(parts, counts, strict=True)]


def _rotation(e: Expansion, places: str | np.ndarray, depth: int) -> Rotation | None:
    """Write cosines and sines of tokens; None if some channels of a head are not rotated."""
    cos, sin, given = e.value(7), e.value(8), e.value(9)
    if cos is None or sin is None or 2 * cos.shape[1] != depth:
        return None
    if e.input(9):
        places = e.input(9) if given is None else given
    pairs = bool(e.flags.get("rotary_interleaved", 0))
    given_by = places if isinstance(places, str) else places.tobytes()
    key = ("rotation", e.input(7), e.input(8), given_by, pairs)
    return e.once(key, lambda: Rotation(e, (cos, sin), places, pairs=pairs))


def _split(e: Expansion, x: str, sizes: list[int]) -> list[str]:
    """Write channels side by side as tensors of their own."""
    ends = np.cumsum([0, *sizes])
    axis = e.constant(np.array([2]))
    return [
        e.add("Slice", x, e.constant(ends[i : i + 1]), e.constant(ends[i + 1 : i + 2]), axis)
        for i in range(len(sizes))
    ]


def _past(e: Expansion, before: int, rows: int) -> tuple[str, str]:
    """Write positions of new tokens, [B, S], and what is added for places of the past not taken."""
    counted = e.add("Cast", e.input(5), to=_INT64)
    counted = e.add("Unsqueeze", counted, e.constant(np.array([1])))
    valid = e.add("Sub", counted, e.constant(np.array(rows - 1)))
    places = np.where(np.arange(before + rows) < before, np.arange(before + rows), -1)
    kept = e.add("Cast", e.add("Less", e.constant(places[None]), valid), to=_FLOAT)
    other = e.add("Sub", e.constant(np.float32(1)), kept)
    far = e.add("Mul", other, e.constant(LOWEST))
    hidden = e.add("Unsqueeze", far, e.constant(np.array([1, 2])))
    return e.add("Add", valid, e.constant(np.arange(rows)[None])), hidden


GROUPED: Rules = {(CONTRIBUTED, "GroupQueryAttention"): _grouped}
