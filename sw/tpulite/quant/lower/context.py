"""Surroundings of a node while it becomes integer layers."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tpulite.graph.graph import Graph, Node, Tensor
from tpulite.graph.layers import Activation, Layer, Lut, Reshape
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.functions import function_table
from tpulite.quant.tensors import (
    Quantized,
    UnsupportedError,
    centered,
    image_shape,
    quantized,
)

__all__ = ["GraphContext", "check_reshape"]

_LARGEST = 2047
"""Most rows, or columns, that commands can express."""


_VECTOR = 32
"""Channels of a vector on the widest machine: multiples of it move as whole vectors on all."""


class GraphContext:
    """Collects the layers and images of a network.

    Images have the names of their tensors; those between the layers of one node get a suffix.

    Parameters
    ----------
    graph : Graph
        The network.
    exactness : Exactness
        Whose bits.
    """

    def __init__(self, graph: Graph, exactness: Exactness) -> None:
        self.graph, self.exactness = graph, exactness
        self.layers: list[Layer] = []
        self.activations: dict[str, Activation] = {}
        self.constants: dict[str, np.ndarray] = {}
        self._origins: dict[str, str] = {}

    def tensor(self, name: str) -> Tensor:
        """Return a tensor of the graph."""
        return self.graph.tensors[name]

    def quantized(self, name: str) -> Quantized:
        """Return the quantization of an activation."""
        return quantized(self.tensor(name))

    def read(self, name: str) -> Activation:
        """Return the image of a tensor, constant or not, for a layer that reads it."""
        if name not in self.activations:
            tensor = self.tensor(name)
            self.declare(name, image_shape(tensor.shape), _dtype(tensor))
            if tensor.data is not None:
                self.constants[name] = centered(tensor).reshape(self.activations[name].shape)
        return self.activations[name]

    def write(self, name: str) -> Activation:
        """Declare the image of a tensor that the node computes."""
        tensor = self.tensor(name)
        return self.declare(name, image_shape(tensor.shape), _dtype(tensor))

    def declare(self, name: str, shape: tuple[int, int, int], dtype: str = "int8") -> Activation:
        """Declare an image."""
        if max(shape[:2]) > _LARGEST:
            raise UnsupportedError(f"an image of {shape[0]} x {shape[1]} exceeds {_LARGEST}")
        self.activations[name] = Activation(shape, dtype)
        return self.activations[name]

    def constant(self, name: str, value: np.ndarray) -> str:
        """Declare an image that is known."""
        self.declare(name, value.shape)  # type: ignore[arg-type]
        self.constants[name] = value
        return name

    def emit(
        self,
        make: Callable[..., Layer],
        name: str,
        inputs: tuple[str, ...],
        output: str,
        **fields: Any,
    ) -> None:
        """Make and add a layer whose images are declared.

        Raises
        ------
        UnsupportedError
            If images or fields do not fit, which can only come from a strange node.
        """
        try:
            layer = make(name=name, inputs=inputs, output=output, **fields)
            layer.check(tuple(self.activations[i] for i in inputs), self.activations[output])
        except ValueError as error:
            raise UnsupportedError(str(error)) from error
        self.layers.append(layer)

    def reshape(self, name: str, source: str, target: str, *, absorbed: bool = False) -> None:
        """Add a layer that gives an image another shape.

        Parameters
        ----------
        name, source, target : str
            The layer and its images.
        absorbed : bool
            Whether all that read the target will read the source instead.

        Raises
        ------
        UnsupportedError
            If channels of a pixel would have to part, which no command can do.
        """
        if not absorbed:
            check_reshape(self.activations[source].shape, self.activations[target].shape)
        self.emit(Reshape, name, (source,), target)
        self._origins[target] = self._origins.get(source, source)

    def origin(self, name: str) -> str:
        """Return the image of which this one is another shape, perhaps itself."""
        return self._origins.get(name, name)

    def requantized(self, node: Node, name: str, like: str) -> str:
        """Return an image that means the same as ``name``, with the quantization of ``like``.

        Where TFLite demands equal quantizations, others are refused.
        """
        x, y = self.quantized(name), self.quantized(like)
        if x == y:
            return name
        if not self.exactness.ort:
            raise UnsupportedError(f"{self.exactness} does not requantize {name!r} in {node.op}")
        image = self.read(name)
        table = function_table("requantize", x, y, {}, self.exactness, 0)
        target = f"{node.name}/{name}"
        self.declare(target, image.shape)
        self.emit(Lut, target, (name,), target, table=table)
        return target


def check_reshape(source: tuple[int, int, int], target: tuple[int, int, int]) -> None:
    """Check that channels of a pixel stay together, as no command can part them.

    Raises
    ------
    UnsupportedError
        If they do not.
    """
    before, after = source[2], target[2]
    if before != after and (before % _VECTOR or after % _VECTOR):
        raise UnsupportedError(
            f"it turns pixels of {before} channels into pixels of {after}, and not both are "
            f"multiples of {_VECTOR}"
        )


def _dtype(tensor: Tensor) -> str:
    if tensor.dtype in ("int8", "uint8"):
        return "int8"
    if tensor.dtype == "int32":
        return "int32"
    raise UnsupportedError(f"tensor {tensor.name!r} is {tensor.dtype}, not int8 or uint8")
