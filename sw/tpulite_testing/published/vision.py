"""Detectors, segmentation, faces, and super-resolution."""

from tpulite_testing.published.network import Network

__all__ = [
    "blazeface",
    "deeplab_v3_head",
    "espcn",
    "fsrcnn",
    "mobilefacenet",
    "unet",
    "yolo_v5_eighth",
    "yolo_v5n",
    "yolo_v8n",
]


def _silu(net: Network, x: int, channels: int, kernel: int = 1, stride: int = 1) -> int:
    """Add a convolution with SiLU; with a stride it is padded on both sides, as PyTorch does."""
    if stride == 1:
        return net.layer(x, channels, kernel, 1, "SILU")
    around = (kernel - 1) // 2
    x = net.pad(x, [(0, 0), (around, around), (around, around), (0, 0)])
    return net.layer(x, channels, kernel, stride, "SILU", padding="VALID")


def _bottleneck(net: Network, x: int, kernels: tuple[int, int], *, shortcut: bool) -> int:
    channels = net.shape(x)[3]
    y = _silu(net, _silu(net, x, channels, kernels[0]), channels, kernels[1])
    return net.elementwise("ADD", x, y, 0.03, -118) if shortcut else y


def _up(net: Network, x: int) -> int:
    _, h, w, _ = net.shape(x)
    return net.resize(x, (2 * h, 2 * w))


