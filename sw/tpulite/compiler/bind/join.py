"""Concatenation in ranges of shapes: what is joined is computed where it lies in the end."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, groupby, pairwise

import numpy as np

from tpulite.arch.isa import Scaling
from tpulite.arch.numerics import INT8
from tpulite.graph.layers import Activation, Concat, Conv, Elementwise, Layer, LayerGraph, Lut
from tpulite.graph.requantization import IDENTITY


def join_blocks(layers: LayerGraph, size: int) -> LayerGraph:
    """Return a network whose concatenations join whole channel blocks, each computed for it alone.

    Where channels part within a block, products with parts of the identity move them, and sums
    join blocks that hold channels of several activations. What the host sees, and what is joined
    already, is copied.

    Parameters
    ----------
    layers : LayerGraph
        The network.
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
