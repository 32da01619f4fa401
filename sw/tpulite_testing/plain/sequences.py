"""Networks of sequences and pairs: sensors, ECG, keywords, TCN, siamese, time-distributed."""

from tpulite_testing.plain.network import Sketch

__all__ = ["audio_1d", "ds_cnn", "sensors_1d", "siamese", "tcn", "time_distributed"]


def sensors_1d(s: Sketch) -> str:
    """Convolutions of a few channels over time, as for accelerometers and ECG."""
    c = s.choices
    x = s.input(c.pick((48, 80, 128, 187)), c.pick((1, 3, 6, 9)))
    for _ in range(c.integer(2, 3)):
        padding = c.pick(("", "valid"))
        kernel, channels = c.pick((3, 5, 7)), c.pick((5, 8, 16, 24, 32))
        x = s.conv(x, channels, kernel, c.pick((1, 1, 2)), "relu", padding=padding)
        if s.shape(x)[0] > 16:
            x = s.pool(c.pick(("max", "max", "average")), x, 2)
    x = s.global_average(x) if c.chance(40) else s.flatten(x)
    x = s.dense(x, c.pick((16, 32)), "relu")
    y = s.dense(x, c.integer(2, 6))
    return s.softmax(y) if c.chance(50) else y


def audio_1d(s: Sketch) -> str:
    """Long kernels with strides over raw audio, as M5 has them."""
    c = s.choices
    x = s.input(c.pick((400, 800, 1600)), 1)
    x = s.conv(x, c.pick((8, 16)), c.pick((16, 20, 40)), c.pick((4, 8)), "relu", padding="valid")
    x = s.pool("max", x, 4)
    for outputs in (c.pick((16, 24)), 32):
        x = s.conv(x, outputs, 3, 1, "relu")
        if s.shape(x)[0] > 8:
            x = s.pool("max", x, 2)
    return s.dense(s.global_average(x), c.integer(4, 12))


def ds_cnn(s: Sketch) -> str:
    """Spot keywords: one wide convolution, then depthwise and pointwise ones."""
    c = s.choices
    x = s.input(*c.pick(((49, 10), (25, 10), (30, 16))), 1)
    channels = c.pick((12, 16, 20, 64))
    x = s.conv(x, channels, c.pick(((10, 4), (8, 4), (3, 3))), (2, c.pick((1, 2))), "relu")
    for _ in range(c.integer(1, 3)):
        x = s.conv(s.depthwise(x, 3, 1, "relu"), channels, 1, 1, "relu")
    x = (
        s.global_average(x)
        if c.chance(60)
        else s.flatten(s.pool("average", x, min(5, *s.shape(x))))
    )
    return s.softmax(s.dense(x, c.pick((4, 10, 12))))


def tcn(s: Sketch) -> str:
    """Causal dilated convolutions with residuals."""
    c = s.choices
    channels, kernel = c.pick((8, 12, 16)), c.pick((2, 3))
    x = s.conv(s.input(c.pick((32, 48, 64)), c.pick((2, 3, 8))), channels, 1)
    cut = c.chance(40)
    for dilation in (1, 2, 4)[: c.integer(2, 3)]:
        y = _causal(s, _causal(s, x, kernel, dilation, cut), kernel, dilation, cut)
        x = s.add(x, y, c.pick(("", "relu")))
    if c.chance(50):
        return s.dense(x, c.integer(2, 5))  # for each time
    return s.dense(s.global_average(x), c.integer(2, 5))


def _causal(s: Sketch, x: str, kernel: int, dilation: int, cut: bool) -> str:
    """Pad before the row, or on both sides, and cut the end off, as PyTorch's TCN does."""
    padding, channels = "both" if cut else "causal", s.shape(x)[-1]
    y = s.conv(x, channels, kernel, dilation=dilation, padding=padding)
    return s.activation(s.cut_off(y, (kernel - 1) * dilation) if cut else y, "relu")


def siamese(s: Sketch) -> str:
    """Two inputs through the same weights, then compared."""
    c = s.choices
    first, second, size = c.pick((4, 6, 8)), c.pick((8, 12)), c.pick((12, 16))
    xs = [s.input(size, size, 1) for _ in range(2)]
    convs = s.weights(first, 3, 3, 1), s.weights(second, 3, 3, first)
    branches = []
    for x in xs:
        y = s.pool("max", s.conv(x, first, (3, 3), 1, "relu", weights=convs[0]), 2)
        branches.append(s.flatten(s.conv(y, second, (3, 3), 2, "relu", weights=convs[1])))
    shared = s.weights(16, s.shape(branches[0])[0])
    branches = [s.dense(x, 16, weights=shared) for x in branches]
    joined = s.sub(*branches) if c.chance(50) else s.concat(*branches)
    return s.dense(s.dense(joined, 8, "relu"), 1, "sigmoid")


def time_distributed(s: Sketch) -> str:
    """Run the same convolutions for each of some frames, or dense layers for each time."""
    c = s.choices
    if c.chance(50):
        x = s.input(c.pick((6, 10, 16)), c.pick((8, 16, 20)))
        x = s.dense(s.dense(x, c.pick((16, 24)), "relu"), c.pick((4, 8)), "relu")
        return s.dense(s.flatten(x), c.integer(2, 5))
    count, size = c.pick((2, 3, 4)), c.pick((8, 12))
    x = s.frames(s.input(count * size, size, c.pick((1, 3))), count)
    x = s.pool("max", s.conv(x, c.pick((4, 8)), 3, 1, "relu"), 2)
    x = s.flatten(s.conv(x, 8, 3, 2, "relu"))
    x = s.sequence(s.dense(x, 12, "relu"), count)
    return s.dense(s.flatten(x), 3)
