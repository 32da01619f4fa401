"""Integer layers: what the machine is to compute, with no scale left to interpret.

Activations are int8 [height, width, channels]; a uint8 tensor of a file is the int8 one
with its top bit inverted, so its zero point and clamp are those of the file minus 128. ``(y, x)``
are pairs and padding is (top, left, bottom, right).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tpulite.graph.layer_base import Activation, Layer
from tpulite.graph.layer_checks import check_array
from tpulite.graph.layer_matrices import MatMul, Transpose
from tpulite.graph.layer_movement import Concat, DepthToSpace, Pad, Pick, Reshape
from tpulite.graph.layer_products import Conv, Depthwise, TransposedConv
from tpulite.graph.layer_vector import Affine, Elementwise, Lut, Pool, Softmax
from tpulite.graph.requantization import Requantization
from tpulite.program import TensorSpec

__all__ = [
    "Activation",
    "Affine",
    "Concat",
    "Conv",
    "DepthToSpace",
    "Depthwise",
    "Elementwise",
    "Layer",
    "LayerGraph",
    "Lut",
    "MatMul",
    "Pad",
    "Pick",
    "Pool",
    "Requantization",
    "Reshape",
    "Softmax",
    "Transpose",
    "TransposedConv",
    "has_int16",
]


@dataclass(frozen=True, eq=False)
class LayerGraph:
    """A network of integer layers, in an order in which they can run.

    Raises
    ------
    ValueError
        If an activation is unknown, computed twice or read before it is computed, or if it has not
        the shape and dtype that its layer gives it.
    """

    name: str  #: Name of the network.
    layers: tuple[Layer, ...]  #: Layers.
    activations: Mapping[str, Activation]  #: All activations by name.
    #: Activations that come from and go to the host.
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    #: Mapping of str to ndarray of int8, [H, W, C]. Activations that are known.
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    unsigned: frozenset[str] = frozenset()  #: Inputs and outputs that the host sees as uint8.
    #: How the host has inputs whose images are patches of a tensor; offsets do not count.
    packed: Mapping[str, TensorSpec] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = {*self.inputs, *self.constants}
        for name in sorted(known - set(self.activations)):
            raise ValueError(f"Activation {name!r} has no shape")
        for name, value in self.constants.items():
            check_array(f"Activation {name!r}", "its value", value, "int8", 3)
            if value.shape != self.activations[name].shape:
                raise ValueError(
                    f"Activation {name!r} must be {self.activations[name].shape}, not {value.shape}"
                )
        names: set[str] = set()
        for layer in self.layers:
            if layer.name in names:
                raise ValueError(f"{layer.title}: name must be unique in {self.name!r}")
            names.add(layer.name)
            for name in layer.inputs:
                if name not in known:
                    raise ValueError(f"{layer.title} needs {name!r}, which is not there yet")
            if layer.output not in self.activations:
                raise ValueError(f"{layer.title} computes the unknown activation {layer.output!r}")
            if layer.output in known:
                raise ValueError(f"Activation {layer.output!r} is computed twice")
            sources = tuple(self.activations[name] for name in layer.inputs)
            layer.check(sources, self.activations[layer.output])
            known.add(layer.output)
        for name in self.outputs:
            if name not in known:
                raise ValueError(f"Nothing computes the output {name!r}")

    def macs(self) -> dict[str, int]:
        """Return the multiplications of each layer of the MXU, padding not counted."""
        counts = {}
        for layer in self.layers:
            if isinstance(layer, Conv | Depthwise):
                height, width, channels = self.activations[layer.output].shape
                kernel = layer.weight.size // layer.weight.shape[-1]
                counts[layer.name] = height * width * channels * kernel
            elif isinstance(layer, MatMul):
                height, width, channels = self.activations[layer.output].shape
                inner = self.activations[layer.inputs[0]].shape[2]
                counts[layer.name] = height * width * channels * inner
        return counts


def has_int16(layers: LayerGraph) -> bool:
    """Return whether a layer of a network is of int16."""
    return any(isinstance(layer, Conv | TransposedConv) and layer.int16 for layer in layers.layers)
