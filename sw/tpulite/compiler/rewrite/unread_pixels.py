"""Networks without the pixels that nobody reads."""

from collections.abc import Mapping
from dataclasses import replace
from math import gcd

from tpulite.arch.isa import CONV
from tpulite.arch.numerics import INT8
from tpulite.graph.layers import Activation, Concat, Filter, Layer, LayerGraph, Pool

Pair = tuple[int, int]

_STRIDE = CONV.limit("stride_y")


def remove_unread_pixels(layers: LayerGraph) -> LayerGraph:
    """Return the network with strides as early as possible; its results are the same.

    A kernel of one tap with a stride reads some of the pixels only. If nobody reads the others, the
    layer that computes them gets the stride instead, and layers before it, as far as that goes:
    kernels take larger steps, and elementwise layers read every second pixel, say, of operands that
    others need as a whole.
    """
    chain, images = list(layers.layers), dict(layers.activations)
    for index in reversed(range(len(chain))):
        producer = chain[index]
        image = images[producer.output]
        readers = [i for i, layer in enumerate(chain) if producer.output in layer.inputs]
        step = _step([chain[i] for i in readers])
        fewer = _every(image, step)
        if producer.output in layers.outputs or fewer == image:
            continue
        made = _strided(producer, step, images)
        if not made:
            continue
        images |= {layer.output: _every(images[layer.inputs[0]], step) for layer in made[:-1]}
        images[producer.output] = fewer
        for i in readers:
            rows, columns = _stride(chain[i])
            chain[i] = _stepping(chain[i], (rows // step[0], columns // step[1]))
        chain[index : index + 1] = made
    return _without_copies(replace(layers, layers=tuple(chain), activations=images))


def _step(readers: list[Layer]) -> Pair:
    """Return the steps in which all readers go over an image; 1 if one of them reads all of it."""
    strides = [_stride(layer) for layer in readers]
    return gcd(*(y for y, _ in strides)) or 1, gcd(*(x for _, x in strides)) or 1


def _stride(layer: Layer) -> Pair:
    """Return which pixels a layer reads: those that are so far from each other."""
    windows = layer.windows
    if windows is None or windows.kernel != (1, 1) or any(windows.padding):
        return 1, 1
    return windows.stride


def _every(image: Activation, step: Pair) -> Activation:
    """Return the image of every n-th row and column."""
    height, width, channels = image.shape
    return Activation((-(-height // step[0]), -(-width // step[1]), channels), image.dtype)


def _strided(layer: Layer, step: Pair, images: Mapping[str, Activation]) -> list[Layer]:
    """Return what computes every n-th row and column of a layer, the layer last; perhaps nothing.

    Before it come layers that choose pixels of its operands.
    """
    if isinstance(layer, Filter | Pool):
        stride = layer.stride[0] * step[0], layer.stride[1] * step[1]
        return [_stepping(layer, stride)] if max(stride) <= _STRIDE else []
    if not (layer.in_place or (isinstance(layer, Concat) and layer.axis == 2)):
        return []
    extents = images[layer.output].shape[:2]
    chosen = {
        name: Pool(
            name=f"{layer.name}: pixels of {name}",
            inputs=(name,),
            output=f"{name} for {layer.name}",
            op="max",
            window=(1, 1),
            stride=step,
        )
        for name in layer.inputs
        if images[name].shape[:2] == extents  # others are the same for all pixels
    }
    inputs = tuple(chosen[name].output if name in chosen else name for name in layer.inputs)
    return [*chosen.values(), replace(layer, inputs=inputs)]


def _stepping(layer: Layer, stride: Pair) -> Layer:
    assert isinstance(layer, Filter | Pool)
    return replace(layer, stride=stride)


def _without_copies(layers: LayerGraph) -> LayerGraph:
    """Return the network without layers that choose all pixels."""
    originals: dict[str, str] = {}
    kept = []
    for layer in layers.layers:
        inputs = tuple(originals.get(name, name) for name in layer.inputs)
        if _copies(layer) and layer.output not in layers.outputs:
            originals[layer.output] = inputs[0]
        else:
            kept.append(layer if inputs == layer.inputs else replace(layer, inputs=inputs))
    return layers.with_layers(kept)


def _copies(layer: Layer) -> bool:
    return (
        isinstance(layer, Pool)
        and (layer.op, layer.windows.single) == ("max", True)
        and (layer.low, layer.high) == (INT8[0], INT8[-1])
    )
