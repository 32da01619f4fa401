"""Cases that are ranges of shapes, bound to one of them."""

from collections.abc import Callable, Iterator
from functools import cache, partial

from tpulite.arch.config import Config
from tpulite.compiler.bind import RangeProgram, ShapeRange, compile_range
from tpulite.configs import named_config
from tpulite.graph.layers import LayerGraph
from tpulite.models.architectures import mobilenet_v2
from tpulite.program import Program
from tpulite_testing.graphs.range_layers import affine, conv, pool
from tpulite_testing.replay.case import Case

__all__ = ["bound_cases"]

_RANGE = ShapeRange((1, 16), (3, 224), (3, 224))

_LAYERS: dict[str, Callable[[], LayerGraph]] = {
    "affine_64": lambda: affine(64),
    "max_pool3x3": lambda: pool((3, 3), "max"),
    "average_pool3x3": lambda: pool((3, 3), "average"),
    "conv3x3_64_to_64": lambda: conv((3, 3), 64, 64),
    "conv1x1_64_to_64": lambda: conv((1, 1), 64, 64),
}
_SHAPES = ((8, 7, 7), (1, 32, 32), (1, 56, 40), (1, 112, 80), (16, 3, 5))
_QUICK_SHAPES = ((8, 7, 7), (1, 56, 40))
_MACHINES = ("16x16", "8x8")

_NETWORK_SHAPES = ((1, 224, 224), (2, 192, 160), (16, 32, 32))


def bound_cases() -> Iterator[Case]:
    """Yield all of them; names hold batch, height and width."""
    for name, make in _LAYERS.items():
        for machine in _MACHINES:
            for shape in _SHAPES:
                quick = machine == "16x16" and shape in _QUICK_SHAPES
                yield Case(_name(name, shape, machine), _bound(make, machine, shape), quick)
    for shape in _NETWORK_SHAPES:
        whole = ShapeRange((1, 16), (32, 224), (32, 224))
        bind = _bound(mobilenet_v2, "16x16", shape, whole)
        yield Case(_name("mobilenet_v2", shape, "16x16"), bind)


def _name(name: str, shape: tuple[int, int, int], machine: str) -> str:
    extents = "x".join(map(str, shape))
    return f"bound/{name} {extents}" + ("" if machine == "16x16" else f" {machine}")


def _bound(
    make: Callable[[], LayerGraph],
    machine: str,
    shape: tuple[int, int, int],
    shapes: ShapeRange = _RANGE,
) -> Callable[[], tuple[Program, ...]]:
    return partial(_bind, make, named_config(machine), shapes, shape)


def _bind(
    make: Callable[[], LayerGraph],
    config: Config,
    shapes: ShapeRange,
    shape: tuple[int, int, int],
) -> tuple[Program, ...]:
    batch, height, width = shape
    return (_compiled(make, config, shapes).bind(height, width, batch=batch),)


@cache
def _compiled(make: Callable[[], LayerGraph], config: Config, shapes: ShapeRange) -> RangeProgram:
    return compile_range(make(), shapes, config)
