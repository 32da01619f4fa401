"""Classifiers of images: LeNet-5, tutorials, VGG, ResNet, MobileNet and ShuffleNet."""

from tpulite_testing.plain.network import Sketch

__all__ = [
    "cifar_keras",
    "cifar_torch",
    "lenet5",
    "mnist_keras",
    "mnist_torch",
    "mobilenet_v1",
    "mobilenet_v2",
    "mobilenet_v3",
    "plain_cnn",
    "preactivation",
    "resnet",
    "shufflenet",
    "squeeze",
    "strided_cnn",
    "vgg",
]

CHANNELS = (3, 4, 5, 6, 8, 8, 10, 12, 16, 16, 20, 24, 32, 33, 48, 64)


def plain_cnn(s: Sketch) -> str:
    """Convolutions of few channels, some with strides, and a dense layer."""
    c = s.choices
    x = s.input(c.integer(10, 32), c.integer(10, 32), c.pick((1, 3, 4)))
    for _ in range(c.integer(2, 4)):
        kernel = c.pick((1, 2, 3, 3, 5))
        stride = c.pick((1, 2, 2))
        if min(s.shape(x)[:2]) < 8:
            kernel, stride = 1, 1
        padding = c.pick(("", "valid"))
        x = s.conv(x, c.pick(CHANNELS), kernel, stride, c.pick(("relu", "relu6")), padding=padding)
    if c.chance(40):
        x = s.pool(c.pick(("max", "average")), x, 2)
    return s.dense(s.flatten(x), c.integer(2, 20))


def lenet5(s: Sketch) -> str:
    """LeNet-5, with maximum or average pooling."""
    c = s.choices
    kind, function = c.pick(("average", "max")), c.pick(("relu", "tanh", "sigmoid"))
    size = c.pick((28, 32, 24))
    x = s.input(size, size, c.pick((1, 1, 3)))
    x = s.conv(x, c.pick((6, 6, 8)), 5, 1, function, padding=c.pick(("", "valid")))
    x = s.pool(kind, x, 2)
    x = s.pool(kind, s.conv(x, 16, 5, 1, function, padding="valid"), 2)
    x = s.flatten(x)
    for outputs in (c.pick((120, 60)), 84):
        x = s.dense(x, outputs, function)
    return _head(s, x, 10)


def mnist_keras(s: Sketch) -> str:
    """Keras' example: two valid convolutions, a pool behind each."""
    c = s.choices
    size = c.pick((28, 20))
    x = s.input(size, size, 1)
    for outputs in c.pick(((32, 64), (8, 16), (16, 32))):
        x = s.pool("max", s.conv(x, outputs, 3, 1, "relu", padding="valid"), 2)
    return s.softmax(s.dense(s.flatten(x), 10))


def mnist_torch(s: Sketch) -> str:
    """PyTorch's example: two valid convolutions, one pool, two dense layers."""
    c = s.choices
    first = c.pick((32, 16, 8, 10))
    size = c.pick((28, 16))
    x = s.conv(s.input(size, size, 1), first, 3, 1, "relu", padding="valid")
    x = s.pool("max", s.conv(x, 2 * first, 3, 1, "relu", padding="valid"), 2)
    return s.dense(s.dense(s.flatten(x), c.pick((128, 32)), "relu"), 10)


def cifar_keras(s: Sketch) -> str:
    """TensorFlow's tutorial: three valid convolutions with pools between."""
    c = s.choices
    size = c.pick((32, 24))
    first = c.pick((32, 8, 12))
    x = s.conv(s.input(size, size, 3), first, 3, 1, "relu", padding="valid")
    x = s.conv(s.pool("max", x, 2), 2 * first, 3, 1, "relu", padding="valid")
    x = s.conv(s.pool("max", x, 2), 2 * first, 3, 1, "relu", padding="valid")
    return s.dense(s.dense(s.flatten(x), c.pick((64, 33)), "relu"), 10)


def cifar_torch(s: Sketch) -> str:
    """PyTorch's tutorial: 5x5 convolutions of 6 and 16 channels."""
    x = s.input(32, 32, 3)
    for outputs in (6, 16):
        x = s.pool("max", s.conv(x, outputs, 5, 1, "relu", padding="valid"), 2)
    return s.dense(s.dense(s.dense(s.flatten(x), 120, "relu"), 84, "relu"), 10)


