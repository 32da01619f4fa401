"""Programs for ranges of shapes: a network is compiled once, and bound to each shape quickly."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

import numpy as np

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import LOAD, RAW_ROWS, VECTOR
from tpulite.compiler.bind.bound import BoundProgram
from tpulite.compiler.bind.empty import bind_empty, empty_extents, plan_empty, total_strategies
from tpulite.compiler.bind.network import Network, Node, compile_nodes, substitute_all
from tpulite.compiler.bind.network_plan import NetworkPlan
from tpulite.compiler.bind.site import bind_network, plan_network
from tpulite.compiler.operators.operator import Operator, Shape, ShapeRange, interval
from tpulite.compiler.plan.slabs import Strategy, choose, choose_all
from tpulite.compiler.rewrite.order import order_layers
from tpulite.graph.layers import Affine, LayerGraph, has_int16

_KEPT = 8
"""Shapes whose programs are kept."""

_RESIDUES = 64
"""Sizes at the upper end of a range among which beats, strides and grains meet in every way."""


class RangeProgram:
    """A network, compiled for a range of shapes.

    Parameters
    ----------
    network : Network
        Its layers, compiled but for their extents.
    shapes : ShapeRange
        Shapes of its first input that can be bound.
    others : tuple of Network
        Networks that compute the same with other layers: a shape takes the fastest.
    """

    def __init__(
        self, network: Network, shapes: ShapeRange, others: tuple[Network, ...] = ()
    ) -> None:
        self.network, self.shapes, self._others = network, shapes, others
        self.layers, self.config = network.layers, network.config
        self._bind = lru_cache(_KEPT)(self._fastest)

    def _fastest(self, shape: Shape) -> BoundProgram:
        return bind_network(self.network, shape, *self._others)

    @property
    def plain(self) -> "RangeProgram":
        """The program of the layers as they are, which C binds."""
        return RangeProgram(self.network, self.shapes)

    @property
    def operator(self) -> Operator:
        """The operator of the first layer."""
        return self.network.nodes[0].operator

    def strategy(self, shape: Shape) -> Strategy:
        """Return the strategy with which a network of one layer is computed.

        That of an empty shape is called ``empty``.

        Raises
        ------
        ValueError
            If the shape is not in the range.
        """
        self._check(shape)
        if self._others and not shape.empty:
            first, *more = plan_network(self.network, shape, *self._others).layers
            if first.node.operator is not self.operator and not more:
                return first.strategy
        name = self.network.nodes[0].inputs[0]
        height, width = self.network.extents(shape.height, shape.width)[name]
        strategies = total_strategies(self.operator, shape.batch, height, width, shape.channels)
        chosen = choose(strategies)
        if chosen is None:
            raise ValueError(self._why_not(shape, strategies, 0))
        return chosen

    def bind(
        self, height: int, width: int, *, batch: int = 1, channels: int | None = None
    ) -> BoundProgram:
        """Return the program for one shape.

        Parameters
        ----------
        height, width, batch : int
            Extents of the first input.
        channels : int, optional
            Its channels; by default the most that the program is compiled for.

        Returns
        -------
        BoundProgram
            A legal program. The shape of its tensors is [batch, height, width, channels]. That of
            an empty shape does nothing.

        Raises
        ------
        ValueError
            If the shape is not in the range.
        """
        shape = self.shape(height, width, batch=batch, channels=channels)
        return bind_empty(self.network, shape) if shape.empty else self._bind(shape)

    def plan(
        self, height: int, width: int, *, batch: int = 1, channels: int | None = None
    ) -> NetworkPlan:
        """Return what :meth:`bind` chooses for one shape, without a program; errors are alike.

        Parameters are those of :meth:`bind`.
        """
        shape = self.shape(height, width, batch=batch, channels=channels)
        if shape.empty:
            return plan_empty(shape)
        return plan_network(self.network, shape, *self._others)

    def shape(
        self, height: int, width: int, *, batch: int = 1, channels: int | None = None
    ) -> Shape:
        """Return a shape of the range; parameters and errors are those of :meth:`bind`."""
        assert self.shapes.channels is not None
        most = self.shapes.channels[1]
        shape = Shape(batch, height, width, most if channels is None else channels)
        self._check(shape)
        return shape

    def _check(self, shape: Shape) -> None:
        layer = self.network.nodes[0].layer
        self.shapes.check(shape, f"{layer.title}, input {layer.inputs[0]!r}")

    def check_range(self) -> None:
        """Check that every shape of the range that is not empty has a strategy for each layer.

        What a strategy needs at least grows with the extents, so the largest ones decide; where
        rows are smaller than beats it also depends on how many of them make up whole beats.

        Raises
        ------
        ValueError
            If there is a shape without one: with what it needs and what there is.
        """
        filled = self.shapes.filled
        if filled is None:
            return
        limits = filled.batch, filled.height, filled.width
        batch, height, width = (range(low, high + 1) for low, high in limits)
        if self.config.row_bytes >= BEAT_BYTES:
            batches, heights, widths = {batch[0], batch[-1]}, {height[-1]}, {*width}
        else:
            batches = {*batch[:BEAT_BYTES], batch[-1]}
            heights, widths = {*height[-_RESIDUES:]}, {*width[-_RESIDUES:]}
        if len(self.network.nodes) > 1:
            batches = {1}  # image after image is always possible
        for number in range(len(self.network.nodes)):
            self._check_node(number, (sorted(batches), sorted(heights), sorted(widths)))

    def _check_node(self, number: int, axes: tuple[list[int], list[int], list[int]]) -> None:
        node, depth = self.network.nodes[number], self._depth(number)
        batches, heights, widths = axes
        name = node.inputs[0]
        # Extents are those of the layer's own input, each once.
        extents, (tall, wide) = self.network.extents, (heights[-1], widths[-1])
        heights = sorted({extents(size, wide)[name][0] for size in heights})
        widths = sorted({extents(tall, size)[name][1] for size in widths})
        grid = np.meshgrid(batches, heights, widths, indexing="ij")
        images, rows, columns = (axis.ravel().astype(np.int64) for axis in grid)
        strategies = node.operator.strategies((images, rows, columns, depth))
        missing = np.flatnonzero(choose_all(strategies, images.shape) < 0)
        if missing.size:
            extents = (int(axis[missing[0]]) for axis in (images, rows, columns))
            shape = Shape(*extents, channels=depth)
            strategies = node.operator.strategies(shape)
            raise ValueError(self._why_not(shape, strategies, number))

    def _depth(self, number: int) -> int:
        if len(self.network.nodes) == 1:
            assert self.shapes.channels is not None
            return self.shapes.channels[1]
        return self.layers.activations[self.network.nodes[number].inputs[0]].shape[2]

    def _why_not(self, shape: Shape, strategies: tuple[Strategy, ...], number: int) -> str:
        """Say why a shape has no strategy."""
        title = f"{self.network.nodes[number].layer.title} with input {shape}"
        config = self.config
        needs = [s.sizes["needed_rows"] for s in strategies]
        needs = [rows for rows in needs if rows > config.ub_rows]
        if not needs:
            return f"{title} cannot be tiled: rows do not start at multiples of {BEAT_BYTES} bytes"
        return (
            f"{title} needs {min(needs) * config.row_bytes} bytes of the unified buffer, which "
            f"has {config.ub_bytes}"
        )


def compile_range(layers: LayerGraph, shapes: ShapeRange, config: Config) -> RangeProgram:
    """Compile a network for a range of shapes.

    Parameters
    ----------
    layers : LayerGraph
        The network. Heights and widths follow from those of the first input by each layer's window,
        stride and padding; a pooling layer whose window is its whole input follows the extents.
    shapes : ShapeRange
        Shapes of its first input. Channels may vary in networks of one layer where they are
        independent of each other; an affine layer has parameters for the most, and fewer are the
        first of them.

    Returns
    -------
    RangeProgram
        Every shape of the range can be bound.

    Raises
    ------
    ValueError
        If a layer depends on the extents, or if the network or a shape does not suit the machine.
    """
    return _with_others(layers, shapes, config, RangeProgram.check_range)


def compile_shape(layers: LayerGraph, config: Config) -> RangeProgram:
    """Compile a network for its own shape alone, whose strategies are found when it is bound.

    Parameters and errors are those of :func:`compile_range`; binding raises ValueError if a layer
    has no strategy.

    Raises
    ------
    ValueError
        If an activation has not the extents that follow from those of the first input.
    """
    height, width, _ = layers.activations[layers.inputs[0]].shape
    shapes = ShapeRange((1, 1), (height, height), (width, width))
    program = _with_others(layers, shapes, config, lambda _: None)
    for name, extents in program.network.extents(height, width).items():
        known = layers.activations.get(name)
        if known and name not in program.network.packed and extents != known.shape[:2]:
            raise ValueError(f"Activation {name!r} does not follow the extents of the first input")
    return program


def _with_others(
    layers: LayerGraph, shapes: ShapeRange, config: Config, check: Callable[[RangeProgram], None]
) -> RangeProgram:
    """Compile a network and, if there is one, that of its substitutes; check both."""
    if has_int16(layers):
        raise ValueError(f"{layers.name!r} has layers of int16: they need one shape, see compile")
    layers = order_layers(layers)
    program = _compile(layers, shapes, config, averaged=False)
    check(program)
    depth = layers.activations[layers.inputs[0]].shape[2]
    others = ()
    with suppress(ValueError):  # what a substitute cannot be, its layer is
        if program.shapes.channels == (depth, depth) and (other := substitute_all(layers)):
            substitute = _compile(other, shapes, config, averaged=True)
            check(substitute)
            others = (substitute.network,)
    return RangeProgram(program.network, program.shapes, others)


def _compile(
    layers: LayerGraph, shapes: ShapeRange, config: Config, *, averaged: bool
) -> RangeProgram:
    """Compile layers as they are."""
    network = compile_nodes(layers, shapes, config, averaged=averaged)
    depth = layers.activations[layers.inputs[0]].shape[2]
    if shapes.channels is None:
        shapes = replace(shapes, channels=(depth, depth))
    assert shapes.channels is not None
    least, most = shapes.channels
    if len(network.nodes) == 1:
        check_channels(network.nodes[0], least, most, config)
    elif (least, most) != (depth, depth):
        raise ValueError(
            f"Network {layers.name!r} has {depth} channels, not {interval(least, most)}: those of "
            "several layers do not vary"
        )
    if shapes != (filled := shapes.filled):
        empty_extents(network, shapes.height[0], shapes.width[0])
    if filled is not None:
        check_covering(network, filled)
        check_windows(network, shapes.batch[1], shapes.height[1], shapes.width[1], most)
    return RangeProgram(network, shapes)


_WINDOW_BYTES = LOAD.limit("offset") + 1
_BLOCKS = VECTOR.limit("rows")


def check_covering(network: Network, shapes: ShapeRange) -> None:
    """Check that kernels that are as large as their input in the file are so for all shapes.

    Such a layer is a dense one: slid over more, it would mean something else.

    Raises
    ------
    ValueError
        If one is not, or a window is too large for an extent of the range.
    """
    network.check_extents(shapes.height[0], shapes.width[0])
    least = network.extents(shapes.height[0], shapes.width[0])
    most = network.extents(shapes.height[1], shapes.width[1])
    if len(network.nodes) == 1:
        return  # its extents are without meaning
    for node in network.nodes:
        layer, name, windows = node.layer, node.inputs[0], node.layer.windows
        if windows is None or layer.weights is None or name in network.packed:
            continue
        kernel = windows.kernel
        if kernel == (1, 1) or kernel != network.layers.activations[name].shape[:2]:
            continue
        for height, width in (least[name], most[name]):
            if (height, width) != kernel and not any(windows.padding):
                raise ValueError(
                    f"{layer.title} depends on the extents: it covers {kernel[0]} x {kernel[1]} "
                    f"positions, which is all that it reads, but may have to read "
                    f"{height} x {width}"
                )


def check_channels(node: Node, least: int, most: int, config: Config) -> None:
    """Check that a layer that is alone may have so many channels.

    Raises
    ------
    ValueError
        If it may not.
    """
    layer = node.layer
    allowed = range(_BLOCKS * config.array_size + 1)
    if isinstance(layer, Affine):
        allowed = range(len(layer.gain) + 1)
    if (weights := layer.weights) is not None:
        allowed = range(weights.shape[2], weights.shape[2] + 1)
    if least not in allowed or most not in allowed:
        raise ValueError(
            f"{layer.title} can have {interval(allowed[0], allowed[-1])} channels, not "
            f"{interval(least, most)}"
        )


def check_windows(network: Network, batch: int, height: int, width: int, channels: int) -> None:
    """Check that the largest tensors fit their DRAM windows.

    Raises
    ------
    ValueError
        If they do not.
    """
    layers, size = network.layers, network.config.array_size
    extents = network.extents(height, width)
    totals = {"inputs": 0, "an output": 0}
    for node in network.nodes:
        for name in dict.fromkeys((*node.inputs, node.output)):
            rows = RAW_ROWS if layers.activations[name].dtype == "int32" else 1
            depth = network.channels(name, channels)
            needed = batch * extents[name][0] * extents[name][1] * rows * -(-depth // size) * size
            what = "an output" if name == node.output else "inputs"
            totals[what] = needed + (totals[what] if name in layers.inputs else 0)
            if totals[what] >= _WINDOW_BYTES:
                raise ValueError(
                    f"{node.layer.title}: {what} of {totals[what]} bytes do not fit a DRAM window, "
                    f"which has less than {_WINDOW_BYTES}"
                )
