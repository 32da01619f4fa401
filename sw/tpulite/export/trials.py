"""Operators of a library as integer tables: values of their bytes are tried there.

Libraries compute these operators with floats. What becomes of an element often depends on its
bytes alone, so that all of these are tried when a network is exported, and the tables have the
bits of the library on the computer that exports.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tpulite.graph.graph import Graph, Node, Tensor
from tpulite.quant.exactness import Exactness
from tpulite.quant.partition import HostSegment
from tpulite.quant.runners import library_of
from tpulite.runtime.host.part import HostPart

BYTES = 256
"""Values of a byte."""


@dataclass(frozen=True, eq=False)
class Trial:
    """Operators of a network with one result, run by their library on values of ours."""

    graph: Graph  #: The network.
    exactness: Exactness  #: The numerics.
    nodes: tuple[Node, ...]  #: The operators, each of which reads what the one before computes.

    @classmethod
    def of(cls, graph: Graph, exactness: Exactness, *nodes: Node) -> "Trial":
        """Return a trial from a tensor of the file to another, beyond reshapes if there are some.

        Parameters
        ----------
        *nodes : Node
            The operators, whose operands and result have the same order in these tensors.
        """
        assert graph.source is not None
        around, origins = list(nodes), graph.source.origins
        while (name := around[0].inputs[0]) not in origins:
            before = [each for each in graph.nodes if name in each.outputs and each.op == "reshape"]
            if not before:
                break
            around[:0] = before
        while (name := around[-1].outputs[0]) not in origins:
            after = [each for each in graph.nodes if name in each.inputs and each.op == "reshape"]
            if not after:
                break
            around += after[:1]
        return cls(graph, exactness, tuple(around))

    @property
    def name(self) -> str:
        """The name of its activation, if it has one."""
        return self._activations()[0].name

    @property
    def is_possible(self) -> bool:
        """Whether the file has the tensors from and to which its library computes."""
        assert self.graph.source is not None
        ends = (*(x.name for x in self._activations()), self.nodes[-1].outputs[0])
        return self.graph.source.origins.keys() >= set(ends)

    @property
    def named(self) -> str:
        """What messages call the operator."""
        return f"{self.nodes[-1].name!r} ({self.nodes[-1].source})"

    def table(self) -> NDArray:
        """Return what becomes of each byte of the only activation, in the result's type.

        ValueError if it depends on where the byte is, too.
        """
        (x,) = self._activations()
        compute = self.opened()
        result = np.zeros(BYTES, self.graph.tensors[self.nodes[-1].outputs[0]].dtype)
        places = np.arange(math.prod(x.shape))
        if self.exactness in (Exactness.LITERT_OPT, Exactness.LITERT_XNNPACK):
            tried = [np.full(places.shape, byte) for byte in range(BYTES)]  # each at every place
        else:
            tried = [(start + places) % BYTES for start in range(0, BYTES, len(places))]
        for chosen in tried:
            found = compute({x.name: chosen})
            result[chosen] = found
            if not np.array_equal(result[chosen], found):
                raise ValueError(f"{self.named} is no function of one byte in its library")
        return result

    def pairs(self, full: Tensor, other: Tensor, inner: int) -> NDArray[np.uint8]:
        """Return what becomes of each pair of bytes, uint8 [byte of `full`, byte of `other`].

        Parameters
        ----------
        full : Tensor
            The operand that has the result's shape.
        other : Tensor
            The other one, which repeats; if it is constant, other bytes than its own give 0.
        inner : int
            Elements of ``full`` that meet one of ``other`` before the next one.
        """
        compute, result = self.opened(), np.zeros((BYTES, BYTES), np.uint8)
        places, count = np.arange(math.prod(full.shape)), math.prod(other.shape)
        for begin in range(0, BYTES, count) if other.data is None else (0,):
            second = (begin + np.arange(count)) % BYTES
            if other.data is not None:
                second = other.data.reshape(-1).view(np.uint8)
            for start in range(0, BYTES, len(places) // count):
                first = (start + places // (inner * count) * inner + places % inner) % BYTES
                found = compute({full.name: first, other.name: second}).view(np.uint8)
                result[first, second[places // inner % count]] = found
        return result

    def averages(self, sums: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return what becomes of sums of a feature map's bytes, counted from the least integer.

        Parameters
        ----------
        sums : ndarray of int64
            Each 0 to 255 times the pixels of the only activation, [1, ..., channels].
        """
        (x,) = self._activations()
        channels = x.shape[-1]
        pixels, compute = math.prod(x.shape) // channels, self.opened()
        flip, result = 0x80 if x.dtype == "int8" else 0, []
        for start in range(0, len(sums), channels):
            part = np.resize(sums[start : start + channels], channels)
            extra = np.arange(pixels)[:, None] < part % pixels
            found = compute({x.name: (part // pixels + extra) ^ flip})
            result.append(found.view(np.uint8))
        return np.concatenate(result)[: len(sums)]

    def opened(self) -> Callable[[dict[str, NDArray]], NDArray]:
        """Return what computes the result, flat, from activations: floats, or integers' bytes."""
        activations = self._activations()
        inputs, outputs = tuple(x.name for x in activations), self.nodes[-1].outputs[:1]
        library = library_of(self.nodes, self.graph, self.exactness)
        segment = HostSegment(self.nodes, inputs, outputs, ("",) * len(self.nodes), 0, library)
        part = HostPart(self.graph, segment, self.exactness).open()

        def typed(x: Tensor, value: NDArray) -> NDArray:
            if x.dtype != "float32":
                value = value.astype(np.uint8).view(x.dtype)
            return value.reshape(x.shape)

        def compute(values: dict[str, NDArray]) -> NDArray:
            given = {x.name: typed(x, values[x.name]) for x in activations}
            return part.run(given)[outputs[0]].reshape(-1)

        return compute

    def _activations(self) -> list[Tensor]:
        made = {name for node in self.nodes for name in node.outputs}
        names = dict.fromkeys(name for node in self.nodes for name in node.inputs if name)
        tensors = (self.graph.tensors[name] for name in names if name not in made)
        return [tensor for tensor in tensors if tensor.data is None]
