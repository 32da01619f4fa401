"""A network whose layers are compiled, but for their extents."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.compiler.bind.conv import Convolution
from tpulite.compiler.bind.depthwise import DepthwiseFilter
from tpulite.compiler.bind.normalize import normalize
from tpulite.compiler.bind.operator import Operator
from tpulite.compiler.bind.pointwise import Pointwise
from tpulite.compiler.bind.pool import Pooling
from tpulite.compiler.bind.shapes import ShapeRange
from tpulite.compiler.plan.windows import Axis, axes_of
from tpulite.compiler.rewrite.patches import pack_patches
from tpulite.graph.layers import (
    Activation,
    Affine,
    Conv,
    Depthwise,
    Elementwise,
    Layer,
    LayerGraph,
    Lut,
    Pool,
)
from tpulite.program import Patches

__all__ = ["Network", "Node", "compile_nodes"]


@dataclass(frozen=True)
class Node:
    """A layer, compiled.

    Parameters
    ----------
    layer : Layer
        The layer.
    operator : Operator
        All that does not depend on extents.
    inputs : tuple of str
        Tensors that it reads.
    offset : int
        Where its constants begin.
    kind : int, optional
        Number of the operator's key: equal layers have one.
    """

    layer: Layer
    operator: Operator
    inputs: tuple[str, ...]
    offset: int
    kind: int | None

    @cached_property
    def output(self) -> str:
        """The tensor that it computes."""
        return self.layer.output

    @cached_property
    def depth(self) -> int:
        """Multiplications of an output element."""
        layer = self.layer
        return layer.weight[..., 0].size if isinstance(layer, Conv | Depthwise) else 0


@dataclass(frozen=True)
class Packed:
    """An input whose vectors are patches of pixels.

    Parameters
    ----------
    axes : tuple of Axis
        Geometry of the layer that reads it, before and after it was packed.
    folded : tuple of Axis
        The same of the packed layer.
    patches : Patches
        How; their number depends on the extents.
    """

    axes: tuple[Axis, Axis]
    folded: tuple[Axis, Axis]
    patches: Patches

    def count(self, height: int, width: int) -> tuple[int, int]:
        """Return the rows and columns of patches of an image."""
        counts = []
        for i, size in enumerate((height, width)):
            if self.patches.size[i] == self.patches.step[i] == 1:
                counts.append(size)
                continue
            axis = self.folded[i]
            counts.append((self.axes[i].outputs(size) - 1) * axis.stride + axis.kernel)
        return counts[0], counts[1]


@dataclass(frozen=True)
class Network:
    """Layers in order.

    Parameters
    ----------
    layers : LayerGraph
        What they were compiled from; the extents of its tensors are without meaning.
    nodes : tuple of Node
        The layers.
    config : Config
        The machine.
    constants : bytes
        Their constants.
    packed : mapping of str to Packed
        Inputs that lie there as patches.
    """

    layers: LayerGraph
    nodes: tuple[Node, ...]
    config: Config
    constants: bytes
    packed: Mapping[str, Packed]

    def blocks(self, name: str, channels: int | None = None) -> int:
        """Return the channel blocks of a tensor, or of so many channels."""
        return -(-(channels or self.layers.activations[name].shape[2]) // self.config.array_size)

    def extents(self, height: int, width: int) -> dict[str, tuple[int, int]]:
        """Return height and width of each tensor; of a packed one, of its patches.

        Raises
        ------
        ValueError
            If a window is larger than what it slides over.
        """
        first = self.layers.inputs[0]
        found = {first: (height, width)}
        pixel = {name for name in self.layers.inputs if self.is_pixel(name)}
        for name in self.layers.inputs[1:]:
            found[name] = (1, 1) if name in pixel else (height, width)
        for name, packed in self.packed.items():
            found[name] = packed.count(*found[name])
        for node in self.nodes:
            sizes = found[node.inputs[0]]
            outputs = []
            for i, what in enumerate(("height", "width")):
                axis = node.operator.axes_of(*sizes)[i]
                outputs.append(axis.outputs(sizes[i]))
                if outputs[i] < 1:
                    raise ValueError(
                        f"{node.layer.title}: {what} {sizes[i]} is too small for a window of "
                        f"{axis.extent}"
                    )
            found[node.output] = (outputs[0], outputs[1])
        return found

    def is_pixel(self, name: str) -> bool:
        """Return whether a tensor is an input that has one pixel where the first one has more."""
        first, images = self.layers.inputs[0], self.layers.activations
        one = name in self.layers.inputs and images[name].shape[:2] == (1, 1)
        return one and images[first].shape[:2] != (1, 1)


def compile_nodes(layers: LayerGraph, shapes: ShapeRange, config: Config) -> Network:
    """Compile all layers but for their extents.

    Raises
    ------
    ValueError
        If a layer cannot have such shapes.
    """
    layers = normalize(layers)
    nodes: list[Node] = []
    packed: dict[str, Packed] = {}
    kinds: dict[Hashable, int] = {}
    data, size = [], 0
    users = [name for layer in layers.layers for name in layer.inputs]
    for layer in layers.layers:
        inputs = layer.inputs
        single = inputs[0] in layers.inputs and users.count(inputs[0]) == 1
        computed = layer
        if single and isinstance(layer, Conv):
            computed, patches = _pack(layer, layers, shapes, config)
            if patches is not None:
                packed[inputs[0]] = Packed(_axes(layer), _axes(computed), patches)
        operator = _operator(computed, layers, shapes, config, packed_rows=single)
        key = operator.key
        kind = None if key is None else kinds.setdefault(key, len(kinds))
        nodes.append(Node(layer, operator, inputs, size, kind))
        padded = operator.constants + b"\0" * (-len(operator.constants) % BEAT_BYTES)
        data.append(padded)
        size += len(padded)
    return Network(layers, tuple(nodes), config, b"".join(data), packed)


def _operator(
    layer: Layer, layers: LayerGraph, shapes: ShapeRange, config: Config, *, packed_rows: bool
) -> Operator:
    match layer:
        case Affine() | Elementwise() | Lut():
            return Pointwise(layer, layers, config)
        case Pool():
            whole = _covers(layer, layer.window, layers)
            return Pooling(layer, config, whole=whole)
        case Conv():
            return Convolution(layer, shapes, config, packed_rows=packed_rows)
        case Depthwise():
            return DepthwiseFilter(layer, config)
    raise ValueError(f"{layer.title} has no ranges of shapes: it is {type(layer).__name__}")


def _axes(layer: Conv) -> tuple[Axis, Axis]:
    return axes_of(layer.weight.shape[:2], layer.stride, layer.dilation, layer.padding)


def _pack(
    layer: Conv, layers: LayerGraph, shapes: ShapeRange, config: Config
) -> tuple[Conv, Patches | None]:
    """Return a layer that computes the same of patches, if that is faster for large inputs."""
    name, channels = layer.inputs[0], layer.weight.shape[2]
    extents = shapes.height[1], shapes.width[1]
    outputs = [axis.outputs(size) for axis, size in zip(_axes(layer), extents, strict=True)]
    if min(outputs) < 1:
        return layer, None
    images = {
        name: Activation((*extents, channels)),
        layer.output: replace(
            layers.activations[layer.output], shape=(*outputs, layer.weight.shape[3])
        ),
    }
    alone = LayerGraph(
        layers.name, (layer,), images, (name,), (layer.output,), unsigned=layers.unsigned
    )
    folded = pack_patches(alone, config)
    (computed,) = folded.layers
    assert isinstance(computed, Conv)
    spec = folded.packed.get(name)
    return computed, None if spec is None else spec.patches


def _covers(layer: Layer, window: tuple[int, ...], layers: LayerGraph) -> bool:
    """Return whether a window is the whole tensor, so that it follows the extents."""
    shape = layers.activations[layer.inputs[0]].shape[:2]
    return shape == tuple(window) and len(layers.layers) > 1 and shape != (1, 1)