def _pyramid(net: Network, x: int, channels: int) -> int:
    """Add SPPF: three maxima of 5x5 after each other."""
    parts = [_silu(net, x, channels // 2)]
    for _ in range(3):
        parts.append(net.pool_max(parts[-1], 5, 1))
    return _silu(net, net.concat(parts), channels)


def yolo_v5n(net: Network) -> list[int]:
    """Build YOLOv5n (Jocher, 2020) on 320x320 pixels, up to the maps of its three sizes."""
    return _yolo_v5(net, 16)


def yolo_v5_eighth(net: Network) -> list[int]:
    """Build YOLOv5 of half the channels of YOLOv5n (width 0.125), 8 in its first layer."""
    return _yolo_v5(net, 8)


def _yolo_v5(net: Network, width: int) -> list[int]:
    """Add YOLOv5 with so many channels in its first layer."""

    def c3(x: int, channels: int, blocks: int, *, shortcut: bool = True) -> int:
        y, z = _silu(net, x, channels // 2), _silu(net, x, channels // 2)
        for _ in range(blocks):
            y = _bottleneck(net, y, (1, 3), shortcut=shortcut)
        return _silu(net, net.concat([y, z]), channels)

    second, third, fourth, fifth = (n * width for n in (2, 4, 8, 16))
    x = _silu(net, net.image((1, 320, 320, 3)), width, 6, 2)
    x = c3(_silu(net, x, second, 3, 2), second, 1)
    p3 = c3(_silu(net, x, third, 3, 2), third, 2)
    p4 = c3(_silu(net, p3, fourth, 3, 2), fourth, 3)
    x = c3(_silu(net, p4, fifth, 3, 2), fifth, 1)
    top = _silu(net, _pyramid(net, x, fifth), fourth)
    middle = c3(net.concat([_up(net, top), p4]), fourth, 1, shortcut=False)
    middle = _silu(net, middle, third)
    p3 = c3(net.concat([_up(net, middle), p3]), third, 1, shortcut=False)
    p4 = c3(net.concat([_silu(net, p3, third, 3, 2), middle]), fourth, 1, shortcut=False)
    p5 = c3(net.concat([_silu(net, p4, fourth, 3, 2), top]), fifth, 1, shortcut=False)
    return [net.layer(p, 255, activation="NONE") for p in (p3, p4, p5)]


def yolo_v8n(net: Network) -> list[int]:
    """Build YOLOv8n (Ultralytics, 2023) on 320x320 pixels, up to the maps of its three sizes."""

    def c2f(x: int, channels: int, blocks: int, *, shortcut: bool = True) -> int:
        parts = net.halves(_silu(net, x, channels))
        for _ in range(blocks):
            parts.append(_bottleneck(net, parts[-1], (3, 3), shortcut=shortcut))
        return _silu(net, net.concat(parts), channels)

    def head(x: int) -> list[int]:
        ends = []
        for inner, outputs in ((64, 64), (80, 80)):
            y = _silu(net, _silu(net, x, inner, 3), inner, 3)
            ends.append(net.layer(y, outputs, activation="NONE"))
        return ends

    x = _silu(net, _silu(net, net.image((1, 320, 320, 3)), 16, 3, 2), 32, 3, 2)
    p3 = c2f(_silu(net, c2f(x, 32, 1), 64, 3, 2), 64, 2)
    p4 = c2f(_silu(net, p3, 128, 3, 2), 128, 2)
    p5 = _pyramid(net, c2f(_silu(net, p4, 256, 3, 2), 256, 1), 256)
    middle = c2f(net.concat([_up(net, p5), p4]), 128, 1, shortcut=False)
    p3 = c2f(net.concat([_up(net, middle), p3]), 64, 1, shortcut=False)
    p4 = c2f(net.concat([_silu(net, p3, 64, 3, 2), middle]), 128, 1, shortcut=False)
    p5 = c2f(net.concat([_silu(net, p4, 128, 3, 2), p5]), 256, 1, shortcut=False)
    return [end for p in (p3, p4, p5) for end in head(p)]


def mobilefacenet(net: Network) -> int:
    """Build MobileFaceNet (Chen et al., 2018), table 1: PReLU, a depthwise layer of 7x7."""
    x = net.layer(net.image((1, 112, 112, 3)), 64, 3, 2, "PRELU")
    x = net.layer(x, None, 3, 1, "PRELU")
    for expansion, channels, blocks, first in (
        *((2, 64, 5, 2), (4, 128, 1, 2), (2, 128, 6, 1), (4, 128, 1, 2), (2, 128, 2, 1)),
    ):
        for number in range(blocks):
            shortcut, stride = x, 1 if number else first
            x = net.layer(x, expansion * net.shape(x)[3], activation="PRELU")
            x = net.layer(net.layer(x, None, 3, stride, "PRELU"), channels, activation="NONE")
            if net.shape(shortcut) == net.shape(x):
                x = net.sum(shortcut, x)
    x = net.layer(x, 512, activation="PRELU")
    return net.layer(net.layer(x, None, 7, 1, "NONE", padding="VALID"), 128, activation="NONE")


def blazeface(net: Network) -> list[int]:
    """Build BlazeFace (Bazarevsky et al., 2019), table 4, and its two boxes a size of anchors."""

    def block(x: int, channels: int, stride: int = 1, few: int = 0) -> int:
        shortcut, before = x, net.shape(x)[3]
        x = net.layer(x, None, 5, stride, "NONE")
        x = net.layer(x, few or channels, activation="RELU" if few else "NONE")
        if few:
            x = net.layer(net.layer(x, None, 5, 1, "NONE"), channels, activation="NONE")
        if stride > 1:
            shortcut = net.pool_max(shortcut, 2)
        if channels > before:
            shortcut = net.pad(shortcut, [(0, 0), (0, 0), (0, 0), (0, channels - before)])
        return net.sum(shortcut, x, "RELU")

    x = net.layer(net.image((1, 128, 128, 3)), 24, 5, 2)
    for channels, stride in ((24, 1), (24, 1), (48, 2), (48, 1), (48, 1)):
        x = block(x, channels, stride)
    for stride in (2, 1, 1):
        x = block(x, 96, stride, 24)
    large = x
    for stride in (2, 1, 1):
        x = block(x, 96, stride, 24)
    return [
        net.layer(y, anchors * n, activation="NONE")
        for y, anchors in ((large, 2), (x, 6))
        for n in (1, 16)
    ]


def unet(net: Network) -> int:
    """Build a U-Net (Ronneberger et al., 2015) of 16 to 128 channels, on 128x128 pixels."""
    x, skips = net.image((1, 128, 128, 1)), []
    for channels in (16, 32, 64):
        x = net.layer(net.layer(x, channels, 3, activation="NONE"), channels, 3, activation="NONE")
        skips.append(x)
        x = net.pool_max(x, 2)
    x = net.layer(net.layer(x, 128, 3), 128, 3)
    for skip in reversed(skips):
        channels = net.shape(skip)[3]
        x = net.concat([skip, net.enlarge(x, channels, 2)])
        x = net.layer(net.layer(x, channels, 3), channels, 3)
    return net.layer(x, 2, activation="NONE")


def deeplab_v3_head(net: Network) -> int:
    """Build the head of DeepLabV3+ (Chen et al., 2018) behind a MobileNetV2 of 257x257 pixels."""

    def separable(x: int, dilation: int = 1) -> int:
        return net.layer(net.layer(x, None, 3, dilation=dilation), 256)

    deep, shallow = net.image((1, 17, 17, 320)), net.image((1, 65, 65, 24))
    parts = [net.layer(deep, 256)] + [separable(deep, rate) for rate in (6, 12, 18)]
    parts.append(net.resize(net.layer(net.average(deep), 256), (17, 17), "Bilinear"))
    x = net.resize(net.layer(net.concat(parts), 256), (65, 65), "Bilinear")
    x = net.concat([x, net.layer(shallow, 48)])
    return net.layer(separable(separable(x)), 21, activation="NONE")


def espcn(net: Network) -> int:
    """Build ESPCN (Shi et al., 2016): sub-pixels of a factor of 3, on 96x96 pixels."""
    x = net.layer(net.image((1, 96, 96, 1)), 64, 5)
    x = net.layer(net.layer(x, 32, 3), 9, 3, activation="NONE")
    y = net.like(x, (1, 288, 288, 1))
    return net.operator("DEPTH_TO_SPACE", [x], [y], options_type="DepthToSpaceOptions", blockSize=3)


def fsrcnn(net: Network) -> int:
    """Build FSRCNN (Dong et al., 2016) of 56, 12 and 4 layers, a factor of 2, on 96x96 pixels."""
    x = net.layer(net.image((1, 96, 96, 1)), 56, 5, activation="PRELU")
    x = net.layer(x, 12, activation="PRELU")
    for _ in range(4):
        x = net.layer(x, 12, 3, activation="PRELU")
    return net.enlarge(net.layer(x, 56, activation="PRELU"), 1, 9)
