"""Programs for ranges of shapes: compiled once, bound to a shape in less than a millisecond."""

from dataclasses import astuple

import numpy as np

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import LOAD, RAW_ROWS, VECTOR
from tpulite.arch.memory import Window
from tpulite.dynamic.bound import BoundProgram
from tpulite.dynamic.conv import Convolution
from tpulite.dynamic.operator import Operator
from tpulite.dynamic.pointwise import Pointwise
from tpulite.dynamic.pool import Pooling
from tpulite.dynamic.selector import Strategy, choose, choose_all
from tpulite.dynamic.shapes import Shape, ShapeRange
from tpulite.dynamic.windows import Axis
from tpulite.graph.layers import Affine, Conv, Elementwise, LayerGraph, Lut, Pool
from tpulite.program import LayerInfo

__all__ = ["DynamicProgram", "compile_dynamic"]

_WINDOW_BYTES = next(field.range.stop for field in LOAD.fields if field.name == "offset")
_BLOCKS = next(field.range[-1] for field in VECTOR.fields if field.name == "rows")

_RESIDUES = 64
"""Sizes at the upper end of a range among which beats, strides and grains meet in every way."""


class DynamicProgram:
    """One layer, compiled for a range of shapes.

    Parameters
    ----------
    layers : LayerGraph
        A network of one layer. The extents of its images are without meaning, but the channels of
        a convolution.
    shapes : ShapeRange
        Shapes of its first input that can be bound.
    config : Config
        The machine.
    operator : Operator
        The layer, compiled.
    """

    def __init__(
        self, layers: LayerGraph, shapes: ShapeRange, config: Config, operator: Operator
    ) -> None:
        self.layers, self.shapes, self.config, self.operator = layers, shapes, config, operator

    def strategy(self, shape: Shape) -> Strategy:
        """Return the strategy that a shape is computed with.

        Raises
        ------
        ValueError
            If the shape is not in the range.
        """
        (layer,) = self.layers.layers
        self.shapes.check(shape, f"{layer.title}, input {layer.inputs[0]!r}")
        strategies = self.operator.strategies(*astuple(shape))
        chosen = choose(strategies)
        if chosen is None:
            raise ValueError(self._why_not(shape, strategies))
        return chosen

    def bind(
        self, height: int, width: int, *, batch: int = 1, channels: int | None = None
    ) -> BoundProgram:
        """Return the program for one shape.

        Parameters
        ----------
        height, width, batch : int
            Extents of the input.
        channels : int, optional
            Its channels; by default the most that the program is compiled for.

        Returns
        -------
        BoundProgram
            A legal program. The shape of its tensors is [batch, height, width, channels].

        Raises
        ------
        ValueError
            If the shape is not in the range.
        """
        most = self.shapes.channels[1]
        shape = Shape(batch, height, width, most if channels is None else channels)
        bound = self.operator.bind(shape, self.strategy(shape))
        sizes = dict.fromkeys(Window, 0)
        sizes[Window.CONSTANTS] = -(-len(bound.constants) // BEAT_BYTES) * BEAT_BYTES
        for spec in (*bound.inputs, *bound.outputs):
            sizes[spec.window] = spec.offset + spec.nbytes(self.config)
        (output,) = bound.outputs
        info = LayerInfo(
            self.layers.layers[0].name,
            output.m,
            self.operator.depth(),
            output.channels,
            tuple(bound.positions.tolist()),
        )
        return BoundProgram.of(
            np.ascontiguousarray(bound.words.T).tobytes(),
            config=self.config,
            constants=bound.constants,
            window_bytes=tuple(sizes.values()),
            inputs=bound.inputs,
            outputs=bound.outputs,
            layers=(info,),
            resident=(),
        )

    def check_range(self) -> None:
        """Check that every shape of the range has a strategy.

        What a strategy needs at least grows with the extents, so the largest ones decide; where
        rows are smaller than beats it also depends on how many of them make up whole beats.

        Raises
        ------
        ValueError
            If there is a shape without one: with what it needs and what there is.
        """
        batch, height, width, channels = (
            getattr(self.shapes, name) for name in ("batch", "height", "width", "channels")
        )
        if self.config.row_bytes >= BEAT_BYTES:
            batches, heights = {*batch}, {height[1]}
            widths = set(range(width[0], width[1] + 1))
        else:
            batches = {*batch, *range(batch[0], min(batch[0] + BEAT_BYTES, batch[1] + 1))}
            heights, widths = (
                set(range(max(low, high + 1 - _RESIDUES), high + 1))
                for low, high in (height, width)
            )
        grid = np.meshgrid(*map(sorted, (batches, heights, widths)), indexing="ij")
        images, rows, columns = (axis.ravel().astype(np.int64) for axis in grid)
        strategies = self.operator.strategies(images, rows, columns, channels[1])
        missing = np.flatnonzero(choose_all(strategies, images.shape) < 0)
        if missing.size:
            extents = (int(axis[missing[0]]) for axis in (images, rows, columns))
            shape = Shape(*extents, channels=channels[1])
            strategies = self.operator.strategies(*astuple(shape))
            raise ValueError(self._why_not(shape, strategies))

    def _why_not(self, shape: Shape, strategies: tuple[Strategy, ...]) -> str:
        """Say why a shape has no strategy."""
        title = f"{self.layers.layers[0].title} with input {shape}"
        config = self.config
        needs = [s.sizes["needed_rows"] for s in strategies]
        needs = [rows for rows in needs if rows > config.ub_rows]
        if not needs:
            return f"{title} cannot be cut up: rows do not begin at beats of {BEAT_BYTES} bytes"
        return (
            f"{title} needs {min(needs) * config.row_bytes} bytes of the unified buffer, which "
            f"has {config.ub_bytes}"
        )


def compile_dynamic(layers: LayerGraph, shapes: ShapeRange, config: Config) -> DynamicProgram:
    """Compile a layer for a range of shapes.

    Parameters
    ----------
    layers : LayerGraph
        A network of one layer: affine, convolution, elementwise, table or pooling.
    shapes : ShapeRange
        Shapes of its first input. Channels may vary where they are independent of each other; an
        affine layer has parameters for the most, and fewer are the first of them.
    config : Config
        The machine.

    Returns
    -------
    DynamicProgram
        Every shape of the range can be bound.

    Raises
    ------
    ValueError
        If the layer or a shape does not suit the machine.
    """
    if len(layers.layers) != 1 or layers.constants:
        raise ValueError(
            f"Network {layers.name!r} must be one layer without constant images to have dynamic "
            f"shapes, not {len(layers.layers)} layers"
        )
    (layer,) = layers.layers
    least, most = shapes.channels
    any_number = range(1, _BLOCKS * config.array_size + 1)
    match layer:
        case Affine() | Elementwise() | Lut():
            operator: Operator = Pointwise(layers, config)
            allowed = any_number
            if isinstance(layer, Affine):
                allowed = range(1, len(layer.gain) + 1)
        case Pool():
            operator, allowed = Pooling(layers, config), any_number
        case Conv():
            operator = Convolution(layers, shapes, config)
            allowed = range(layer.weight.shape[2], layer.weight.shape[2] + 1)
        case _:
            raise ValueError(f"{layer.title} has no dynamic shapes: it is {type(layer).__name__}")
    if least not in allowed or most not in allowed:
        raise ValueError(
            f"{layer.title} can have {allowed[0]}..{allowed[-1]} channels, not {least}..{most}"
        )
    _check_extents(layers, shapes, operator.axes, config)
    program = DynamicProgram(layers, shapes, config, operator)
    program.check_range()
    return program


def _check_extents(
    layers: LayerGraph, shapes: ShapeRange, axes: tuple[Axis, Axis], config: Config
) -> None:
    """Check that the smallest shape has an output, and that the largest tensors fit DRAM windows.

    Raises
    ------
    ValueError
        If that is not so.
    """
    (layer,), (name,) = layers.layers, layers.outputs
    for axis, what in zip(axes, ("height", "width"), strict=True):
        size = getattr(shapes, what)[0]
        if axis.outputs(size) < 1:
            raise ValueError(
                f"{layer.title}: {what} {size} is too small for a window of {axis.extent}"
            )
    batch, height, width, channels = (
        getattr(shapes, what)[1] for what in ("batch", "height", "width", "channels")
    )
    outputs = axes[0].outputs(height) * axes[1].outputs(width)
    features, size = channels, config.array_size
    if isinstance(layer, Conv):
        features = layer.weight.shape[3]
    if layers.images[name].dtype == "int32":
        outputs *= RAW_ROWS
    for what, vectors, depth in (
        ("inputs", len(layer.inputs) * height * width, channels),
        ("an output", outputs, features),
    ):
        needed = batch * vectors * -(-depth // size) * size
        if needed >= _WINDOW_BYTES:
            raise ValueError(
                f"{layer.title}: {what} of {needed} bytes do not fit a DRAM window, which has less "
                f"than {_WINDOW_BYTES}"
            )
