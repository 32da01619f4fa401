"""Integer layers: what the machine is to compute, with no scale left to interpret.

Activations are int8 [height, width, channels]; a uint8 tensor of a file is the int8 one
with its top bit inverted, so its zero point and clamp are those of the file minus 128. ``(y, x)``
are pairs and padding is (top, left, bottom, right).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tpulite.graph.layer_base import Activation, Layer, Made, Windows, check_array
from tpulite.graph.layer_movement import Concat, DepthToSpace, Pad, Pick, Reshape
from tpulite.graph.layer_products import (
    Conv,
    Depthwise,
    Filter,
    MatMul,
    Transpose,
    TransposedConv,
    is_int8_conv,
    is_pointwise,
)
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
    "Filter",
    "Layer",
    "LayerGraph",
    "Lut",
    "Made",
    "MatMul",
    "Pad",
    "Pick",
    "Pool",
    "Requantization",
    "Reshape",
    "Softmax",
    "Transpose",
    "TransposedConv",
    "Windows",
    "has_int16",
    "is_int8_conv",
    "is_pointwise",
]


@dataclass(frozen=True, eq=False)
class LayerGraph:
    """A network of integer layers, in an order in which they can run.

    ValueError if an activation is unknown, computed twice or read before it is computed, or if it
    has not the shape and dtype that its layer gives it.
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

    @cached_property
    def makers(self) -> Mapping[str, Layer]:
        """The layer that computes each activation, by its name."""
        return {layer.output: layer for layer in self.layers}

    @cached_property
    def readers(self) -> Mapping[str, tuple[Layer, ...]]:
        """The layers that read each activation, each of them once, in order."""
        found: dict[str, list[Layer]] = {name: [] for name in self.activations}
        for layer in self.layers:
            for name in dict.fromkeys(layer.inputs):
                found[name].append(layer)
        return {name: tuple(layers) for name, layers in found.items()}

    def made(self, name: str) -> Made:
        """Return in which order an activation is computed."""
        return self._orders.get(name, Made.OTHERWISE)

    @cached_property
    def _orders(self) -> Mapping[str, Made]:
        found: dict[str, Made] = {}
        for layer in self.layers:
            behind = any(found.get(name, Made.OTHERWISE) != Made.OTHERWISE for name in layer.inputs)
            found[layer.output] = Made.BEHIND if layer.in_place and behind else layer.made
        return found

    def sole_reader(self, name: str) -> Layer | None:
        """Return the layer that reads an activation once, if nothing else reads or returns it."""
        reads = [layer for layer in self.readers[name] for each in layer.inputs if each == name]
        return reads[0] if len(reads) == 1 and name not in self.outputs else None

    def with_layers(
        self, layers: Iterable[Layer], activations: Mapping[str, Activation] | None = None
    ) -> "LayerGraph":
        """Return the network with other layers; activations that nothing names are left out.

        Parameters
        ----------
        layers : iterable of Layer
            The layers, in an order in which they can run.
        activations : mapping of str to Activation, optional
            Those that they may name; without it, those that there are.
        """
        chain, known = tuple(layers), self.activations if activations is None else activations
        used = {*self.inputs, *self.outputs, *self.constants}
        used |= {name for layer in chain for name in (*layer.inputs, layer.output)}
        kept = {name: image for name, image in known.items() if name in used}
        return replace(self, layers=chain, activations=kept)

    def macs(self) -> dict[str, int]:
        """Return the multiplications of each layer of the MXU, padding not counted."""
        images, counts = self.activations, {}
        for layer in self.layers:
            counts[layer.name] = layer.macs(*(images[x] for x in (*layer.inputs, layer.output)))
        return {name: count for name, count in counts.items() if count}


def has_int16(layers: LayerGraph) -> bool:
    """Return whether a layer of a network is of int16."""
    return any(layer.int16 for layer in layers.layers)
