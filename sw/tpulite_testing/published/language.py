"""Blocks of encoders, and steps of decoders with their keys and values."""

from collections.abc import Sequence

from tpulite_testing.graphs.transformer import EncoderBlock
from tpulite_testing.published.network import Network

__all__ = ["deit_block", "minilm_block", "stories_layer", "stories_prefill", "stories_token"]

_WIDTH, _HIDDEN, _HEADS, _LAYERS, _WORDS, _POSITIONS = 288, 768, 6, 6, 32000, 256
"""Of TinyStories-15M."""


def minilm_block(net: Network) -> int:
    """Build a block of MiniLM-L6 (Wang et al., 2020): 128 tokens of 384 channels, 12 heads."""
    return EncoderBlock(tokens=128, width=384, heads=12).add(net)


def deit_block(net: Network) -> int:
    """Build a block of DeiT-Tiny (Touvron et al., 2021): 197 tokens of 192 channels, 3 heads."""
    return EncoderBlock(tokens=197, width=192, heads=3).add(net)


def stories_prefill(net: Network) -> int:
    """Build a layer of TinyStories-15M (llama2.c, 2023) on 64 tokens, without rotations or mask."""
    y, *_ = stories_layer(net, net.image((1, 64, _WIDTH)), past=0)
    return y


def stories_token(net: Network) -> Sequence[int]:
    """Build a token of TinyStories-15M behind 255 others, without rotations, up to its logits."""
    x, made = net.image((1, 1, _WIDTH)), []
    for _ in range(_LAYERS):
        x, *cache = stories_layer(net, x, _POSITIONS - 1)
        made += cache
    return _dense(net, net.normalize_scale(x), _WORDS), *made


def stories_layer(net: Network, x: int, past: int) -> tuple[int, int, int]:
    """Add a layer of TinyStories-15M; return its result, and the keys and values that it makes.

    Those of ``past`` tokens are inputs.
    """
    y = net.normalize_scale(x)
    query, key, value = (net.heads(_dense(net, y, _WIDTH), _HEADS) for _ in range(3))
    seen = [key, value]
    if past:
        shape = (1, _HEADS, past, _WIDTH // _HEADS)
        seen = [net.concat([net.image(shape), new], axis=2) for new in seen]
    x = net.sum(x, _dense(net, net.attend(query, *seen), _WIDTH))
    y = net.normalize_scale(x)
    gate = net.activate(_dense(net, y, _HIDDEN), "SILU")
    y = net.elementwise("MUL", gate, _dense(net, y, _HIDDEN), 0.04, 0)
    return net.sum(x, _dense(net, y, _WIDTH)), key, value


def _dense(net: Network, x: int, outputs: int) -> int:
    return net.dense_rows(x, outputs, biased=False)
