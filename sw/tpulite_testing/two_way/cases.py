"""Layers and networks at shapes, on four machines, that both roads compile."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from tpulite.compiler.bind import ShapeRange, compile_range
from tpulite.configs import named_config
from tpulite.graph.layers import LayerGraph
from tpulite.models.architectures import mobilenet_v2
from tpulite.program import Program
from tpulite.runtime.model import Model
from tpulite.zoo import fetch
from tpulite_testing.drawn.range_cases import EVERY_KIND, draw_case
from tpulite_testing.drawn.range_networks import Builder, resized
from tpulite_testing.graphs.range_layers import affine, conv, pool
from tpulite_testing.graphs.range_networks import keywords, resnet8
from tpulite_testing.kept import kept_program

__all__ = ["MACHINES", "Pair", "pairs"]

MACHINES = ("16x16", "8x8", "4x4", "16x16,ub_rows=512")
"""The machines; the last one has a 32nd of the buffer."""

DRAWN = 200
"""Layers that are drawn."""

_SEED = 46


@dataclass(frozen=True)
class Pair:
    """A network at a shape, on a machine."""

    machine: str  #: Name of the configuration.
    layer: str  #: ``FAMILY/WHAT``; families are layer, drawn, network and zoo.
    shape: tuple[int, int]  #: Height and width.
    make: Callable[[], LayerGraph]  #: Makes the network, for any shape.
    shapes: ShapeRange  #: Shapes that the bound program can have.
    quick: bool = False  #: Whether ``make test`` compares it.

    @property
    def key(self) -> tuple[str, str, str]:
        """Machine, layer and shape, as a table has them."""
        return self.machine, self.layer, "x".join(map(str, self.shape))

    def compiled(self) -> Program:
        """Return the program that is compiled for the shape."""
        return kept_program(resized(self.make(), *self.shape), named_config(self.machine))

    def bound(self) -> Program:
        """Return the program that is bound to the shape."""
        program = compile_range(self.make(), self.shapes, named_config(self.machine))
        return program.bind(*self.shape)


def pairs() -> Iterator[Pair]:
    """Yield all of them."""
    for number, machine in enumerate(MACHINES):
        yield from _layer_pairs(machine)
        for seed in range(DRAWN):
            # The first machine has all of them, the others take turns.
            if number in (0, seed % len(MACHINES)):
                quick = seed < _QUICK_DRAWN and number == seed % len(MACHINES)
                yield _drawn_pair(machine, seed, quick)
        yield from _network_pairs(machine)


# ---- Layers as networks have them

_EXTENTS = ((14, 14), (17, 31), (28, 28), (56, 56), (64, 48), (112, 112))
"""The first machine has all of them, the others the first half."""

_WHOLE = ShapeRange((1, 1), (8, 224), (8, 224))


def _depthwise(kernel: int, stride: int) -> LayerGraph:
    net = Builder(np.random.default_rng(1), (8, 8, 64))
    return net.graph(net.depthwise("x", kernel, stride))


_LAYERS: dict[str, Callable[[], LayerGraph]] = {
    **{
        f"{op}_pool{size}x{size}": partial(pool, (size, size), op)
        for size in (2, 3, 5)
        for op in ("max", "average")
    },
    "affine_64": partial(affine, 64),
    "conv3x3_64_to_64": partial(conv, (3, 3), 64, 64),
    "conv1x1_64_to_128": partial(conv, (1, 1), 64, 128),
    "conv5x5_16_to_32": partial(conv, (5, 5), 16, 32),
    "depthwise3x3": partial(_depthwise, 3, 1),
    "depthwise3x3_stride_2": partial(_depthwise, 3, 2),
    "depthwise5x5": partial(_depthwise, 5, 1),
}


def _layer_pairs(machine: str) -> Iterator[Pair]:
    for name, make in _LAYERS.items():
        for shape in _EXTENTS if machine == MACHINES[0] else _EXTENTS[:3]:
            # The search of a wide convolution takes seconds.
            quick = machine == MACHINES[0] and shape in _EXTENTS[:2] and name[:7] != "conv3x3"
            yield Pair(machine, f"layer/{name}", shape, make, _WHOLE, quick)


# ---- Layers at random

_QUICK_DRAWN = 40


def _drawn_pair(machine: str, seed: int, quick: bool) -> Pair:
    rng = np.random.default_rng((_SEED, seed))
    kind = EVERY_KIND[seed % len(EVERY_KIND)]
    case = draw_case(rng, kind)
    largest = int(rng.choice([8, 16, 32, 64]))
    shape = tuple(int(rng.integers(low, max(low, largest) + 1)) for low in case.smallest)
    limits = case.range(1, *shape)
    return Pair(
        machine,
        f"drawn/{seed:03} {kind}",
        (shape[0], shape[1]),
        partial(case.graph, *shape),
        ShapeRange((1, 1), limits.height, limits.width),
        quick,
    )


# ---- Networks

_ZOO = {
    "resnet8": (32, 32),
    "kws": (50, 10),
    "vww": (96, 96),
    "ad": (1, 1),
    "kws_mobilenet": (59, 49),
    "kws_on_off": (98, 1),
    "rps": (84, 84),
    "fingerprint": (180, 180),
    "speech": (49, 40),
    "magic_wand": (128, 3),
}
"""Networks of the zoo with the extents of their inputs; vww is a MobileNetV1."""

_NETWORKS: dict[str, tuple[Callable[[], LayerGraph], tuple[tuple[int, int], ...]]] = {
    "resnet8": (resnet8, ((32, 32), (64, 48), (17, 31))),
    "keywords": (keywords, ((49, 10), (98, 20))),
    "mobilenet_v2": (mobilenet_v2, ((96, 96), (224, 224))),
}


def _network_pairs(machine: str) -> Iterator[Pair]:
    for name, (make, shapes) in _NETWORKS.items():
        for shape in shapes:
            if shape == (224, 224) and machine in MACHINES[1:3]:
                continue  # a minute each
            quick = machine == MACHINES[0] and shape == (49, 10)
            yield Pair(machine, f"network/{name}", shape, make, _only(*shape), quick)
    for name, shape in _ZOO.items():
        yield Pair(machine, f"zoo/{name}", shape, partial(_zoo, name), _only(*shape))


def _only(height: int, width: int) -> ShapeRange:
    return ShapeRange((1, 1), (height, height), (width, width))


@cache
def _zoo(name: str) -> LayerGraph:
    """Return the layers of a network that are the machine's; the largest part if there are more."""
    parts = Model.load(str(fetch(name))).layers
    return max(parts, key=lambda layers: sum(layers.macs().values()))
