"""Batches of images as one tall image, where no layer sees more of an image than single pixels."""

from dataclasses import replace

from tpulite.graph.layers import Activation, Layer, LayerGraph, is_pointwise
from tpulite.program import Program, TensorSpec


def stack_images(layers: LayerGraph, batch: int) -> LayerGraph | None:
    """Return the network for all images of a batch below each other; None if they are not alike.

    Parameters
    ----------
    layers : LayerGraph
        The network for one image.
    batch : int
        Images.
    """
    if batch == 1 or layers.constants or not all(map(_sees_pixels, layers.layers)):
        return None
    if any(
        len({layers.activations[name].shape[:2] for name in _images(x)}) > 1 for x in layers.layers
    ):
        return None
    tall = {
        name: Activation((batch * image.shape[0], *image.shape[1:]), image.dtype)
        for name, image in layers.activations.items()
    }
    return replace(layers, activations=tall)


def unstack_tensors(program: Program, batch: int) -> Program:
    """Return the program of a tall image with inputs and outputs that are batches."""

    def unstack(spec: TensorSpec) -> TensorSpec:
        assert spec.image is not None
        height, width = spec.image
        one = (height // batch, width)
        return replace(spec, m=spec.m // batch, image=one, batch=batch, stacked=True)

    inputs, outputs = tuple(map(unstack, program.inputs)), tuple(map(unstack, program.outputs))
    return replace(program, inputs=inputs, outputs=outputs)


def _sees_pixels(layer: Layer) -> bool:
    return layer.in_place or is_pointwise(layer)


def _images(layer: Layer) -> tuple[str, ...]:
    return (*layer.inputs, layer.output)
