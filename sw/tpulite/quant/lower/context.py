"""Surroundings of a node while it becomes integer layers."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from tpulite.graph.graph import Graph, Node, Tensor
from tpulite.graph.layers import Activation, Conv, DepthToSpace, Layer, Lut, Reshape
from tpulite.graph.requantization import IDENTITY
from tpulite.layout.int16 import split_int16
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.functions import function_table
from tpulite.quant.tensors import (
    Quantized,
    UnsupportedError,
    centered,
    image_shape,
    quantized,
)

Shape = tuple[int, int, int]

_MOST_WEIGHTS = 1 << 20
"""Weights that moving pixels into channels is worth."""


class GraphContext:
    """Collects the layers and images of a network.

    Images have the names of their tensors; those between the layers of one node get a suffix.

    Parameters
    ----------
    vector : int
        Channels of a vector of the machine: multiples of it move as whole vectors.
    """

    def __init__(self, graph: Graph, exactness: Exactness, vector: int = 32) -> None:
        self.graph, self.exactness, self.vector = graph, exactness, vector
        self.layers: list[Layer] = []
        self.activations: dict[str, Activation] = {}
        self.constants: dict[str, np.ndarray] = {}
        self._origins: dict[str, str] = {}
        self._parts: dict[str, Tensor] = {}
        self.parted: set[str] = set()  # reshaped images of other vectors, which cannot be made

    def tensor(self, name: str) -> Tensor:
        """Return a tensor of the graph, or a part of one."""
        return self._parts[name] if name in self._parts else self.graph.tensors[name]

    def part(self, name: str, index: int) -> str:
        """Return the name of what a tensor is for one position of its first axis."""
        new, whole = f"{name}[{index}]", self.tensor(name)
        self._parts[new] = replace(whole, name=new, shape=(1, *whole.shape[1:]))
        return new

    def plane(self, name: str, half: int) -> str:
        """Return the name of the upper (0) or lower bytes (1) of a tensor of int16, one of int8."""
        new, whole = f"{name}/{('upper', 'lower')[half]}", self.tensor(name)
        data = None if whole.data is None else split_int16(whole.data)[:, half]
        data = None if data is None else data.reshape(whole.shape)
        self._parts[new] = replace(whole, name=new, dtype="int8", data=data)
        return new

    def quantized(self, name: str) -> Quantized:
        """Return the quantization of an activation."""
        return quantized(self.tensor(name))

    def read(self, name: str) -> Activation:
        """Return the image of a tensor, constant or not, for a layer that reads it."""
        if name not in self.activations:
            tensor = self.tensor(name)
            shape = self.write(name).shape
            if tensor.data is not None:
                wide = tensor.dtype == "int16"
                value = split_int16(tensor.data) if wide else centered(tensor)
                self.constants[name] = value.reshape(shape)
        return self.activations[name]

    def write(self, name: str) -> Activation:
        """Declare the image of a tensor that the node computes; columns of int16 are pairs."""
        tensor = self.tensor(name)
        height, width, channels = image_shape(tensor.shape)
        if tensor.dtype == "int16":
            return self.declare(name, (height, 2 * width, channels))
        return self.declare(name, (height, width, channels), _dtype(tensor))

    def declare(self, name: str, shape: tuple[int, int, int], dtype: str = "int8") -> Activation:
        """Declare an image."""
        self.activations[name] = Activation(shape, dtype)
        return self.activations[name]

    def declare_like(self, image: str, name: str) -> str:
        """Declare an image of the shape of another; return its name."""
        self.declare(name, self.activations[image].shape)
        return name

    def map(self, image: str, name: str, table: np.ndarray) -> str:
        """Add a layer that maps an image to one of this name by a table of int8 [256]."""
        self.emit(Lut, name, (image,), self.declare_like(image, name), table=table)
        return name

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

    def reshape(
        self, name: str, source: str, target: str, *, absorbed: bool = False, pairs: bool = False
    ) -> None:
        """Add layers that give an image another shape.

        Vectors of the machine move as they are. Otherwise the channels of a pixel become pixels,
        and these channels of others: a product with a matrix of zeros and ones.

        Parameters
        ----------
        name, source, target : str
            The layer and its images.
        absorbed : bool
            Whether all that read the target will read the source instead.
        pairs : bool
            Whether the images are those of tensors of int16.

        Raises
        ------
        UnsupportedError
            If that takes too many weights.
        """
        before, after = (self.activations[each].shape for each in (source, target))
        kept = before[2] == after[2] if pairs else self.keeps_vectors(before, after)
        if absorbed or kept:
            if not kept:
                self.parted.add(target)
            self.emit(Reshape, name, (source,), target)
            self._origins[target] = self._origins.get(source, source)
            return
        each = math.gcd(before[2], after[2])
        block, count = before[2] // each, after[2] // each
        if pairs or after[2] ** 2 > _MOST_WEIGHTS or self.activations[source].dtype != "int8":
            self.refuse_parting(before, after)
        if block > 1:
            shape = before[0], before[1] * block, each
            source = self._step(
                DepthToSpace, f"{name}/apart", source, shape, block=(1, block), channels=each
            )
        if count > 1:
            rows = math.prod(after[:2])
            source = self._step(Reshape, f"{name}/rows", source, (rows, count, each))
            weight = np.eye(after[2], dtype=np.int8).reshape(1, count, each, after[2])
            fields = {"weight": weight, "stride": (1, count), "requantization": IDENTITY}
            source = self._step(Conv, f"{name}/together", source, (rows, 1, after[2]), **fields)
        self.emit(Reshape, name, (source,), target)

    def keeps_vectors(self, before: Shape, after: Shape) -> bool:
        """Tell whether pixels of other channels are the same vectors of the machine."""
        return before[2] == after[2] or not (before[2] % self.vector or after[2] % self.vector)

    def refuse_parting(self, before: Shape, after: Shape) -> NoReturn:
        """Raise UnsupportedError as channels of a vector would have to part."""
        raise UnsupportedError(
            f"it reshapes {before[2]} channels to {after[2]}, and not both are multiples of "
            f"{self.vector}"
        )

    def _step(
        self, make: Callable[..., Layer], name: str, source: str, shape: Shape, **fields: Any
    ) -> str:
        self.declare(name, shape)
        self.emit(make, name, (source,), name, **fields)
        return name

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
            raise UnsupportedError(
                f"{self.exactness} does not requantize {name!r} in {node.source or node.op}"
            )
        self.read(name)
        table = function_table("requantize", x, y, {}, self.exactness, 0)
        return self.map(name, f"{node.name}/{name}", table)


def _dtype(tensor: Tensor) -> str:
    if tensor.dtype in ("int8", "uint8"):
        return "int8"
    if tensor.dtype == "int32":
        return "int32"
    raise UnsupportedError(f"tensor {tensor.name!r} is {tensor.dtype}, not int8 or uint8")
