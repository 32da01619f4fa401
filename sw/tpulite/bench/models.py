"""Workloads of whole networks."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tpulite.arch.config import Config
from tpulite.bench.layers import LayersWorkload, make_layers
from tpulite.bench.workload import Outcome
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.graph.layers import LayerGraph
from tpulite.models import CNN_DIGITS
from tpulite.models.architectures import ARCHITECTURES
from tpulite.program import Program
from tpulite.runtime.device import Device
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.zoo import fetch

__all__ = ["ARCHITECTURES", "NETWORKS", "ModelWorkload", "make_architecture", "make_model"]

NETWORKS = ("cnn", "resnet8", "kws", "vww", "ad", "fingerprint")
"""The digits' own network, and networks of the zoo, which are fetched when they are needed."""

_SEED = 1

_DEFAULTS = Options()


@dataclass(frozen=True, eq=False)
class ModelWorkload:
    """A network of a file on random inputs, as many as a run takes.

    Parameters
    ----------
    model : Model
        The network, and the batch of its options.
    inputs : dict of str to ndarray
        Its inputs.
    """

    model: Model
    inputs: dict[str, np.ndarray]

    @property
    def parts(self) -> tuple[LayerGraph, ...]:
        """Integer layers of each program."""
        return self.model.layers

    def compile(self, options: Options = _DEFAULTS) -> tuple[Program, ...]:
        """Compile it, whatever is in the cache; the bits are the same with all options."""
        options = replace(options, batch=self.model.options.batch)
        return tuple(compile_layers(part, self.model.config, options) for part in self.parts)

    def run(self, programs: tuple[Program, ...], device: Device) -> Outcome:
        """Run what was compiled, and compare the result with the exact one."""
        results = replace(self.model, compiled=programs).run(self.inputs, device=device)
        exact = all(
            np.array_equal(results.outputs[name], self._expected[name]) for name in results.outputs
        )
        counters: Counter[str] = Counter()
        for segment in results.segments[0]:
            counters.update(segment.counters)
        return Outcome(
            programs, results.cycles[0] if results.cycles else None, dict(counters), exact
        )

    @cached_property
    def _expected(self) -> dict[str, np.ndarray]:
        tensors = self.model.reference(self.inputs)
        return {name: tensors[name] for name in self.model.graph.outputs}


def make_model(config: Config, name: str) -> ModelWorkload:
    """Run a network on one random input, everything in DRAM at the start."""
    path = CNN_DIGITS if name == "cnn" else fetch(name)
    model = Model.load(path, config=config)
    return ModelWorkload(model, random_inputs(model.graph, 1, _SEED))


def make_architecture(config: Config, name: str) -> LayersWorkload:
    """Run a large known network with random weights on one random image."""
    return make_layers(ARCHITECTURES[name](), config)
