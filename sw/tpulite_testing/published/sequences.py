"""Blocks of transformers and of ConvNeXt, and a network of keywords."""

from tpulite_testing.published.network import Network

__all__ = ["convnext_block", "ds_tcn", "swin_block"]


def convnext_block(net: Network) -> int:
    """Build a block of the third stage of ConvNeXt-T (Liu et al., 2022)."""
    x = net.image((1, 14, 14, 384))
    y = net.normalize(net.layer(x, None, 7, 1, "NONE"))
    y = net.layer(net.gelu(net.layer(y, 1536, activation="NONE")), 384, activation="NONE")
    gamma = net.constant(net.weights(384), 0.01)
    return net.sum(x, net.elementwise("MUL", y, gamma, 0.05, 2))


def swin_block(net: Network) -> int:
    """Build a block of the third stage of Swin-T (Liu et al., 2021): four windows of 7x7 pixels."""
    heads, window, width = 12, 49, 384
    x = net.image((1, 14, 14, width))
    y = net.reshape(net.normalize(x), (2, 7, 2, 7, width))
    y = net.reshape(net.transpose(y, (0, 2, 1, 3, 4)), (4, window, width))
    query, key, value = (net.heads(net.dense_rows(y, width), heads) for _ in range(3))
    y = net.attend(query, key, value, net.weights(1, heads, window, window))
    y = net.reshape(net.dense_rows(y, width), (2, 2, 7, 7, width))
    y = net.reshape(net.transpose(y, (0, 2, 1, 3, 4)), (1, 14, 14, width))
    x = net.sum(x, y)
    return net.sum(x, net.dense_rows(net.gelu(net.dense_rows(net.normalize(x), 4 * width)), width))


def ds_tcn(net: Network) -> int:
    """Build a keyword network of dilated depthwise convolutions in time (TC-ResNet, 2019)."""
    x = net.layer(net.image((1, 98, 1, 40)), 64, (5, 1))
    for number in range(8):
        y = net.layer(x, None, (9, 1), dilation=2 ** (number % 4))
        x = net.sum(x, net.layer(y, 64, activation="NONE"), "RELU")
    return net.classify(x, 12)
