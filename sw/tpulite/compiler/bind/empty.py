"""Shapes without elements: a strategy that is always there, and a program that does nothing."""

from collections.abc import Mapping

import numpy as np

from tpulite.arch.memory import Window
from tpulite.compiler.bind.bound import BoundProgram
from tpulite.compiler.bind.network import Network
from tpulite.compiler.bind.network_plan import NetworkPlan
from tpulite.compiler.geometry.axis import Number, both, most
from tpulite.compiler.operators.operator import Operator, Shape, tensor_spec
from tpulite.compiler.operators.words import END_WORD
from tpulite.compiler.plan.slabs import Strategy
from tpulite.counted import counted
from tpulite.program import TensorSpec


def total_strategies(
    operator: Operator, batch: Number, height: Number, width: Number, channels: Number
) -> tuple[Strategy, ...]:
    """Return all strategies of an operator for any shapes, with extents of 0 among them.

    The last one is ``empty``; it is feasible where there is nothing to compute, and no other is.

    Parameters
    ----------
    batch, height, width, channels : int or array of int
        Extents of its input.
    """
    some = batch * height * width * channels > 0
    none = ~some if isinstance(some, np.ndarray) else not some
    y, x = operator.axes_of(height, width)
    # Closed forms divide by extents: where one is 0, they get the least that suits the window.
    extents = most(height, none * y.reach), most(width, none * x.reach)
    found = operator.strategies((most(batch, 1), *extents, most(channels, 1)))
    sizes = dict.fromkeys(found[0].sizes, 0)
    kept = (each._replace(feasible=both(each.feasible, some)) for each in found)
    return (*kept, Strategy("empty", none, 0, 0, sizes))


def empty_extents(network: Network, height: int, width: int) -> Mapping[str, tuple[int, int]]:
    """Return height and width of each tensor, if the batch or an extent is 0.

    Raises
    ------
    ValueError
        If a window would see nothing but padding, or is larger than what it slides over.
    """
    found = {
        name: (1, 1) if network.is_pixel(name) else (height, width)
        for name in network.layers.inputs
    }
    for node in network.nodes:
        source = node.inputs[0]
        sizes = found[network.whole(source)]
        packed = network.packed.get(source)
        axes = node.operator.axes_of(*sizes) if packed is None else packed.axes
        outputs = [axis.outputs(size) for axis, size in zip(axes, sizes, strict=True)]
        for i, what in enumerate(("height", "width")):
            if not sizes[i] and outputs[i] > 0:
                raise ValueError(
                    f"{node.layer.title}: {what} must be 1 or more, not 0, because its padding "
                    f"alone gives {counted(outputs[i], 'position')}"
                )
            if sizes[i] and outputs[i] < 1:
                raise ValueError(
                    f"{node.layer.title}: {what} {sizes[i]} is too small for a window of "
                    f"{axes[i].reach}"
                )
        found[node.output] = max(outputs[0], 0), max(outputs[1], 0)
        found.setdefault(network.whole(node.output), found[node.output])
    return found


def bind_empty(network: Network, shape: Shape) -> BoundProgram:
    """Return the program of a network for an empty shape: END, and tensors of the right shapes."""
    layers, config = network.layers, network.config
    extents = empty_extents(network, shape.height, shape.width)
    alone = len(network.nodes) == 1
    specs: dict[Window, list[TensorSpec]] = {Window.INPUT: [], Window.OUTPUT: []}
    windows = dict.fromkeys(Window, 0)
    for window, names in ((Window.INPUT, layers.inputs), (Window.OUTPUT, layers.outputs)):
        for name in names:
            batch = 1 if alone and network.is_pixel(name) else shape.batch
            channels = network.channels(name, shape.channels)
            sizes = batch, *extents[name]
            spec = tensor_spec(layers, name, window, windows[window], sizes, channels)
            windows[window] += spec.nbytes(config)
            specs[window].append(spec)
    return BoundProgram.of(
        np.ascontiguousarray(END_WORD.T).tobytes(),
        tuple,
        config=config,
        constants=b"",
        window_bytes=tuple(windows.values()),
        inputs=tuple(specs[Window.INPUT]),
        outputs=tuple(specs[Window.OUTPUT]),
        resident=(),
    )


def plan_empty(shape: Shape) -> NetworkPlan:
    """Return what is chosen for an empty shape: nothing, in no pass."""
    return NetworkPlan((), shape.batch, 0)
