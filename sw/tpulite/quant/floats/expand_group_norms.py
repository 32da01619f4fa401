"""Normalizations of groups of channels, as PyTorch exports them: InstanceNormalization in between.

A group is a channel of a tensor [B, groups, elements]; factors and addends of channels follow.
"""

import numpy as np

from tpulite.frontend.onnx.library import CONTRIBUTED
from tpulite.quant.floats.expansion import Expansion, Rules

_EPSILON = 1e-5
"""What operators add to variances if a file does not say it."""

_MAP = 4
"""Axes of the feature maps that ONNX Runtime's operators normalize."""

_VECTORS = 2
"""Axes of what is added to them if it is a number for each channel of a sample."""


def _standard(e: Expansion) -> bool:
    """Normalize groups: x [B, C, ...], factors and addends, one a channel or one a group."""
    groups, rank = int(e.flags["num_groups"]), len(e.shape(0))
    factors, addends = e.value(1), e.value(2)
    if factors is None or addends is None or not rank:
        return False
    if factors.size == groups:  # before opset 21
        channels = e.shape(0)[1]
        if not channels or channels % groups:
            return False
        factors, addends = (np.repeat(x, channels // groups) for x in (factors, addends))
    _normalize(e, e.input(0), groups, factors, addends, rank, y=e.node.output[0])
    return True


def _contributed(e: Expansion) -> bool:
    """Normalize groups of a feature map: x, factors, addends, and perhaps what is added before.

    That is a tensor, [B, H, W, C] or [B, C], and a bias; their sum is the second output.
    """
    factors, addends, last = e.value(1), e.value(2), e.flags.get("channels_last", 1)
    sums = e.node.op_type == "SkipGroupNorm"
    if factors is None or addends is None or (sums and not last):
        return False
    x, y = e.input(0), e.node.output[0]
    if sums:
        if e.input(4):
            x = e.add("Add", x, e.input(4))
        skip = e.input(3)
        if len(e.shape(3)) == _VECTORS:
            skip = e.add("Reshape", skip, e.constant(np.array([0, 1, 1, -1])))
        x = e.add("Add", x, skip, y=e.output(1))
    if last:
        x = e.add("Transpose", x, perm=[0, 3, 1, 2])
    curved = bool(e.flags.get("activation", 0))
    z = _normalize(
        e, x, int(e.flags["groups"]), factors, addends, _MAP, y="" if last or curved else y
    )
    if curved:  # SiLU
        z = e.add("Mul", z, e.add("Sigmoid", z), y="" if last else y)
    if last:
        e.add("Transpose", z, y=y, perm=[0, 2, 3, 1])
    return True


def _normalize(
    e: Expansion,
    x: str,
    groups: int,
    factors: np.ndarray,
    addends: np.ndarray,
    rank: int,
    *,
    y: str,
) -> str:
    """Write the operators; return the name of the result, which is ``y`` if given."""
    flat = e.add("Reshape", x, e.constant(np.array([0, groups, -1])))
    one, zero = (e.constant(np.full(groups, value, np.float32)) for value in (1, 0))
    epsilon = float(e.flags.get("epsilon", _EPSILON))
    normal = e.add("InstanceNormalization", flat, one, zero, epsilon=epsilon)
    whole = e.add("Reshape", normal, e.add("Shape", x))
    shape = (-1, *(1,) * (rank - 2))
    gamma, beta = (e.constant(x.astype(np.float32).reshape(shape)) for x in (factors, addends))
    return e.add("Add", e.add("Mul", whole, gamma), beta, y=y)


GROUP_NORMS: Rules = {
    ("", "GroupNormalization"): _standard,
    # ONNX Runtime has these on GPUs alone.
    (CONTRIBUTED, "GroupNorm"): _contributed,
    (CONTRIBUTED, "SkipGroupNorm"): _contributed,
}
