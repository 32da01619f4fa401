"""A network bound to the shape that it has, as if that were one of a range."""

from collections.abc import Mapping
from dataclasses import replace

from tpulite.compiler.bind.compile import RangeProgram
from tpulite.compiler.bind.network_plan import NetworkPlan
from tpulite.program import Program, TensorSpec


def plan_own_shape(network: RangeProgram) -> NetworkPlan:
    """Return the plan for the only shape; ValueError if a layer has no strategy."""
    shapes = network.shapes
    return network.plan(shapes.height[0], shapes.width[0])


def bind_own_shape(network: RangeProgram, macs: Mapping[str, int]) -> Program:
    """Return the program of the only shape of a network, as if it were compiled.

    Parameters
    ----------
    macs : mapping of str to int
        Multiplications of each layer that has some.
    """
    shapes = network.shapes
    bound = network.bind(shapes.height[0], shapes.width[0])
    infos = (
        replace(each, k=macs.get(each.name, 0) // max(each.m * each.n, 1)) for each in bound.layers
    )
    return Program(
        config=bound.config,
        commands=bound.commands,
        constants=bound.constants,
        window_bytes=bound.window_bytes,
        inputs=tuple(map(_single, bound.inputs)),
        outputs=tuple(map(_single, bound.outputs)),
        layers=tuple(infos),
        bound=True,
    )


def _single(spec: TensorSpec) -> TensorSpec:
    """Return a tensor without the axis of a batch of one."""
    assert spec.image is not None
    return replace(spec, image=spec.image[-2:])
