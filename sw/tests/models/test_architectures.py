import numpy as np
import pytest

from tpulite.golden.layers import run_layers
from tpulite.graph.layers import Conv, Depthwise
from tpulite.models.architectures import ARCHITECTURES
from tpulite_testing.regress import thinned

MACS = {"mobilenet_v2_1.0_224": 300_774_272, "resnet50_224": 3_857_973_248}


@pytest.mark.parametrize(
    "name",
    thinned(
        ARCHITECTURES,
        "mobilenet_v2_1.0_224",
        reason="ten seconds; the other network is scaled by the same code",
    ),
)
def test_every_layer_says_something(name):
    """On an image that is not the one that scaled the layers."""
    layers = ARCHITECTURES[name]()
    assert sum(layers.macs().values()) == MACS[name]
    (source,), (output,) = layers.inputs, layers.outputs
    assert layers.activations[source].shape == (224, 224, 3)
    assert layers.activations[output].shape == (1, 1, 1000)
    rng = np.random.default_rng(1)
    image = rng.integers(-128, 128, (224, 224, 3)).astype(np.int8)
    images = run_layers(layers, {source: image})
    for layer in layers.layers:
        assert len(np.unique(images[layer.output])) > 100, layer.title
        if isinstance(layer, Conv | Depthwise):
            assert layer.requantization is not None
            multipliers = layer.requantization.multiplier
            assert len(multipliers) == layer.weight.shape[-1]
            assert len(np.unique(multipliers)) > 0.9 * len(multipliers), layer.title


def test_the_same_seed_gives_the_same_weights():
    first, again, other = (ARCHITECTURES["mobilenet_v2_1.0_224"](32, seed) for seed in (1, 1, 2))
    weights = [
        [layer.weight for layer in graph.layers if hasattr(layer, "weight")]
        for graph in (first, again, other)
    ]
    assert all(map(np.array_equal, weights[0], weights[1]))
    assert not any(map(np.array_equal, weights[0], weights[2]))
