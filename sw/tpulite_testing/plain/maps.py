"""Networks whose outputs are maps or boxes: U-Net, autoencoders, FOMO, YOLO, super-resolution."""

from tpulite_testing.plain.network import Sketch

__all__ = [
    "atrous",
    "autoencoder",
    "c2f",
    "dense_autoencoder",
    "fomo",
    "patchwork",
    "super_resolution",
    "unet",
    "yolo",
]


def atrous(s: Sketch) -> str:
    """Dilated convolutions beside each other, as DeepLab has them, some of them depthwise."""
    c = s.choices
    size, channels = c.pick((16, 24, 32)), c.pick((6, 8, 16))
    x = s.conv(s.input(size, size, 3), channels, 3, 2, "relu")
    x = s.depthwise(x, 3, 1, "relu", dilation=c.pick((1, 2)))
    parts = [s.conv(x, 8, 1, 1, "relu")]
    for dilation in (2, c.pick((3, 4, 18))):
        if c.chance(60):
            y = s.depthwise(x, 3, 1, "relu", dilation=dilation)
            parts.append(s.conv(y, 8, 1, 1, "relu"))
        else:
            parts.append(s.conv(x, 8, 3, 1, "relu", dilation=dilation))
    x = s.conv(s.concat(*parts), channels, 1, 1, "relu")
    return s.resize(s.conv(x, c.integer(2, 4), 1), linear=c.chance(50))


def unet(s: Sketch) -> str:
    """Down and up again, with what was on the way down beside."""
    c = s.choices
    size, channels = c.pick((16, 32, 24)), c.pick((4, 8, 12))
    x, beside = s.input(size, size, c.pick((1, 3))), []
    for level in range(2):
        x = s.conv(x, channels << level, 3, 1, "relu")
        beside.append(x)
        x = s.pool("max", x, 2)
    x = s.conv(x, channels * 4, 3, 1, "relu")
    for level in (1, 0):
        outputs = channels << level
        if c.chance(50):
            x = s.transposed_conv(x, outputs, c.pick((2, 2, 3, 4)))
        else:
            x = s.conv(s.resize(x, linear=c.chance(30)), outputs, 3, 1, "relu")
        x = s.conv(s.concat(x, beside[level]), outputs, 3, 1, "relu")
    return s.conv(x, c.integer(1, 3), 1, 1, c.pick(("", "sigmoid")))


def autoencoder(s: Sketch) -> str:
    """Convolutions with strides, then transposed ones or upsampling."""
    c = s.choices
    size, channels = c.pick((16, 28, 32)), c.pick((8, 12, 16))
    x = s.input(size, size, c.pick((1, 3)))
    for outputs in (channels, 2 * channels):
        x = s.conv(x, outputs, 3, 2, "relu")
    for outputs in (channels, c.pick((8, 16))):
        if c.chance(50):
            x = s.transposed_conv(x, outputs, c.pick((2, 3, 4)), "relu")
        else:
            x = s.resize(s.conv(x, outputs, 3, 1, "relu"))
    return s.conv(x, 1, 3, 1, "sigmoid")


def dense_autoencoder(s: Sketch) -> str:
    """Dense layers to a narrow one and back, as for machine sounds."""
    c = s.choices
    width = c.pick((64, 100, 196))
    x = s.input(width)
    wide = c.pick((32, 48, 128))
    for outputs in (wide, wide, c.pick((4, 8)), wide, wide):
        x = s.dense(x, outputs, "relu")
    return s.dense(x, width, c.pick(("", "sigmoid")))


def fomo(s: Sketch) -> str:
    """Return a MobileNetV2 cut off at an eighth of the size, with classes for each cell."""
    c = s.choices
    size = c.pick((32, 48, 64))
    x = s.conv(s.input(size, size, c.pick((1, 3))), 8, 3, 2, "relu6")
    for stride in (1, 2, 1, 2):
        y = s.conv(x, 3 * s.shape(x)[-1], 1, 1, "relu6")
        y = s.conv(s.depthwise(y, 3, stride, "relu6"), 8 if stride == 1 else 12, 1)
        x = s.add(x, y) if s.shape(x) == s.shape(y) else y
    x = s.conv(x, c.pick((16, 32)), 1, 1, c.pick(("relu", "relu6")))
    x = s.conv(x, c.integer(2, 5), 1)
    return s.softmax(x) if c.chance(40) else x