def strided_cnn(s: Sketch) -> str:
    """Few channels, valid convolutions whose strides take the place of pools, a dense layer."""
    c = s.choices
    size = c.integer(12, 32)
    x = s.input(size, size, c.pick((1, 1, 3)))
    for i in range(c.integer(2, 4)):
        kernel, stride = c.pick(((2, 2), (2, 2), (3, 2), (4, 4), (1, 2))) if i else (3, 1)
        if min(s.shape(x)[:2]) >= 2 * kernel:
            padding = c.pick(("valid", "valid", ""))
            x = s.conv(x, c.integer(2, 8), kernel, stride, "relu", padding=padding)
    if c.chance(30):  # a dense layer in the form of a convolution
        x = s.conv(x, c.pick((8, 12)), s.shape(x)[:2], 1, "relu", padding="valid")
    return s.dense(s.flatten(x), c.integer(2, 10))


def vgg(s: Sketch) -> str:
    """Pairs of 3x3 convolutions, a pool behind each pair."""
    c = s.choices
    size = c.pick((16, 24, 32))
    x, channels = s.input(size, size, c.pick((1, 3))), c.pick((4, 8, 12, 16))
    for _ in range(c.integer(2, 3)):
        for _ in range(c.integer(1, 2)):
            x = s.conv(x, channels, 3, 1, "relu")
        x, channels = s.pool(c.pick(("max", "max", "average")), x, 2), min(2 * channels, 64)
    return _classified(s, x)


def resnet(s: Sketch) -> str:
    """Residual blocks, those with a stride with a 1x1 convolution beside."""
    c = s.choices
    size = c.pick((16, 20, 32))
    channels = c.pick((4, 8, 12, 16))
    x = s.conv(s.input(size, size, c.pick((1, 3))), channels, c.pick((3, 5)), 1, "relu")
    if c.chance(30):
        x = s.pool("max", x, 3, 2, "same")
    for _ in range(c.integer(1, 3)):
        stride = c.pick((1, 2))
        outputs = channels * stride
        y = s.conv(s.conv(x, outputs, 3, stride, "relu"), outputs, 3)
        if stride > 1 and c.chance(30):  # the shortcut without weights
            x = s.widen(s.pool("max", x, 1, 2), outputs - channels)
        elif stride > 1:
            x = s.conv(x, outputs, 1, 2, padding="valid")
        x, channels = s.add(y, x, "relu"), outputs
    return _classified(s, x)


def preactivation(s: Sketch) -> str:
    """Residual blocks whose batch norm stands in front of convolutions."""
    c = s.choices
    channels = c.pick((8, 12, 16))
    x = s.conv(s.input(16, 16, 3), channels, 3)
    for _ in range(c.integer(1, 2)):
        y = s.conv(s.batch_norm(x, "relu"), channels, 3)
        x = s.add(s.conv(s.batch_norm(y, "relu"), channels, 3), x)
    return _classified(s, s.activation(x, "relu"))


def mobilenet_v1(s: Sketch) -> str:
    """Depthwise and pointwise convolutions."""
    c = s.choices
    size, function = c.pick((16, 32, 48)), c.pick(("relu6", "relu"))
    x, channels = s.conv(s.input(size, size, 3), 8, 3, 2, function), c.pick((8, 10, 16))
    for _ in range(c.integer(2, 4)):
        stride = c.pick((1, 2)) if min(s.shape(x)) > 3 else 1
        x = s.depthwise(x, c.pick((3, 3, 5)), stride, function)
        x, channels = s.conv(x, channels, 1, 1, function), min(channels * stride, 64)
    return _classified(s, x)


def mobilenet_v2(s: Sketch) -> str:
    """Inverted residual blocks with linear ends."""
    c = s.choices
    size = c.pick((16, 24, 32))
    channels = c.pick((4, 8, 12))
    x = s.conv(s.input(size, size, 3), channels, 3, 2, "relu6")
    for _ in range(c.integer(1, 3)):
        x, channels = _inverted(s, x, channels, "relu6", squeeze=False)
    return _classified(s, x)


