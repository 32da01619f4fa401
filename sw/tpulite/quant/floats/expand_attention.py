"""Attention as one operator, ONNX's and ONNX Runtime's, as products and a softmax.

Heads, masks and copies of shared heads are written as exporters write them.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from tpulite.frontend.onnx.library import CONTRIBUTED
from tpulite.quant.floats.expand_rotary import rotate
from tpulite.quant.floats.expansion import Expansion, Rules

__all__ = ["ATTENTION"]

_LOWEST = np.finfo(np.float32).min
"""What is added to scores of tokens that a token must not see."""

_FILTER = -10_000.0
"""What is added to scores of padding if a file does not say it."""

_FLOAT, _INT64, _BOOL = 1, 7, 9  # onnx.TensorProto

_HEADS_APART, _FLAT = 4, 3
"""Axes of a tensor with heads, [B, H, T, D], and of one whose channels hold them, [B, T, H D]."""


@dataclass
class _Heads:
    """Queries, keys and values: [B, H, S, D], [B, K, T, D], [B, K, T, D]."""

    q: str
    k: str
    v: str
    scale: float  #: Factor of scores.
    copies: int = 1  #: Heads of queries for each head of keys.
    shape: tuple[int, ...] = ()  #: Shape of keys with copies, if there are copies: see Reshape.
    softcap: float = 0.0  #: Bound of scores; 0: none.
    added: list[str] = field(default_factory=list)  #: What is added to scores.


def _attend(e: Expansion, heads: _Heads, y: str = "") -> str:
    """Write attention; return the name of its result: [B, H, S, D]."""
    k, v = (_repeat(e, x, heads) for x in (heads.k, heads.v))
    scores = e.add("MatMul", heads.q, e.add("Transpose", k, perm=[0, 1, 3, 2]))
    if heads.scale != 1:
        scores = e.add("Mul", scores, e.constant(np.float32(heads.scale)))
    if heads.softcap:
        inner = e.add("Mul", scores, e.constant(np.float32(1 / heads.softcap)))
        scores = e.add("Mul", e.add("Tanh", inner), e.constant(np.float32(heads.softcap)))
    for each in heads.added:
        scores = e.add("Add", scores, each)
    return e.add("MatMul", e.add("Softmax", scores, axis=-1), v, y=y)


def _repeat(e: Expansion, x: str, heads: _Heads) -> str:
    """Write a copy of each head for all that share it."""
    if heads.copies == 1:
        return x
    apart = e.add("Unsqueeze", x, e.constant(np.array([2])))
    y = e.add("Expand", apart, e.constant(np.array([1, 1, heads.copies, 1, 1])))
    return e.add("Reshape", y, e.constant(np.array(heads.shape)))


def _apart(e: Expansion, x: str, heads: int, y: str = "") -> str:
    """Write [B, T, H D] as [B, H, T, D]."""
    x = e.add("Reshape", x, e.constant(np.array([0, 0, heads, -1])))
    return e.add("Transpose", x, y=y, perm=[0, 2, 1, 3])


def _flat(e: Expansion, x: str, y: str) -> None:
    """Write [B, H, T, D] as [B, T, H D]."""
    x = e.add("Transpose", x, perm=[0, 2, 1, 3])
    e.add("Reshape", x, e.constant(np.array([0, 0, -1])), y=y)


def _causal(e: Expansion, rows: int, columns: int, past: int, window: int = -1) -> str:
    """Write what is added so that a token sees itself and those before; ``window`` in all."""
    ahead = np.arange(columns) - np.arange(rows)[:, None] - past
    hidden = (ahead > 0) | ((ahead <= -window) & (window > 0))
    return e.constant(np.where(hidden, _LOWEST, np.float32(0))[None, None])


def _padding(e: Expansion, index: int, tokens: int) -> str | None:
    """Write what is added for an input that says which of the keys are no padding.

    Its shape is [B], how many are none, [B, T] or [B, S, T], with 1 for those; None if it is
    another one, or not known.
    """
    shape, mask = e.shape(index), e.input(index)
    if shape == [1] and tokens > 1:
        mask = e.add("Less", e.constant(np.arange(tokens, dtype=np.int32)[None]), mask)
    elif len(shape) not in (2, 3) or shape[-1] != tokens:
        return None
    kept = e.add("Cast", mask, to=_FLOAT)
    wide = e.add("Unsqueeze", kept, e.constant(np.array([1, 2] if len(shape) < 3 else [1])))
    other = e.add("Sub", e.constant(np.float32(1)), wide)
    return e.add("Mul", other, e.constant(np.float32(e.flags.get("mask_filter_value", _FILTER))))


def _scores(
    e: Expansion, mask: int, bias: int, rows: int, columns: int, past: int
) -> list[str] | None:
    """Write what is added to scores: padding, order and a bias; None if that is not possible."""
    added = []
    if e.input(mask):
        padding = _padding(e, mask, columns)
        if padding is None:
            return None
        added.append(padding)
    if e.flags.get("unidirectional", 0):
        added.append(_causal(e, rows, columns, past))
    return [*added, *([e.input(bias)] if e.input(bias) else [])]


def _scale(e: Expansion, depth: int) -> float:
    return float(e.flags.get("scale", 0) or 1 / math.sqrt(depth))


def _joined(e: Expansion, past: int, new: str, present: int) -> str:
    """Write keys or values behind those of earlier tokens."""
    y = e.output(present)
    if e.input(past):
        return e.add("Concat", e.input(past), new, y=y, axis=2)
    return e.add("Identity", new, y=y) if y else new


def _projected(e: Expansion) -> bool:
    """Write ``Attention`` of ONNX Runtime's: x, weights, bias, mask, past, added to scores.

    Weights and bias are those of queries, keys and values side by side.
    """
    flags, weights, bias = e.flags, e.value(1), e.value(2)
    rows = (e.shape(0) or [0, 0])[1]
    if weights is None or (e.input(2) and bias is None) or not rows:
        return False
    if flags.get("do_rotary", 0) or flags.get("past_present_share_buffer", 0):
        return False
    heads, third = int(flags["num_heads"]), weights.shape[1] // 3
    sizes = flags.get("qkv_hidden_sizes", (third, third, third))
    past = e.shape(4)
    if e.input(4) and (len(past) != 5 or not past[3]):
        return False
    before = past[3] if past else 0
    added = _scores(e, 3, 5, rows, rows + before, before)
    if added is None:
        return False
    ends = np.cumsum(sizes)[:-1]
    parts = [e.add("MatMul", e.input(0), e.constant(x)) for x in np.split(weights, ends, axis=1)]
    if bias is not None:
        biases = np.split(bias, ends)
        parts = [e.add("Add", x, e.constant(b)) for x, b in zip(parts, biases, strict=True)]
    q, *kept = (_apart(e, x, heads) for x in parts)
    for index in range(2 if past else 0):
        old = e.add("Gather", e.input(4), e.constant(np.array(index)), axis=0)
        kept[index] = e.add("Concat", old, kept[index], axis=2)
    if e.output(1):
        first = e.constant(np.array([0]))
        e.add("Concat", *(e.add("Unsqueeze", x, first) for x in kept), y=e.output(1), axis=0)
    y = _attend(e, _Heads(q, *kept, _scale(e, sizes[0] // heads), added=added))
    _flat(e, y, e.node.output[0])
    return True


def _multi_head(e: Expansion) -> bool:
    """Write MultiHeadAttention: q, k, v, bias, padding, added to scores, past k, past v.

    Keys and values are [B, T, H D], or [B, H, T, D] of another text.
    """
    heads, bias, query = int(e.flags["num_heads"]), e.value(3), e.shape(0)
    ranks = len(query), len(e.shape(1)), len(e.shape(2))
    if ranks not in ((_FLAT, _FLAT, _FLAT), (_FLAT, _HEADS_APART, _HEADS_APART)) or e.output(3):
        return False
    flat = ranks[1] == _FLAT
    if (e.input(3) and (bias is None or not flat)) or e.input(8) or e.input(9):
        return False
    past = e.shape(6)
    rows, tokens, width = query[1], e.shape(1)[1 if flat else 2], query[2]
    if 0 in (rows, tokens, width) or (e.input(6) and (len(past) != 4 or not past[2])):
        return False
    before = past[2] if past else 0
    added = _scores(e, 4, 5, rows, tokens + before, before)
    if added is None:
        return False
    parts = [e.input(index) for index in range(3)]
    if bias is not None:
        biases = np.split(bias, [width, 2 * width])
        parts = [e.add("Add", x, e.constant(b)) for x, b in zip(parts, biases, strict=True)]
    q, k, v = (_apart(e, x, heads) if i == 0 or flat else x for i, x in enumerate(parts))
    k, v = _joined(e, 6, k, 1), _joined(e, 7, v, 2)
    y = _attend(e, _Heads(q, k, v, _scale(e, width // heads), added=added))
    _flat(e, y, e.node.output[0])
    return True


_GROUPED = {"do_rotary", "rotary_interleaved", "num_heads", "kv_num_heads", "scale", "softcap"}
"""Attributes of GroupQueryAttention that may say anything."""

_USUAL = {
    **{"causal": 1, "smooth_softmax": 0, "sliding_window_cache": 0, "qk_output": 0},
    **{"k_quant_type": "NONE", "v_quant_type": "NONE"},
}
"""What the others must say."""


def _grouped(e: Expansion) -> bool:
    """Write GroupQueryAttention: q, k, v, past k, past v, tokens - 1, tokens, cosines, sines.

    Further inputs are positions, and what is added to scores. Queries may hold keys and values
    behind them. Where the tokens are less than the past and the new ones, the first ones of the
    past count, as many as there are.
    """
    flags, query, past = e.flags, e.shape(0), e.shape(3)
    count, shared = int(flags["num_heads"]), int(flags["kv_num_heads"])
    if any(flags.get(name, value) != value for name, value in _USUAL.items()):
        return False
    if any(map(e.input, range(11, 17))) or e.output(3) or len(query) != _FLAT or 0 in query[1:]:
        return False
    packed, rows = not e.input(1), query[1]
    depth = query[2] // (count + 2 * shared if packed else count)
    before = past[2] if len(past) == 4 else 0
    total = e.value(6)
    if (e.input(3) and len(past) != 4) or (before and total is None):
        return False
    if total is not None and int(total.item()) != before + rows:
        return False
    parts = [e.input(index) for index in range(3)]
    if packed:
        parts = _split(e, parts[0], (count * depth, shared * depth, shared * depth))
    q, k, v = (_apart(e, x, n) for x, n in zip(parts, (count, shared, shared), strict=True))
    seen = e.value(5)
    if seen is not None and (seen != before + rows - 1).any():
        return False
    places: str | np.ndarray = np.arange(before, before + rows)[None]
    added = [_causal(e, rows, before + rows, before, flags.get("local_window_size", -1))]
    if before and seen is None:
        if flags.get("local_window_size", -1) > 0:
            return False  # where a window begins would be computed
        valid, hidden = _valid(e, before, rows)
        places = e.add("Add", valid, e.constant(np.arange(rows)[None]))
        added.append(hidden)
    if flags.get("do_rotary", 0):
        tables = e.value(7), e.value(8)
        if tables[0] is None or tables[1] is None or 2 * tables[0].shape[1] != depth:
            return False
        if e.input(9):
            known = e.value(9)
            places = e.input(9) if known is None else known
        pairs = bool(flags.get("rotary_interleaved", 0))
        q, k = (rotate(e, x, (tables[0], tables[1]), places, pairs=pairs) for x in (q, k))
    if before:
        k, v = _joined(e, 3, k, 1), _joined(e, 4, v, 2)
    else:
        for index, x in ((1, k), (2, v)):
            if e.output(index):
                e.add("Identity", x, y=e.output(index))
    added += [e.input(10)] if e.input(10) else []
    shape = (0, count, -1, depth)
    cap = float(flags.get("softcap", 0))
    scale = _scale(e, depth)
    y = _attend(e, _Heads(q, k, v, scale, count // shared, shape, cap, added))
    _flat(e, y, e.node.output[0])
    return True


def _split(e: Expansion, x: str, sizes: tuple[int, ...]) -> list[str]:
    """Write channels side by side as tensors of their own."""
    ends = np.cumsum((0, *sizes))
    axis = e.constant(np.array([2]))
    return [
        e.add("Slice", x, e.constant(ends[i : i + 1]), e.constant(ends[i + 1 : i + 2]), axis)
        for i in range(len(sizes))
    ]


def _valid(e: Expansion, before: int, rows: int) -> tuple[str, str]:
    """Write how many tokens of the past count, [B, 1], and what is added for the others."""
    counted = e.add("Cast", e.input(5), to=_INT64)
    counted = e.add("Unsqueeze", counted, e.constant(np.array([1])))
    valid = e.add("Sub", counted, e.constant(np.array(rows - 1)))
    places = np.where(np.arange(before + rows) < before, np.arange(before + rows), -1)
    kept = e.add("Cast", e.add("Less", e.constant(places[None]), valid), to=_FLOAT)
    other = e.add("Sub", e.constant(np.float32(1)), kept)
    far = e.add("Mul", other, e.constant(_LOWEST))
    return valid, e.add("Unsqueeze", far, e.constant(np.array([1, 2])))


def _standard(e: Expansion) -> bool:
    """Write ``Attention`` of ONNX: q, k, v, mask, past k, past v."""
    flags = e.flags
    shapes = [e.shape(index) for index in range(3)]
    rank = len(shapes[0])
    if rank not in (_FLAT, _HEADS_APART) or any(len(x) != rank or 0 in x[1:] for x in shapes):
        return False
    if e.output(3) or e.input(6) or flags.get("left_window_size", -1) >= 0:
        return False
    if flags.get("right_window_size", -1) >= 0:
        return False
    flat = rank == _FLAT
    counts = [flags.get("q_num_heads", 0), *[flags.get("kv_num_heads", 0)] * 2]
    counts = counts if flat else [x[1] for x in shapes]
    if 0 in counts or counts[1] != counts[2]:
        return False
    rows, tokens = (x[1 if flat else 2] for x in shapes[:2])
    depth = shapes[0][-1] // (counts[0] if flat else 1)
    past = e.shape(4)
    if e.input(4) and (len(past) != 4 or not past[2]):
        return False
    before = past[2] if past else 0
    mask = e.shape(3)
    if e.input(3) and (not mask or mask[-1] != before + tokens):
        return False
    added = [_causal(e, rows, before + tokens, before)] if flags.get("is_causal", 0) else []
    if e.input(3):
        added.append(_added(e, 3))
    parts = [e.input(index) for index in range(3)]
    q, k, v = (_apart(e, x, n) if flat else x for x, n in zip(parts, counts, strict=True))
    k, v = _joined(e, 4, k, 1), _joined(e, 5, v, 2)
    copies, shape = counts[0] // counts[1], (0, counts[0], -1, depth)
    if copies > 1 and shapes[2][-1] // (counts[2] if flat else 1) != depth:
        return False
    cap = float(flags.get("softcap", 0))
    heads = _Heads(q, k, v, _scale(e, depth), copies, shape, cap, added)
    if flat:
        _flat(e, _attend(e, heads), e.node.output[0])
    else:
        _attend(e, heads, e.node.output[0])
    return True


def _added(e: Expansion, index: int) -> str:
    """Write what is added for a mask: floats are, and false is hidden."""
    value = e.value(index)
    if value is not None and value.dtype == bool:
        return e.constant(np.where(value, np.float32(0), _LOWEST))
    if value is not None or not e.axes.is_boolean(e.input(index)):
        return e.input(index)
    return e.add("Where", e.input(index), e.constant(np.float32(0)), e.constant(_LOWEST))


ATTENTION: Rules = {
    ("", "Attention"): _standard,
    (CONTRIBUTED, "Attention"): _projected,
    (CONTRIBUTED, "MultiHeadAttention"): _multi_head,
    (CONTRIBUTED, "GroupQueryAttention"): _grouped,
}