def yolo(s: Sketch) -> str:
    """Return a small detector with heads of two scales."""
    c = s.choices
    function, size = c.pick(("leaky_relu", "relu", "silu", "relu6")), c.pick((32, 48))
    x = s.conv(s.input(size, size, 3), 8, 3, 2, function)
    x = s.conv(x, 12, 3, 2, function)
    fine = s.conv(x, 16, 3, 1, function)
    coarse = s.conv(s.pool("max", fine, 2), 24, 3, 1, function)
    fine = s.concat(s.resize(s.conv(coarse, 8, 1, 1, function)), fine)
    anchors, size = c.integer(1, 3), 5 + c.integer(1, 3)
    heads = [s.positions(s.conv(x, anchors * size, 1), size) for x in (coarse, fine)]
    rows = s.rows(*heads)
    return s.activation(rows, "sigmoid") if c.chance(50) else rows


def c2f(s: Sketch) -> str:
    """YOLOv8's block: split channels, bottlenecks, and all of them concatenated."""
    c = s.choices
    function, channels = c.pick(("silu", "relu", "hard_swish")), c.pick((8, 12, 16))
    x = s.conv(s.input(16, 16, 3), channels, 3, 2, function)
    first, second = s.halves(s.conv(x, channels, 1, 1, function))
    y = s.conv(s.conv(second, channels // 2, 3, 1, function), channels // 2, 3, 1, function)
    y = s.add(second, y)
    x = s.conv(s.concat(first, second, y), channels, 1, 1, function)
    if s.padding == "same":  # and SPPF
        pools = [x]
        for _ in range(2):
            pools.append(s.pool("max", pools[-1], 5, 1, "same"))
        x = s.concat(*pools)
    return s.conv(x, channels, 1, 1, function)


def patchwork(s: Sketch) -> str:
    """Blocks of all kinds one behind the other, so that all rewrites meet."""
    c = s.choices
    size = c.pick((16, 20, 24))
    x = s.input(size, size, c.pick((1, 3, 8)))
    for _ in range(c.integer(4, 7)):
        x = _block(s, x)
    if c.chance(20):  # a head that nobody reads
        s.dense(s.global_average(x), 3)
    if c.chance(50):
        return x
    return s.dense(s.flatten(x if c.chance(50) else s.pool("max", x, 2)), c.integer(2, 9))


def _block(s: Sketch, x: str) -> str:
    """Add a block that fits."""
    c = s.choices
    height, _, channels = s.shape(x)
    function = c.pick(("relu", "relu", "relu6", "leaky_relu", "hard_swish", "sigmoid"))
    kind = c.pick(
        (
            *("few", "few", "stride", "point", "dilated", "depthwise", "beside", "gate"),
            *("wide", "shuffle", "norm", "function")
            + ("up",) * (height < 24)
            + ("pool",) * (height > 7),
        )
    )
    if kind == "few":
        kernel = c.pick((1, 2, 3))
        return s.conv(x, c.integer(2, 8), kernel, c.pick((1, 2)), function)
    if kind == "stride":
        return s.conv(x, c.pick((4, 8, 12)), 2, 2, function, padding="valid") if height > 7 else x
    if kind == "point":
        return s.conv(x, c.pick((8, 16, 24)), 1, c.pick((1, 2)), function, padding="valid")
    if kind == "dilated":
        return s.conv(x, c.pick((8, 16)), 3, 1, function, dilation=c.pick((2, 3)))
    if kind == "depthwise":
        dilation = c.pick((1, 2, 4))
        stride = c.pick((1, 2)) if dilation == 1 else 1
        return s.depthwise(x, 3, stride, function, dilation=dilation)
    if kind == "beside":
        return s.concat(s.conv(x, c.pick((4, 8)), 3, 1, function), s.conv(x, 8, 1))
    if kind == "gate":
        return s.mul(x, s.conv(s.global_average(x, keep=True), channels, 1, 1, "sigmoid"))
    if kind == "wide":
        return s.widen(x, c.integer(1, 8))
    if kind == "shuffle":
        return s.shuffle(x, 2) if channels % 2 == 0 else s.conv(x, 8, 3, 1, function)
    if kind == "norm":
        return s.batch_norm(x, "relu")
    if kind == "function":
        return s.activation(s.activation(x, function), c.pick(("tanh", "relu")))
    if kind == "up":
        return s.transposed_conv(x, c.pick((3, 4, 8)), c.pick((2, 3, 4)), "relu")
    return s.pool(c.pick(("max", "average")), x, 2)


def super_resolution(s: Sketch) -> str:
    """Convolutions at the small size, then a larger map."""
    c = s.choices
    size = c.pick((12, 16, 20))
    x = s.conv(s.input(size, size, c.pick((1, 3))), c.pick((12, 16)), 5, 1, "relu")
    x = s.conv(x, c.pick((8, 9, 16)), 3, 1, "relu")
    if c.chance(50):
        return s.conv(s.resize(x), 3, 3)
    return s.transposed_conv(x, 3, c.pick((2, 4)))
