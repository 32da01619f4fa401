"""Operators of a library as integer tables: all values of their bytes are tried there.

Libraries compute these operators with floats. What becomes of an element depends on its bytes
alone, so that all of these are tried when a network is exported, and the tables have the bits of
the library on the computer that exports.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tpulite.graph.graph import Graph, Node, Tensor
from tpulite.quant.exactness import Exactness
from tpulite.quant.partition import HostSegment
from tpulite.runtime.host.part import HostPart

__all__ = ["BYTES", "Trial"]

BYTES = 256
"""Values of a byte."""


@dataclass(frozen=True, eq=False)
class Trial:
    """An operator of a network whose results have 8 bits, run by its library on values of ours.

    Parameters
    ----------
    node : Node
        The operator.
    graph : Graph
        The network.
    exactness : Exactness
        The numerics.
    """

    node: Node
    graph: Graph
    exactness: Exactness

    def table(self) -> NDArray[np.uint8]:
        """Return the byte that becomes of each byte of the only activation."""
        (x,) = self._activations()
        compute, result = self._opened(), np.zeros(BYTES, np.uint8)
        places = np.arange(math.prod(x.shape))
        for start in range(0, BYTES, len(places)):
            chosen = (start + places) % BYTES
            result[chosen] = compute({x.name: chosen})
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
        compute, result = self._opened(), np.zeros((BYTES, BYTES), np.uint8)
        places, count = np.arange(math.prod(full.shape)), math.prod(other.shape)
        for begin in range(0, BYTES, count) if other.data is None else (0,):
            second = (begin + np.arange(count)) % BYTES
            if other.data is not None:
                second = other.data.reshape(-1).view(np.uint8)
            for start in range(0, BYTES, len(places) // count):
                first = (start + places // (inner * count) * inner + places % inner) % BYTES
                result[first, second[places // inner % count]] = compute(
                    {full.name: first, other.name: second}
                )
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
        pixels, compute = math.prod(x.shape) // channels, self._opened()
        flip, result = 0x80 if x.dtype == "int8" else 0, []
        for start in range(0, len(sums), channels):
            part = np.resize(sums[start : start + channels], channels)
            extra = np.arange(pixels)[:, None] < part % pixels
            result.append(compute({x.name: (part // pixels + extra) ^ flip}))
        return np.concatenate(result)[: len(sums)]

    def _activations(self) -> list[Tensor]:
        names = dict.fromkeys(name for name in self.node.inputs if name)
        tensors = (self.graph.tensors[name] for name in names)
        return [tensor for tensor in tensors if tensor.data is None]

    def _opened(self) -> Callable[[dict[str, NDArray]], NDArray[np.uint8]]:
        """Return what computes the bytes of the result from those of activations."""
        activations = self._activations()
        inputs, outputs = tuple(x.name for x in activations), self.node.outputs[:1]
        segment = HostSegment((self.node,), inputs, outputs, ("",), 0, True)
        part = HostPart(self.graph, segment, self.exactness).open()

        def compute(values: dict[str, NDArray]) -> NDArray[np.uint8]:
            given = {
                x.name: values[x.name].astype(np.uint8).view(x.dtype).reshape(x.shape)
                for x in activations
            }
            return part.run(given)[outputs[0]].reshape(-1).view(np.uint8)

        return compute
