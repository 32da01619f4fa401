"""Padding that files leave to their readers."""


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
