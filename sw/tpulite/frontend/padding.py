"""Padding that files leave to their readers."""

from collections.abc import Callable

from tpulite.graph.graph import Node, Tensor


def pad_same(extent: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Return what SAME adds before and after an axis.

    As ``ComputePaddingWithOffset`` in tensorflow/lite/kernels/padding.h: the odd one goes behind.

    Examples
    --------
    >>> pad_same(8, 3, 2, 1)
    (0, 1)
    """
    positions = -(-extent // stride)
    total = max((positions - 1) * stride + dilation * (kernel - 1) + 1 - extent, 0)
    return total // 2, total - total // 2


def whole_windows(node: Node, tensor: Callable[[str], Tensor]) -> tuple[int, int]:
    """Return height and width of what the windows of a transposed convolution reach."""
    x, weight = (tensor(name).shape for name in node.inputs[:2])
    height, width = ((x[i] - 1) * node["stride"][i - 1] + weight[i] for i in (1, 2))
    return height, width


def is_cropped(node: Node, tensor: Callable[[str], Tensor]) -> bool:
    """Tell whether a transposed convolution keeps less than its windows reach, unlike LiteRT's."""
    kept = tensor(node.outputs[0]).shape[1:3]
    reached = zip(whole_windows(node, tensor), kept, strict=True)
    return not node["same"] and (any(node["padding"]) or any(whole > y for whole, y in reached))
