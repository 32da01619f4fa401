"""A shape on several machines at once: a program for each, of some images and channels."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from tpulite.compiler.bind.bound import BoundProgram
from tpulite.compiler.bind.compile import RangeProgram, compile_range
from tpulite.compiler.geometry.axis import cuts
from tpulite.compiler.operators.operator import Shape, ShapeRange
from tpulite.graph.layers import LayerGraph


@dataclass(frozen=True)
class CoreProgram:
    """What one core computes of a shape."""

    program: BoundProgram  #: Its program.
    images: range  #: Images of the batch that it reads and computes.
    channels: range  #: Channels of the output that it computes.
    read: range  #: Channels of the input that it reads: all, if each output depends on all.

    @property
    def inputs(self) -> tuple[slice, ...]:
        """Its part of the whole input, [batch, height, width, channels]."""
        return _part(self.images, self.read)

    @property
    def outputs(self) -> tuple[slice, ...]:
        """Its part of the whole output, [batch, height, width, channels]."""
        return _part(self.images, self.channels)


def bind_cores(program: RangeProgram, shape: Shape, cores: int) -> tuple[CoreProgram, ...]:
    """Split the work of a shape among cores, each with a machine and a DRAM of its own.

    A batch is cut into images, a layer that is alone also into blocks of output channels, so that
    the slowest core is as fast as possible by the closed forms. Parts are equal but for one image
    and one block. Each output is computed by one core, from the same inputs with the same
    parameters as by one core alone, so the results are the same.

    Parameters
    ----------
    shape : Shape
        A shape of its range.
    cores : int
        How many cores there are; where there are fewer images and blocks, fewer get a program.

    Raises
    ------
    ValueError
        If the shape is not in the range.
    """
    whole = program.bind(shape.height, shape.width, batch=shape.batch, channels=shape.channels)
    channels = whole.outputs[0].channels
    blocks = -(-channels // program.config.array_size)
    if shape.empty:
        return (_core(program, whole, range(shape.batch), range(channels)),)
    alone = len(program.layers.layers) == 1
    ways = [
        _Way(program, shape, channels, count, min(shape.batch, cores // count))
        for count in range(1, min(blocks if alone else 1, cores) + 1)
    ]
    return tuple(min(ways, key=lambda way: way.slowest).programs())


class _Way:
    """Output channels in ``parts``, and the batch in ``groups`` for each of them."""

    def __init__(
        self, program: RangeProgram, shape: Shape, channels: int, parts: int, groups: int
    ) -> None:
        self._whole, self._shape = program, shape
        self._channels = _ranges(channels, parts, program.config.array_size)
        self._images = _ranges(shape.batch, groups, 1)

    @property
    def slowest(self) -> int:
        """Cycles of the core with the most images and channels, in closed form."""
        shape, images = self._shape, max(map(len, self._images))
        program = self._of(max(self._channels, key=len))
        return program.plan(shape.height, shape.width, batch=images).cycles

    def programs(self) -> Iterator[CoreProgram]:
        """Yield the program of each core."""
        for channels in self._channels:
            program = self._of(channels)
            for images in self._images:
                bound = program.bind(self._shape.height, self._shape.width, batch=len(images))
                yield _core(program, bound, images, channels)

    def _of(self, channels: range) -> RangeProgram:
        """Return the network that computes some channels, for the shape's extents."""
        program, shape = self._whole, self._shape
        if len(program.layers.layers) > 1:  # fewer images are as possible as all
            return RangeProgram(program.network, replace(program.shapes, batch=(1, shape.batch)))
        extents = (shape.height, shape.height), (shape.width, shape.width)
        limits = ShapeRange((1, shape.batch), *extents)
        return compile_range(_some_channels(program.layers, channels), limits, program.config)


def _core(
    program: RangeProgram, bound: BoundProgram, images: range, channels: range
) -> CoreProgram:
    """Return what a core reads and computes."""
    depth = bound.inputs[0].channels
    first, *others = program.layers.layers
    mixes = others or first.mixes_channels
    return CoreProgram(bound, images, channels, range(depth) if mixes else channels)


def _some_channels(layers: LayerGraph, channels: range) -> LayerGraph:
    """Return a network of one layer that computes some channels of its output."""
    (layer,) = layers.layers
    activations = dict(layers.activations)
    read = () if layer.mixes_channels else layer.inputs
    for name in (*read, layer.output):
        old = activations[name]
        activations[name] = replace(old, shape=(*old.shape[:2], len(channels)))
    layer = layer.of_channels(slice(channels.start, channels.stop))
    return layers.with_layers([layer], activations)


def _ranges(extent: int, parts: int, unit: int) -> list[range]:
    return [range(*pair) for pair in pairwise(cuts(extent, parts, unit).tolist())]


def _part(images: range, channels: range) -> tuple[slice, ...]:
    every = slice(None)
    return slice(images.start, images.stop), every, every, slice(channels.start, channels.stop)
