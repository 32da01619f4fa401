"""Normalizations of ONNX Runtime's, alone, of sums and of embeddings, as standard operators."""

import numpy as np

from tpulite.frontend.onnx.library import CONTRIBUTED
from tpulite.quant.floats.expansion import Expansion, Rules

_AXES_INPUT = 18
"""Version from which the axes of a mean are an input."""

_EPSILON, _EPSILON_OF_SUMS = 1e-5, 1e-12
"""What normalizations, and those of sums, add to variances if a file does not say it."""

LAYER_NORM = 17
"""Version that brought LayerNormalization; ONNX Runtime writes it in older files, too."""

_INT32 = 6  # onnx.TensorProto.INT32


def _simplified(e: Expansion) -> bool:
    """Normalize by the root mean square: x, factors."""
    if e.flags.get("axis", -1) != -1 or e.output(1):
        return False
    _rms(e, e.input(0), e.input(1), _EPSILON)
    return True


def _skip_simplified(e: Expansion) -> bool:
    """Normalize a sum: x, skip, factors, bias; the sum is the last output."""
    if e.output(1) or e.output(2):
        return False
    _rms(e, _sum(e, e.input(3)), e.input(2), _EPSILON_OF_SUMS)
    return True


def _skip(e: Expansion) -> bool:
    """Normalize a sum: x, skip, factors, addends, bias; the sum is the last output."""
    if e.output(1) or e.output(2):
        return False
    _layer_norm(e, _sum(e, e.input(4)), e.input(2), e.input(3))
    return True


def _old(e: Expansion) -> bool:
    """Write LayerNormalization in a file whose version does not have it: x, factors, addends."""
    last = e.flags.get("axis", -1) in (-1, len(e.shape(0)) - 1)
    if not last or e.output(1) or e.output(2):
        return False
    _layer_norm(e, e.input(0), e.input(1), e.input(2), _EPSILON)
    return True


def _layer_norm(
    e: Expansion, x: str, gamma: str, beta: str, usual: float = _EPSILON_OF_SUMS
) -> None:
    """Normalize; ``usual`` is the epsilon of a node that has none."""
    epsilon, y = e.flags.get("epsilon", usual), e.node.output[0]
    if e.written.opset >= LAYER_NORM:
        given = [gamma, *([beta] if beta else [])]
        e.add("LayerNormalization", x, *given, y=y, axis=-1, epsilon=epsilon)
        return
    apart = e.add("Sub", x, _mean(e, x))
    scaled = _scale(e, apart, epsilon, gamma, "" if beta else y)
    if beta:
        e.add("Add", scaled, beta, y=y)


def _sum(e: Expansion, bias: str) -> str:
    """Add both inputs, and a bias to the one that is a product."""
    first, second = e.input(0), e.input(1)
    if bias:
        writer = e.links.writer.get(second)
        if writer is not None and writer.op_type == "MatMul":
            second = e.add("Add", second, bias)
        else:
            first = e.add("Add", first, bias)
    return e.add("Add", first, second, y=e.output(3))


def _rms(e: Expansion, x: str, gamma: str, usual: float) -> None:
    """Divide by the root mean square; ``usual`` is the epsilon of a node that has none."""
    _scale(e, x, e.flags.get("epsilon", usual), gamma, e.node.output[0])


def _scale(e: Expansion, x: str, epsilon: float, gamma: str, y: str) -> str:
    """Divide by the root of the mean square, and multiply with factors; return the name."""
    mean = _mean(e, e.add("Mul", x, x))
    root = e.add("Sqrt", e.add("Add", mean, e.constant(np.float32(epsilon))))
    return e.add("Mul", e.add("Div", x, root), gamma, y=y)


def _mean(e: Expansion, x: str) -> str:
    """Write the mean along the last axis."""
    if e.written.opset < _AXES_INPUT:
        return e.add("ReduceMean", x, axes=[-1])
    return e.add("ReduceMean", x, e.constant(np.array([-1])))


def _embed(e: Expansion) -> bool:
    """Add embeddings of words, positions and segments, and normalize the sum.

    Inputs are words, segments, the tables of words, positions and segments, factors, addends, a
    mask and positions; outputs the result, how many words the mask keeps, and the sum.
    """
    shape = e.shape(0)
    if len(shape) != 2 or not shape[1]:
        return False
    positions = e.input(8) or e.constant(np.arange(shape[1])[None])
    total = e.add(
        "Add", *(e.add("Gather", e.input(t), x) for t, x in ((2, e.input(0)), (3, positions)))
    )
    if e.input(1):
        total = e.add("Add", total, e.add("Gather", e.input(4), e.input(1)))
    if e.output(2):
        e.add("Identity", total, y=e.output(2))
    _layer_norm(e, total, e.input(5), e.input(6))
    if e.output(1) and e.input(7):
        axis = e.constant(np.array([1]))
        count = e.add("ReduceSum", e.input(7), axis, keepdims=0)
        e.add("Cast", count, y=e.output(1), to=_INT32)
    return bool(e.input(7)) or not e.output(1)


NORMS: Rules = {
    # ONNX Runtime registers this one among the standard operators.
    ("", "SimplifiedLayerNormalization"): _simplified,
    (CONTRIBUTED, "SimplifiedLayerNormalization"): _simplified,
    (CONTRIBUTED, "SkipSimplifiedLayerNormalization"): _skip_simplified,
    (CONTRIBUTED, "SkipLayerNormalization"): _skip,
    (CONTRIBUTED, "EmbedLayerNormalization"): _embed,
}

OLD_NORMS: Rules = {("", "LayerNormalization"): _old}
"""What only files before LAYER_NORM need."""