def mobilenet_v3(s: Sketch) -> str:
    """Inverted residual blocks with squeeze and excitation, hard swish or SiLU."""
    c = s.choices
    size, function = c.pick((16, 24)), c.pick(("hard_swish", "hard_swish", "silu"))
    channels = c.pick((4, 8))
    x = s.conv(s.input(size, size, 3), channels, 3, 2, function)
    for _ in range(c.integer(1, 2)):
        x, channels = _inverted(s, x, channels, c.pick((function, "relu")), squeeze=True)
    return _classified(s, s.conv(x, 24, 1, 1, function))


def _inverted(s: Sketch, x: str, channels: int, function: str, squeeze: bool) -> tuple[str, int]:
    c = s.choices
    stride = c.pick((1, 1, 2)) if min(s.shape(x)[:2]) > 2 else 1
    outputs = channels if stride == 1 else min(channels * 2, 32)
    y = s.conv(x, channels * c.pick((2, 3, 6)), 1, 1, function)
    y = s.depthwise(y, c.pick((3, 3, 5)), stride, function)
    if squeeze and c.chance(70):
        wide = s.shape(y)[-1]
        g = s.conv(s.global_average(y, keep=True), max(wide // 4, 2), 1, 1, "relu")
        gate = "sigmoid" if function == "silu" else "hard_sigmoid"
        y = s.mul(y, s.conv(g, wide, 1, 1, gate))
    y = s.conv(y, outputs, 1)
    return (s.add(y, x) if stride == 1 and outputs == channels else y), outputs


def shufflenet(s: Sketch) -> str:
    """Blocks of ShuffleNetV1 with grouped convolutions, or of V2 with split channels."""
    c = s.choices
    channels = c.pick((8, 12, 16, 24))
    x = s.conv(s.input(16, 16, 3), channels, 3, c.pick((1, 2)), "relu")
    for _ in range(c.integer(1, 2)):
        if c.chance(50):
            y = s.conv(x, channels, 1, 1, "relu", groups=2)
            y = s.depthwise(s.shuffle(y, 2), 3)
            x = s.add(s.conv(y, channels, 1, groups=2), x, "relu")
        else:
            a, b = s.halves(x)
            b = s.depthwise(s.conv(b, channels // 2, 1, 1, "relu"), 3)
            x = s.shuffle(s.concat(a, s.conv(b, channels // 2, 1, 1, "relu")), 2)
    return _classified(s, x)


def squeeze(s: Sketch) -> str:
    """Fire modules of SqueezeNet, or an Inception block: branches and a concatenation."""
    c = s.choices
    x = s.conv(s.input(16, 16, 3), c.pick((8, 16, 20)), 3, c.pick((1, 2)), "relu")
    for _ in range(c.integer(1, 2)):
        few = s.conv(x, c.pick((4, 8, 6)), 1, 1, "relu")
        parts = [s.conv(few, c.pick((8, 12, 16)), kernel, 1, "relu") for kernel in (1, 3)]
        if s.padding == "same" and c.chance(40):
            parts.append(s.conv(s.pool("max", x, 3, 1, "same"), 8, 1, 1, "relu"))
        x = s.concat(*parts)
    if c.chance(20):  # a second head, as training has it, whose output was taken off
        s.dense(s.flatten(s.conv(x, 4, 1, 1, "relu")), 3)
    return _classified(s, x)


def _classified(s: Sketch, x: str) -> str:
    """Add a usual end: global or no pooling, dense layers."""
    c = s.choices
    if c.chance(50) or (len(s.shape(x)) == 3 and s.shape(x)[0] * s.shape(x)[1] > 100):
        x = s.global_average(x)
    else:
        x = s.flatten(x)
        if c.chance(50):
            x = s.dense(x, c.pick((16, 33, 64)), "relu")
    return _head(s, x, c.integer(2, 12))


def _head(s: Sketch, x: str, classes: int) -> str:
    y = s.dense(x, classes)
    return s.softmax(y) if s.choices.chance(40) else y
