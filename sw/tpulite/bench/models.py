"""Workloads of whole networks."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tpulite.arch.config import Config
from tpulite.bench.layers import LayersWorkload, make_layers
from tpulite.bench.workload import Outcome
from tpulite.compiler.options import Options
from tpulite.graph.layers import LayerGraph
from tpulite.models import CNN_DIGITS, MLP_DIGITS
from tpulite.models.architectures import ARCHITECTURES
from tpulite.program import Program
from tpulite.runtime.device import Device
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.zoo import fetch

__all__ = [
    "ARCHITECTURES",
    "BATCH",
    "MLPS",
    "NETWORKS",
    "ModelWorkload",
    "make_architecture",
    "make_mlp",
    "make_model",
]

NETWORKS = ("cnn", "resnet8", "kws", "vww", "ad", "fingerprint")
"""The digits' own network, and networks of the zoo, which are fetched when they are needed."""

BATCH = 16
"""Images of a batch."""

MLPS = {
    "mlp_b16_cold": Options(batch=BATCH),
    "mlp_b16_warm": Options(batch=BATCH, resident=True),
    "mlp_b16_stream": Options(batch=16 * BATCH),
}
"""The digits' classifier of dense layers: a batch, one with the weights on chip, and 16 batches."""

_SEED = 1

_DEFAULTS = Options()


@dataclass(frozen=True, eq=False)
class ModelWorkload:
    """A network of a file on random inputs; of several runs the last one is measured."""

    #: The network, and its options: how many inputs a run takes, and what stays on chip.
    model: Model
    inputs: dict[str, np.ndarray]  #: Its inputs.

    @property
    def parts(self) -> tuple[LayerGraph, ...]:
        """Integer layers of each program."""
        return self.model.layers

    def compile(self, options: Options = _DEFAULTS) -> tuple[Program, ...]:
        """Compile it, whatever is in the cache; the bits are the same with all options."""
        own = self.model.options
        options = replace(options, batch=own.batch, resident=own.resident)
        return self.model.with_options(options).programs

    def warmed(self) -> "ModelWorkload":
        """Return the same workload with constants that stay on chip."""
        options = self.model.options
        if options.resident:
            return self
        model = self.model.with_options(replace(options, resident=True))
        return ModelWorkload(model, {n: np.concatenate([x, x]) for n, x in self.inputs.items()})

    def run(self, programs: tuple[Program, ...], device: Device) -> Outcome:
        """Run what was compiled, and compare the result with the exact one."""
        model = replace(self.model, compiled=programs)
        results = model.run(self.inputs, device=device)
        exact = all(
            np.array_equal(results.outputs[name], self._expected[name]) for name in results.outputs
        )
        counters: Counter[str] = Counter()
        for segment in results.segments[-1]:
            counters.update(segment.counters)
        cycles = results.cycles[-1] if results.cycles else None
        batches = max(1, model.options.batch // BATCH)
        return Outcome(model.steady_programs, cycles, dict(counters), exact, batches)

    @cached_property
    def _expected(self) -> dict[str, np.ndarray]:
        tensors = self.model.reference(self.inputs)
        return {name: tensors[name] for name in self.model.graph.outputs}


def make_model(config: Config, name: str) -> ModelWorkload:
    """Run a network on one random input, everything in DRAM at the start."""
    path = CNN_DIGITS if name == "cnn" else fetch(name)
    model = Model.load(path, config=config)
    return ModelWorkload(model, random_inputs(model.graph, 1, _SEED))


def make_mlp(config: Config, name: str) -> ModelWorkload:
    """Run one of :data:`MLPS`; weights that stay on chip are there after a first run."""
    options = MLPS[name]
    model = Model.load(MLP_DIGITS, config=config, options=options)
    count = (1 + options.resident) * options.batch
    return ModelWorkload(model, random_inputs(model.graph, count, _SEED))


def make_architecture(config: Config, name: str) -> LayersWorkload:
    """Run a large known network with random weights on one random image."""
    return make_layers(ARCHITECTURES[name](), config)
