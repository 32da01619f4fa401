"""Attention as one operator, ONNX's and ONNX Runtime's, as products and a softmax."""

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

_FILTER = -10_000.0
"""What is added to scores of padding if a file does not say it."""

_FLOAT = 1  # onnx.TensorProto


def _padding(e: Expansion, index: int, tokens: int, filled: float) -> str | None:
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
    return e.add("Mul", other, e.constant(np.float32(filled)))


def _scores(
    e: Expansion, mask: int, bias: int, rows: int, columns: int, past: int
) -> list[str] | None:
    """Write what is added to scores: padding, order and a bias; None if that is not possible."""
    added = []
    if e.input(mask):
        filled = e.flags.get("mask_filter_value", _FILTER)
        key = ("padding", e.input(mask), columns, filled)
        padding = e.once(key, lambda: _padding(e, mask, columns, filled))
        if padding is None:
            return None
        added.append(padding)
    if e.flags.get("unidirectional", 0):
        added.append(causal(e, rows, columns, past))
    return [*added, *([e.input(bias)] if e.input(bias) else [])]


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
    sizes = flags.get("qkv_hidden_sizes") or (third, third, third)
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
    q, *kept = (apart(e, x, heads) for x in parts)
    for index in range(2 if past else 0):
        old = e.add("Gather", e.input(4), e.constant(np.array(index)), axis=0)
        kept[index] = e.add("Concat", old, kept[index], axis=2)
    if e.output(1):
        first = e.constant(np.array([0]))
        e.add("Concat", *(e.add("Unsqueeze", x, first) for x in kept), y=e.output(1), axis=0)
    y = attend(e, Heads(q, kept[0], kept[1], scale_of(e, sizes[0] // heads), added=added))
    flat(e, y, e.node.output[0])
    return True


def _multi_head(e: Expansion) -> bool:
    """Write MultiHeadAttention: q, k, v, bias, padding, added to scores, past k, past v.

    Keys and values are [B, T, H D], or [B, H, T, D] of another text.
    """
    heads, bias, query = int(e.flags["num_heads"]), e.value(3), e.shape(0)
    ranks = len(query), len(e.shape(1)), len(e.shape(2))
    if ranks not in ((FLAT, FLAT, FLAT), (FLAT, HEADS_APART, HEADS_APART)) or e.output(3):
        return False
    is_flat = ranks[1] == FLAT
    if (e.input(3) and (bias is None or not is_flat)) or e.input(8) or e.input(9):
        return False
    past = e.shape(6)
    rows, tokens, width = query[1], e.shape(1)[1 if is_flat else 2], query[2]
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
    q, k, v = (apart(e, x, heads) if i == 0 or is_flat else x for i, x in enumerate(parts))
    k, v = joined(e, 6, k, 1), joined(e, 7, v, 2)
    y = attend(e, Heads(q, k, v, scale_of(e, width // heads), added=added))
    flat(e, y, e.node.output[0])
    return True


def _standard(e: Expansion) -> bool:
    """Write ``Attention`` of ONNX: q, k, v, mask, past k, past v."""
    flags = e.flags
    shapes = [e.shape(index) for index in range(3)]
    rank = len(shapes[0])
    if rank not in (FLAT, HEADS_APART) or any(len(x) != rank or 0 in x[1:] for x in shapes):
        return False
    if e.output(3) or e.input(6) or flags.get("left_window_size", -1) >= 0:
        return False
    if flags.get("right_window_size", -1) >= 0:
        return False
    is_flat = rank == FLAT
    counts = [flags.get("q_num_heads", 0), *[flags.get("kv_num_heads", 0)] * 2]
    counts = counts if is_flat else [x[1] for x in shapes]
    if 0 in counts or counts[1] != counts[2]:
        return False
    rows, tokens = (x[1 if is_flat else 2] for x in shapes[:2])
    depth = shapes[0][-1] // (counts[0] if is_flat else 1)
    past = e.shape(4)
    if e.input(4) and (len(past) != 4 or not past[2]):
        return False
    before = past[2] if past else 0
    mask = e.shape(3)
    if e.input(3) and (not mask or mask[-1] != before + tokens):
        return False
    added = [causal(e, rows, before + tokens, before)] if flags.get("is_causal", 0) else []
    if e.input(3):
        added.append(_added(e, 3))
    parts = [e.input(index) for index in range(3)]
    q, k, v = (apart(e, x, n) if is_flat else x for x, n in zip(parts, counts, strict=True))
    k, v = joined(e, 4, k, 1), joined(e, 5, v, 2)
    copies, shape = counts[0] // counts[1], (0, counts[0], -1, depth)
    if copies > 1 and shapes[2][-1] // (counts[2] if is_flat else 1) != depth:
        return False
    cap = float(flags.get("softcap", 0))
    heads = Heads(q, k, v, scale_of(e, depth), copies, shape, cap, added)
    if is_flat:
        flat(e, attend(e, heads), e.node.output[0])
    else:
        attend(e, heads, e.node.output[0])
    return True


def _added(e: Expansion, index: int) -> str:
    """Write what is added for a mask: floats are, and false is hidden."""
    value = e.value(index)
    if value is not None and value.dtype == bool:
        return e.constant(np.where(value, np.float32(0), LOWEST))
    if value is not None or not e.axes.is_boolean(e.input(index)):
        return e.input(index)
    return e.add("Where", e.input(index), e.constant(np.float32(0)), e.constant(LOWEST))


ATTENTION: Rules = {
    ("", "Attention"): _standard,
    (CONTRIBUTED, "Attention"): _projected,
    (CONTRIBUTED, "MultiHeadAttention"): _multi_head,
}
