"""What a network is rewritten to before it is compiled for a range of shapes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, groupby, pairwise

import numpy as np

from tpulite.arch.isa import Scaling
from tpulite.arch.numerics import INT8
from tpulite.graph.layers import (
    Activation,
    Concat,
    Conv,
    Depthwise,
    Elementwise,
    Layer,
    LayerGraph,
    Lut,
    Pad,
    Reshape,
)
from tpulite.graph.requantization import IDENTITY


def normalize(layers: LayerGraph, size: int) -> LayerGraph:
    """Return a network without reshapes and frames whose outputs no layer reads.

    Its concatenations join whole blocks of ``size`` channels: see
    :func:`tpulite.compiler.bind.normalize.join_blocks`.

    Raises
    ------
    ValueError
        If a tensor is constant, an output is an input, or a layer reshapes what depends on the
        extents or joins anything but channels.
    """
    _check(layers)
    layers = _without_reshapes(layers)
    framed = tuple(_frame(layer, layers) for layer in layers.layers)
    return _with_copies(join_blocks(replace(layers, layers=framed), size), size)


def _frame(layer: Layer, layers: LayerGraph) -> Layer:
    """Return a depthwise layer of one tap that does the same, if a layer adds a frame."""
    if not isinstance(layer, Pad):
        return layer
    channels = layers.activations[layer.output].shape[2]
    return Depthwise(
        name=layer.name,
        inputs=layer.inputs,
        output=layer.output,
        weight=np.ones((1, 1, channels), np.int8),
        requantization=replace(IDENTITY, zero_point=layer.value),
        padding=layer.padding,
        input_zero_point=layer.value,
    )


def _check(layers: LayerGraph) -> None:
    for name in layers.constants:
        raise ValueError(
            f"Tensor {name!r} of {layers.name!r} is constant, so it cannot have a range of shapes"
        )
    for name in layers.outputs:
        if name in layers.inputs:
            raise ValueError(f"Output {name!r} of {layers.name!r} must be computed by a layer")


def _without_reshapes(layers: LayerGraph) -> LayerGraph:
    """Remove layers that leave one pixel as it is.

    Raises
    ------
    ValueError
        If a layer reshapes what depends on the extents.
    """
    names: dict[str, str] = {}
    for layer in layers.layers:
        if not isinstance(layer, Reshape):
            continue
        shapes = [layers.activations[name].shape for name in (layer.inputs[0], layer.output)]
        source = layer.inputs[0]
        needed = layer.output in layers.outputs and source in (*layers.outputs, *layers.inputs)
        if shapes[0] != shapes[1] or shapes[0][:2] != (1, 1) or needed:
            raise ValueError(
                f"{layer.title} depends on the extents: it makes {shapes[1]} of {shapes[0]}"
            )
        if layer.output in layers.outputs:
            names = {old: layer.output if new == source else new for old, new in names.items()}
            names[source] = layer.output
        else:
            names[layer.output] = names.get(source, source)
    kept = (layer for layer in layers.layers if not isinstance(layer, Reshape))
    return replace(
        layers,
        layers=tuple(
            replace(
                layer,
                inputs=tuple(names.get(name, name) for name in layer.inputs),
                output=names.get(layer.output, layer.output),
            )
            for layer in kept
        ),
    )


def _with_copies(layers: LayerGraph, size: int) -> LayerGraph:
    """Copy outputs that layers read: programs do not read the window of outputs."""
    parts = find_parts(layers, size)
    computing = (layer for layer in layers.layers if not isinstance(layer, Concat))
    read = {name for layer in computing for name in layer.inputs}
    read |= {parts[name][0] for name in read if name in parts}
    hidden = {name: f"{name} (inside)" for name in layers.outputs if name in read}
    rewritten: list[Layer] = []
    for layer in layers.layers:
        name = layer.output
        inputs = tuple(hidden.get(source, source) for source in layer.inputs)
        rewritten.append(replace(layer, inputs=inputs, output=hidden.get(name, name)))
        if name in hidden:
            rewritten.append(copy_of(hidden[name], name))
    images = {**layers.activations, **{new: layers.activations[old] for old, new in hidden.items()}}
    return replace(layers, layers=tuple(rewritten), activations=images)


def join_blocks(layers: LayerGraph, size: int) -> LayerGraph:
    """Return a network whose concatenations join whole channel blocks, each computed for it alone.

    Where channels part within a block, products with parts of the identity move them, and sums
    join blocks that hold channels of several activations. What the host sees, and what is joined
    already, is copied.

    Parameters
    ----------
    size : int
        Channels of a block.

    Raises
    ------
    ValueError
        If a layer joins rows or columns, or sums of int32.
    """
    joiner = _Joiner(layers, size)
    for layer in layers.layers:
        joiner.add(layer)
    return replace(layers, layers=tuple(joiner.layers), activations=joiner.activations)


def find_parts(layers: LayerGraph, size: int) -> Mapping[str, tuple[str, int]]:
    """Return what lies in another activation, from which of its channel blocks on."""
    parts: dict[str, tuple[str, int]] = {}
    for layer in reversed(layers.layers):
        if isinstance(layer, Concat):
            whole, block = parts.get(layer.output, (layer.output, 0))
            for name in layer.inputs:
                parts[name] = whole, block
                block += -(-layers.activations[name].shape[2] // size)
    return parts


def copy_of(source: str, output: str) -> Lut:
    """Return a layer that leaves every value."""
    return Lut(name=output, inputs=(source,), output=output, table=np.array(INT8, np.int8))


class _Joiner:
    """The layers so far, with all activations."""

    def __init__(self, layers: LayerGraph, size: int) -> None:
        self.layers: list[Layer] = []
        self.activations = dict(layers.activations)
        self._size = size
        self._taken = {*layers.inputs, *layers.outputs, *layers.constants}

    def add(self, layer: Layer) -> None:
        """Add a layer."""
        if not isinstance(layer, Concat):
            self.layers.append(layer)
            return
        if layer.axis != 2 or self.activations[layer.output].dtype != "int8":
            raise ValueError(
                f"{layer.title} cannot have a range of shapes: it must join int8 channels, not "
                f"axis {layer.axis} of {self.activations[layer.output].dtype}"
            )
        counts = [self.activations[name].shape[2] for name in layer.inputs]
        starts = [*accumulate(counts, initial=0)]
        owns = [range(*pair) for pair in pairwise(starts)]
        parts: list[str] = []
        for span, sources in _spans(owns, self._size):
            pieces = [self._piece(layer, i, owns[i], span, len(sources) == 1) for i in sources]
            whole = pieces[0]
            for piece in pieces[1:]:
                whole = self._sum(layer, whole, piece)
            parts.append(whole)
        if len(parts) == 1:
            self.layers.append(replace(copy_of(parts[0], layer.output), name=layer.name))
        else:
            self.layers.append(replace(layer, inputs=tuple(parts)))

    def _piece(self, layer: Concat, number: int, own: range, span: range, alone: bool) -> str:
        """Return channels ``span`` of what is joined, as far as they are a source's, ``own``."""
        source, shape = layer.inputs[number], self.activations[layer.output].shape
        name = f"{layer.name}/{number}.{span.start}"
        if alone and span == own:
            if source not in self._taken:
                self._taken.add(source)
                return source
            return self._emit(copy_of(source, name), (*shape[:2], len(span)))
        weight = np.zeros((1, 1, len(own), len(span)), np.int8)
        for channel in range(max(own.start, span.start), min(own.stop, span.stop)):
            weight[0, 0, channel - own.start, channel - span.start] = 1
        names = {"name": name, "inputs": (source,), "output": name}
        moved = Conv(weight=weight, requantization=IDENTITY, **names)
        return self._emit(moved, (*shape[:2], len(span)))

    def _sum(self, layer: Concat, a: str, b: str) -> str:
        name = f"{a}+{b.removeprefix(layer.name)}"
        added = Elementwise(
            name=name,
            inputs=(a, b),
            output=name,
            op="add",
            requantization=IDENTITY,
            zero_points=(0, 0),
            multipliers=(1, 1),
            scaling=Scaling.EXACT,
        )
        return self._emit(added, self.activations[a].shape)

    def _emit(self, layer: Layer, shape: tuple[int, int, int]) -> str:
        self.layers.append(layer)
        self.activations[layer.output] = Activation(shape)
        self._taken.add(layer.output)
        return layer.output


def _spans(owns: Sequence[range], size: int) -> list[tuple[range, tuple[int, ...]]]:
    """Return channels of whole blocks that have the same sources, and those."""
    total = owns[-1].stop
    blocks = [range(start, min(start + size, total)) for start in range(0, total, size)]

    def sources(block: range) -> tuple[int, ...]:
        return tuple(
            i for i, own in enumerate(owns) if own.start < block.stop and own.stop > block.start
        )

    spans = []
    for numbers, some in groupby(blocks, sources):
        run = [*some]
        spans.append((range(run[0].start, run[-1].stop), numbers))
    return spans
