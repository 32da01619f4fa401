"""A network whose layers are compiled, but for their extents."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tpulite.arch.config import Config
from tpulite.compiler.bind.normalize import find_parts, normalize
from tpulite.compiler.geometry.axis import Axis1D, axes_of
from tpulite.compiler.geometry.extents import sole_reader
from tpulite.compiler.operators.depthwise import DepthwiseFilter
from tpulite.compiler.operators.families import operator_of
from tpulite.compiler.operators.operator import Constants, Operator, ShapeRange
from tpulite.compiler.operators.words import Maker
from tpulite.compiler.plan.pool_cuts import suits_array
from tpulite.compiler.rewrite.maxima import replace_by_chains, separate_maximum
from tpulite.compiler.rewrite.patches import pack_patches
from tpulite.compiler.rewrite.substitute import repeat_channels
from tpulite.graph.layers import Activation, Concat, Conv, Layer, LayerGraph, Pool
from tpulite.program import Patches


@dataclass(frozen=True)
class Node:
    """A layer, compiled."""

    layer: Layer  #: The layer.
    operator: Operator  #: All that does not depend on extents.
    inputs: tuple[str, ...]  #: Tensors that it reads.
    offset: int  #: Where its constants begin.
    kind: int | None  #: Number of the operator's key: equal layers have one.

    @cached_property
    def output(self) -> str:
        """The tensor that it computes."""
        return self.layer.output

    @cached_property
    def depth(self) -> int:
        """Multiplications of an output element."""
        weights = self.layer.weights
        return 0 if weights is None else weights[..., 0].size


@dataclass(frozen=True)
class Packed:
    """An input whose vectors are patches of pixels."""

    #: Geometry of the layer that reads it, before and after it was packed.
    axes: tuple[Axis1D, Axis1D]
    folded: tuple[Axis1D, Axis1D]  #: The same of the packed layer.
    patches: Patches  #: How; their number depends on the extents.

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
    """Layers in order."""

    #: What they were compiled from; the extents of its tensors are without meaning.
    layers: LayerGraph
    nodes: tuple[Node, ...]  #: The layers.
    config: Config  #: The machine.
    constants: bytes  #: Their constants.
    packed: Mapping[str, Packed]  #: Inputs that lie there as patches.
    #: Tensors that lie in others, and their first channel blocks there.
    parts: Mapping[str, tuple[str, int]]

    def whole(self, name: str) -> str:
        """Return the tensor that a tensor lies in; as a rule itself."""
        return self.parts[name][0] if name in self.parts else name

    @cached_property
    def makers(self) -> Mapping[str, tuple[Maker, ...]]:
        """For each tensor that is computed, who computes it."""
        numbers = {node.output: i for i, node in enumerate(self.nodes)}
        makers = {name: (Maker(i, 0, self.blocks(name)),) for name, i in numbers.items()}
        for layer in self.layers.layers:
            if isinstance(layer, Concat):
                block, found = 0, []
                for name in layer.inputs:
                    found += [maker.behind(block) for maker in makers[name]]
                    block += self.blocks(name)
                makers[layer.output] = tuple(found)
        return makers

    @cached_property
    def last_readers(self) -> Mapping[str, int]:
        """For each tensor that lies in no other and that is read, all of it or parts: the last."""
        return {self.whole(name): i for i, node in enumerate(self.nodes) for name in node.inputs}

    def blocks(self, name: str) -> int:
        """Return the channel blocks of a tensor."""
        return -(-self.layers.activations[name].shape[2] // self.config.array_size)

    def channels(self, name: str, alone: int) -> int:
        """Return the channels of a tensor; of a layer that is alone as many as it is given."""
        if len(self.nodes) == 1 and not self.nodes[0].layer.mixes_channels:
            return alone
        return self.layers.activations[name].shape[2]

    def extents(self, height: int, width: int) -> dict[str, tuple[int, int]]:
        """Return height and width of each tensor; of a packed one, of its patches.

        They are closed forms, for shapes that :meth:`check_extents` permits.
        """
        first = self.layers.inputs[0]
        found = {first: (height, width)}
        pixel = {name for name in self.layers.inputs if self.is_pixel(name)}
        for name in self.layers.inputs[1:]:
            found[name] = (1, 1) if name in pixel else (height, width)
        for name, packed in self.packed.items():
            found[name] = packed.count(*found[name])
        for node in self.nodes:
            sizes = found[self.whole(node.inputs[0])]
            axes = node.operator.axes_of(*sizes)
            found[node.output] = axes[0].outputs(sizes[0]), axes[1].outputs(sizes[1])
            found.setdefault(self.whole(node.output), found[node.output])
        found |= {
            name: found[whole] for name, (whole, _) in self.parts.items() if name not in found
        }
        return found

    def check_extents(self, height: int, width: int) -> None:
        """Check that no window is larger than what it slides over: then none of larger shapes is.

        Raises
        ------
        ValueError
            If one is.
        """
        extents = self.extents(height, width)
        for node in self.nodes:
            sizes = extents[self.whole(node.inputs[0])]
            axes = node.operator.axes_of(*sizes)
            for i, what in enumerate(("height", "width")):
                if extents[node.output][i] < 1:
                    raise ValueError(
                        f"{node.layer.title}: {what} {sizes[i]} is too small for a window of "
                        f"{axes[i].reach}"
                    )

    def check_branches(self, extents: Mapping[str, tuple[int, int]]) -> None:
        """Check that tensors of one size in the file have one size at a shape, where layers join.

        Raises
        ------
        ValueError
            If they have not: strides round extents, each branch in its own way.
        """
        images = self.layers.activations
        for layer in self.layers.layers:
            first = layer.inputs[0]
            for name in layer.inputs[1:]:
                alike = images[name].shape[:2] == images[first].shape[:2]
                if alike and extents[name] != extents[first]:
                    a, b = (" x ".join(map(str, extents[each])) for each in (first, name))
                    raise ValueError(f"{layer.title} joins {a} and {b} positions")

    def is_pixel(self, name: str) -> bool:
        """Return whether a tensor is an input that has one pixel where the first one has more."""
        first, images = self.layers.inputs[0], self.layers.activations
        one = name in self.layers.inputs and images[name].shape[:2] == (1, 1)
        return one and images[first].shape[:2] != (1, 1)


def compile_nodes(
    layers: LayerGraph, shapes: ShapeRange, config: Config, *, averaged: bool = False
) -> Network:
    """Compile all layers but for their extents; averages on the array, if they are ``averaged``.

    Raises
    ------
    ValueError
        If a layer cannot have such shapes.
    """
    layers = normalize(layers, config.array_size)
    nodes: list[Node] = []
    packed: dict[str, Packed] = {}
    kinds: dict[Hashable, int] = {}
    constants = Constants()
    for layer in layers.layers:
        if isinstance(layer, Concat):
            continue
        inputs, computed = layer.inputs, layer
        if (reader := sole_reader(layers, inputs[0])) is not None:
            computed, patches = _pack(reader, layers, shapes, config)
            if patches is not None:
                axes = axes_of(reader.windows), axes_of(computed.windows)
                packed[inputs[0]] = Packed(*axes, patches)
        if averaged and isinstance(layer, Pool) and averages_on_array(layer, layers.activations):
            channels = layers.activations[layer.output].shape[2]
            operator = DepthwiseFilter.averaging(layer, channels, config)
        else:
            whole = isinstance(layer, Pool) and _covers(layer, layers)
            known = layers, shapes, config
            operator = operator_of(computed, *known, packed_rows=reader is not None, whole=whole)
        key = operator.key
        kind = None if key is None else kinds.setdefault(key, len(kinds))
        nodes.append(Node(layer, operator, inputs, constants.add(operator.constants), kind))
    parts = find_parts(layers, config.array_size)
    return Network(layers, tuple(nodes), config, constants.image(), packed, parts)


def _pack(
    layer: Conv, layers: LayerGraph, shapes: ShapeRange, config: Config
) -> tuple[Conv, Patches | None]:
    """Return a layer that computes the same of patches, if that is faster for large inputs."""
    name, channels = layer.inputs[0], layer.weight.shape[2]
    extents = shapes.height[1], shapes.width[1]
    outputs = [
        axis.outputs(size) for axis, size in zip(axes_of(layer.windows), extents, strict=True)
    ]
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
    spec = folded.packed.get(name)
    return sole_reader(folded, name) or layer, None if spec is None else spec.patches


def _covers(layer: Pool, layers: LayerGraph) -> bool:
    """Return whether a window is the whole tensor, so that it follows the extents."""
    shape = layers.activations[layer.inputs[0]].shape[:2]
    return shape == layer.window and len(layers.layers) > 1 and shape != (1, 1)


def substitute_all(layers: LayerGraph) -> LayerGraph | None:
    """Return the network with all substitutes that it has, or None if there are none.

    Convolutions that are depthwise ones with a multiplier repeat channels first; maxima go along
    one axis, then along the other. Averages stay, to be computed on the array.

    Parameters
    ----------
    layers : LayerGraph
        The network at any shape.
    """
    found = replace_by_chains(layers, _substitutes)
    averages = any(
        isinstance(layer, Pool) and averages_on_array(layer, layers.activations)
        for layer in layers.layers
    )
    return found if averages or len(found.layers) > len(layers.layers) else None


def averages_on_array(layer: Pool, images: Mapping[str, Activation]) -> bool:
    """Return whether products with ones may compute a pool; not one that follows the extents."""
    return suits_array(layer) and layer.window != images[layer.inputs[0]].shape[:2]


def _substitutes(layer: Layer, images: Mapping[str, Activation]) -> Sequence[Layer]:
    """Return what stands for a layer: at least itself."""
    chain: Sequence[Layer] | None = repeat_channels(layer)
    if isinstance(layer, Pool) and layer.window != images[layer.inputs[0]].shape[:2]:
        chain = separate_maximum(layer, _first_axis(layer))
    if chain is None or any(one.output in images for one in chain[:-1]):
        return [layer]
    return chain


def _first_axis(layer: Pool) -> int:
    """Return the axis along which maxima are taken first: that with which fewer rows are read."""
    (wy, wx), (sy, sx) = layer.window, layer.stride
    return int(wy / sy + wx / (sy * sx) > wx / sx + wy / (sy * sx))
