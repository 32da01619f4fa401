"""Workloads of whole networks."""

import numpy as np

from tpulite.bench.workload import Outcome
from tpulite.compiler.pipeline import compile_layers
from tpulite.golden.layers import run_layers
from tpulite.models import CNN_DIGITS
from tpulite.models.architectures import ARCHITECTURES
from tpulite.runtime.device import Device
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.session import Session
from tpulite.zoo import fetch

__all__ = ["NETWORKS", "run_architecture", "run_model"]

NETWORKS = ("cnn", "resnet8", "kws", "vww", "ad")
"""The digits' own network, and networks of the zoo, which are fetched when they are needed."""

_SEED = 1


def run_model(device: Device, name: str) -> Outcome:
    """Run a network on one random input, everything in DRAM at the start."""
    path = CNN_DIGITS if name == "cnn" else fetch(name)
    model = Model.load(path, config=device.config)
    inputs = random_inputs(model.graph, 1, _SEED)
    results = model.run(inputs, device=device)
    reference = model.reference(inputs)
    exact = all(np.array_equal(results.outputs[key], reference[key]) for key in results.outputs)
    return Outcome(
        model.compile().programs,
        sum(results.cycles) if results.cycles else None,
        results.segments[0][-1].counters,
        exact,
    )


def run_architecture(device: Device, name: str) -> Outcome:
    """Run a large known network with random weights on one random image."""
    layers = ARCHITECTURES[name]()
    program = compile_layers(layers, device.config)
    (source,), (output,) = layers.inputs, layers.outputs
    rng = np.random.default_rng(_SEED)
    image = rng.integers(-128, 128, layers.images[source].shape).astype(np.int8)
    results = Session(program, device).run({source: image})
    exact = np.array_equal(results.outputs[output], run_layers(layers, {source: image})[output])
    return Outcome((program,), results.cycles, results.counters, exact)
