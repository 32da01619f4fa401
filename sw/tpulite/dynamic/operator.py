"""What an operator must know to be bound to shapes."""

from dataclasses import dataclass
from typing import Protocol

from tpulite.arch.memory import Window
from tpulite.compiler.plan.closed_forms import Number
from tpulite.dynamic.order import Indices
from tpulite.dynamic.selector import Strategy
from tpulite.dynamic.shapes import Shape
from tpulite.dynamic.windows import Axis
from tpulite.dynamic.words import Words
from tpulite.graph.layers import LayerGraph
from tpulite.program import TensorSpec

__all__ = ["Bound", "Operator", "tensor_spec"]


@dataclass(frozen=True)
class Bound:
    """An operator bound to a shape.

    Parameters
    ----------
    words : Words
        The program.
    positions : array of int
        Where the computations are in it.
    constants : bytes
        Image of the CONSTANTS window.
    inputs, outputs : tuple of TensorSpec
        Its tensors.
    """

    words: Words
    positions: Indices
    constants: bytes
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


class Operator(Protocol):
    """An operator, compiled: all that does not depend on extents.

    ``axes`` are the geometries of its window along height and width.
    """

    axes: tuple[Axis, Axis]

    def strategies(
        self, batch: Number, height: Number, width: Number, channels: Number
    ) -> tuple[Strategy, ...]:
        """Return all strategies, in closed form: of one shape, or of arrays of them."""
        ...

    def bind(self, shape: Shape, strategy: Strategy) -> Bound:
        """Fill in a shape of the range and the strategy chosen for it."""
        ...

    def depth(self) -> int:
        """Return the multiplications of an output element."""
        ...


def tensor_spec(
    layers: LayerGraph,
    name: str,
    window: Window,
    offset: int,
    extents: tuple[int, int, int],
    channels: int,
) -> TensorSpec:
    """Return the spec of an image of a network, as a batch of other extents."""
    dtype = "uint8" if name in layers.unsigned else layers.images[name].dtype
    batch, height, width = extents
    return TensorSpec(name, window, offset, batch * height * width, channels, dtype, extents)
