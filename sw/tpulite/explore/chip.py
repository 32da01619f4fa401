"""Points on the chip itself: what the RTL counts beside what the cycle model says."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.explore.measure import planned_for
from tpulite.explore.point import Point
from tpulite.explore.space import Space
from tpulite.golden.layers import run_layers
from tpulite.graph.layers import LayerGraph
from tpulite.runtime.session import Session


@dataclass(frozen=True)
class Counted:
    """A network on a machine that was simulated."""

    #: What the machine differs in from others of its study, as people write it.
    machine: Mapping[str, str]
    network: str  #: The network.
    model: int  #: Cycles by the cycle model.
    chip: int  #: Cycles that the RTL has counted.

    @property
    def off(self) -> float:
        """By what part of the chip's cycles the model is off."""
        return self.model / self.chip - 1

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return asdict(self) | {"off": self.off}


def count_on_chip(
    networks: Mapping[str, tuple[LayerGraph, ...]],
    space: Space,
    points: Sequence[Point],
    options: Options,
    *,
    device: str = "rtl",
    seed: int = 2024,
) -> Iterator[Counted]:
    """Run each network of some points on a device, with a memory as the point has it.

    Inputs are random, which no count depends on; every output must be that of the layers.

    Parameters
    ----------
    networks : mapping of str to tuple of LayerGraph
        For each network the parts that are the machine's.
    points : sequence of Point
        Points without trouble.
    options : Options
        How networks are compiled.
    device : str
        A device that counts cycles and takes a ``timing``.

    Raises
    ------
    RuntimeError
        If the device cannot be built, has a fault, or computes something else.
    """
    for point in points:
        assert point.config is not None
        timing = space.memory_of(dict(point.values))
        for name, parts in networks.items():
            cycles = 0
            for layers in parts:
                program = compile_layers(layers, point.config, planned_for(options, timing))
                session = Session(program, device)
                cycles += _run(session, layers, options.batch, seed)
            machine = {field: point.shown(field) for field in point.values}
            yield Counted(machine, name, point.counts[name].cycles, cycles)


def _run(session: Session, layers: LayerGraph, batch: int, seed: int) -> int:
    """Run a program once; return the cycles that the device has counted."""
    rng = np.random.default_rng(random.Random(seed).getrandbits(32))
    images = [
        {
            name: rng.integers(-128, 128, layers.activations[name].shape, np.int8)
            for name in layers.inputs
        }
        for _ in range(batch)
    ]
    given = {name: np.stack([image[name] for image in images]) for name in layers.inputs}
    results = session.run({name: x if batch > 1 else x[0] for name, x in given.items()})
    if results.fault is not None:
        raise RuntimeError(f"{layers.name}: the chip stopped with {results.fault}")
    for number, image in enumerate(images):
        expected = run_layers(layers, image)
        for name, found in results.outputs.items():
            if not np.array_equal(found[number] if batch > 1 else found, expected[name]):
                raise RuntimeError(f"{layers.name}: the chip computes a different {name!r}")
    assert results.cycles is not None
    return results.cycles
