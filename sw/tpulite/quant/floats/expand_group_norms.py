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
    channels = e.shape(0)[1] if rank else None
    if not channels or channels % groups:
        return False
    names = [_of_channels(e, index, groups, channels, rank) for index in (1, 2)]
    if "" in names:
        return False
    _normalize(e, e.input(0), groups, *names, y=e.node.output[0])
    return True


def _of_channels(e: Expansion, index: int, groups: int, channels: int, rank: int) -> str:
    """Return an input with a number for each channel, or empty if it cannot be one."""
    value = e.value(index)
    if value is not None:
        if value.size == groups:  # before opset 21
            value = np.repeat(value, channels // groups)
        return _constant(e, value, rank)
    if e.shape(index) != [channels]:
        return ""
    return e.add("Reshape", e.input(index), e.constant(np.array(_channels_first(rank))))


def _constant(e: Expansion, value: np.ndarray, rank: int) -> str:
    return e.constant(value.astype(np.float32).reshape(_channels_first(rank)))


def _channels_first(rank: int) -> tuple[int, ...]:
    return (-1, *(1,) * (rank - 2))


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
    names = [_constant(e, value, _MAP) for value in (factors, addends)]
    z = _normalize(e, x, int(e.flags["groups"]), *names, y="" if last or curved else y)
    if curved:  # SiLU
        z = e.add("Mul", z, e.add("Sigmoid", z), y="" if last else y)
    if last:
        e.add("Transpose", z, y=y, perm=[0, 2, 3, 1])
    return True


def _normalize(e: Expansion, x: str, groups: int, gamma: str, beta: str, *, y: str) -> str:
    """Write the operators; return the name of the result, which is ``y`` if given."""
    flat = e.add("Reshape", x, e.constant(np.array([0, groups, -1])))
    one, zero = (e.constant(np.full(groups, value, np.float32)) for value in (1, 0))
    epsilon = float(e.flags.get("epsilon", _EPSILON))
    normal = e.add("InstanceNormalization", flat, one, zero, epsilon=epsilon)
    whole = e.add("Reshape", normal, e.add("Shape", x))
    return e.add("Add", e.add("Mul", whole, gamma), beta, y=y)


GROUP_NORMS: Rules = {
    ("", "GroupNormalization"): _standard,
    # ONNX Runtime has these on GPUs alone.
    (CONTRIBUTED, "GroupNorm"): _contributed,
    (CONTRIBUTED, "SkipGroupNorm"): _contributed,
}
