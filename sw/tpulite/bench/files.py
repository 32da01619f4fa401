"""Workloads that are users' files: compiled and run as the command line does."""

from collections.abc import Callable

import numpy as np

from tpulite.arch.config import Config
from tpulite.bench.converted import mobilenet_v2_graph
from tpulite.bench.file_graphs import (
    add_graph,
    batch_norm_graph,
    dense_graph,
    function_graph,
    patches_graph,
)
from tpulite.bench.layers import LayersWorkload, make_layers
from tpulite.bench.models import ModelWorkload
from tpulite.compiler.options import Options
from tpulite.graph.graph import Graph
from tpulite.graph.layers import Activation, Affine, LayerGraph, Requantization
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model

_SEED = 1

FILES: dict[str, Callable[[str], Graph]] = {
    "dense_b64_64_to_64": lambda name: dense_graph(name, 64, (64, 64)),
    "dense_b256_256_to_256": lambda name: dense_graph(name, 256, (256, 256)),
    "mlp_b16_file": lambda name: dense_graph(name, 16, (256, 64, 32, 16)),
    "mlp_b1_file_x16": lambda name: dense_graph(name, 1, (256, 64, 32, 16)),
    "sigmoid_56x56x48": lambda name: function_graph(name, "sigmoid", (56, 56, 48)),
    "add_56x56x48": lambda name: add_graph(name, (56, 56, 48)),
    "batch_norm_56x40x64": lambda name: batch_norm_graph(name, (56, 40, 64)),
    "patches16_224x224x3_to_192": lambda name: patches_graph(name, (224, 224, 3), 16, 192),
    "mobilenet_v2_uint8": mobilenet_v2_graph,
}
"""What a reader makes of files, by the names of workloads."""

LARGE_FILES = ("mobilenet_v2_uint8",)
"""Those whose simulation takes minutes."""

_BATCHES = {"mlp_b1_file_x16": 16}
"""Options ``--batch`` that are not 1."""


def make_file(config: Config, name: str) -> ModelWorkload:
    """Run a file of :data:`FILES` on random inputs."""
    options = Options(batch=_BATCHES.get(name, 1))
    model = Model.load(FILES[name](name), config=config, options=options)
    return ModelWorkload(model, random_inputs(model.graph, options.batch, _SEED))


def make_affine(config: Config, height: int, width: int, channels: int) -> LayersWorkload:
    """Run the machine's own batch normalization."""
    return make_layers(affine_layers(height, width, channels), config)


def affine_layers(height: int, width: int, channels: int) -> LayerGraph:
    """Return a random gain and bias for each channel."""
    rng, image = np.random.default_rng(_SEED), Activation((height, width, channels))
    scale = Requantization(
        multiplier=rng.integers(1 << 30, 1 << 31, channels),
        shift=np.full(channels, -12, np.int64),
        bias=rng.integers(-(2**16), 2**16, channels).astype(np.int32),
    )
    gain = rng.integers(-(2**12), 2**12, channels).astype(np.int16)
    layer = Affine(name="affine", inputs=("x",), output="y", gain=gain, requantization=scale)
    return LayerGraph("affine", (layer,), {"x": image, "y": image}, ("x",), ("y",))
