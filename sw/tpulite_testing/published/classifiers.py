"""Classifiers of images."""

from tpulite_testing.published.network import Network

__all__ = [
    "densenet",
    "efficientnet_lite0",
    "ghostnet",
    "mobilenet_v3_large",
    "shufflenet_v2",
    "squeezenet",
]

_EFFICIENT = [
    *((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3)),
    *((6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1)),
]
"""Expansion, kernel, first stride, channels and blocks."""

_MOBILE = [
    *((3, 16, 16, 0, "RELU", 1), (3, 64, 24, 0, "RELU", 2), (3, 72, 24, 0, "RELU", 1)),
    *((5, 72, 40, 1, "RELU", 2), (5, 120, 40, 1, "RELU", 1), (5, 120, 40, 1, "RELU", 1)),
    *((3, 240, 80, 0, "HARD_SWISH", 2), (3, 200, 80, 0, "HARD_SWISH", 1)),
    *((3, 184, 80, 0, "HARD_SWISH", 1), (3, 184, 80, 0, "HARD_SWISH", 1)),
    *((3, 480, 112, 1, "HARD_SWISH", 1), (3, 672, 112, 1, "HARD_SWISH", 1)),
    *((5, 672, 160, 1, "HARD_SWISH", 2), (5, 960, 160, 1, "HARD_SWISH", 1)),
    (5, 960, 160, 1, "HARD_SWISH", 1),
]
"""Kernel, expanded channels, channels, squeeze-excite, activation and stride."""

_GHOST = [
    *((3, 16, 16, 0, 1), (3, 48, 24, 0, 2), (3, 72, 24, 0, 1), (5, 72, 40, 1, 2)),
    *((5, 120, 40, 1, 1), (3, 240, 80, 0, 2), (3, 200, 80, 0, 1), (3, 184, 80, 0, 1)),
    *((3, 184, 80, 0, 1), (3, 480, 112, 1, 1), (3, 672, 112, 1, 1), (5, 672, 160, 1, 2)),
    *((5, 960, 160, 0, 1), (5, 960, 160, 1, 1), (5, 960, 160, 0, 1), (5, 960, 160, 1, 1)),
]
"""Kernel, expanded channels, channels, squeeze-excite and stride."""


def efficientnet_lite0(net: Network) -> int:
    """Build EfficientNet-Lite0 (Liu, 2020): no squeeze-excite, RELU6."""
    x = net.layer(net.image((1, 224, 224, 3)), 32, 3, 2, "RELU6")
    for expansion, kernel, first, channels, blocks in _EFFICIENT:
        for number in range(blocks):
            stride, shortcut = (1, x) if number else (first, None)
            if expansion > 1:
                x = net.layer(x, expansion * net.shape(x)[3], activation="RELU6")
            x = net.layer(x, None, kernel, stride, "RELU6")
            x = net.layer(x, channels, activation="NONE", gain=1)
            if shortcut is not None:
                x = net.sum(shortcut, x)
    return net.classify(net.layer(x, 1280, activation="RELU6"))


def mobilenet_v3_large(net: Network) -> int:
    """Build MobileNetV3-Large 1.0 (Howard et al., 2019), table 1."""
    x = net.layer(net.image((1, 224, 224, 3)), 16, 3, 2, "HARD_SWISH")
    for kernel, expanded, channels, squeeze, activation, stride in _MOBILE:
        shortcut = x
        if expanded != net.shape(x)[3]:
            x = net.layer(x, expanded, activation=activation)
        x = net.layer(x, None, kernel, stride, activation)
        if squeeze:
            x = net.excite(x, _by_8(expanded / 4))
        x = net.layer(x, channels, activation="NONE", gain=1)
        if net.shape(shortcut) == net.shape(x):
            x = net.sum(shortcut, x)
    x = net.average(net.layer(x, 960, activation="HARD_SWISH"))
    return net.layer(net.layer(x, 1280, activation="HARD_SWISH"), 1000, activation="NONE")


def shufflenet_v2(net: Network) -> int:
    """Build ShuffleNetV2 1.0 (Ma et al., 2018), table 5."""
    x = net.pool_max(net.layer(net.image((1, 224, 224, 3)), 24, 3, 2), 3, 2)
    for channels, blocks in ((116, 4), (232, 8), (464, 4)):
        half = channels // 2
        for number in range(blocks):
            kept, x = net.halves(x) if number else (x, x)
            if not number:
                kept = net.layer(net.layer(kept, None, 3, 2, "NONE"), half)
            x = net.layer(net.layer(x, half), None, 3, 1 if number else 2, "NONE")
            x = net.shuffle(net.concat([kept, net.layer(x, half)]))
    return net.classify(net.layer(x, 1024))


def ghostnet(net: Network) -> int:
    """Build GhostNet 1.0 (Han et al., 2020), table 7."""

    def ghost(x: int, channels: int, activation: str = "RELU") -> int:
        few = net.layer(x, channels // 2, activation=activation)
        return net.concat([few, net.layer(few, None, 3, 1, activation)])

    x = net.layer(net.image((1, 224, 224, 3)), 16, 3, 2)
    for kernel, expanded, channels, squeeze, stride in _GHOST:
        shortcut, x = x, ghost(x, expanded)
        if stride > 1:
            x = net.layer(x, None, kernel, stride, "NONE")
        if squeeze:
            x = net.excite(x, _by_8(expanded / 4))
        x = ghost(x, channels, "NONE")
        if net.shape(shortcut) != net.shape(x):
            shortcut = net.layer(shortcut, None, kernel, stride, "NONE")
            shortcut = net.layer(shortcut, channels, activation="NONE")
        x = net.sum(shortcut, x)
    x = net.average(net.layer(x, 960))
    return net.layer(net.layer(x, 1280), 1000, activation="NONE")


def squeezenet(net: Network) -> int:
    """Build SqueezeNet 1.1 (Iandola et al., 2016)."""
    x = net.layer(net.image((1, 227, 227, 3)), 64, 3, 2, padding="VALID")
    for few, many, pooled in (
        *((16, 64, True), (16, 64, False), (32, 128, True), (32, 128, False)),
        *((48, 192, True), (48, 192, False), (64, 256, False), (64, 256, False)),
    ):
        x = net.layer(net.pool_max(x, 3, 2, "VALID") if pooled else x, few)
        x = net.concat([net.layer(x, many), net.layer(x, many, 3)])
    return net.mean(net.layer(x, 1000), (1, 2), 0.02, -100)


def densenet(net: Network) -> int:
    """Build the first two dense blocks of DenseNet-121 (Huang et al., 2017), on 112x112 pixels."""
    x = net.pool_max(net.layer(net.image((1, 112, 112, 3)), 64, 7, 2), 3, 2)
    for layers in (6, 12):
        for _ in range(layers):
            y = net.layer(net.affine(x, "RELU"), 128)
            # Concatenated tensors are quantized alike: behind the pool with a RELU, then without.
            y = net.layer(y, 32, 3, activation="RELU" if layers == 6 else "NONE")
            x = net.concat([x, y])
        x = net.layer(net.affine(x, "RELU"), net.shape(x)[3] // 2, activation="NONE")
        x = net.pool("AVERAGE_POOL_2D", x, (2, 2), stride=(2, 2))
    return net.classify(net.affine(x, "RELU"))


def _by_8(channels: float) -> int:
    """Round as MobileNets do: to a multiple of 8, and at most a tenth down."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * channels else rounded + 8
