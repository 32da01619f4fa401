"""Products by transposed matrices, on machines with transposed weight tiles."""

from dataclasses import replace

from tpulite.arch.config import Config
from tpulite.compiler.plan.layer_cost import matmul_cycles, offset_parts, transpose_cycles
from tpulite.graph.layers import Layer, LayerGraph, MatMul, Transpose

_LESS = 0.95
"""Part of the estimated cycles of a product and a transpose that its adjoint may take."""


def join_transposes(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network without transposes of second operands and results of products.

    The array takes their weights as transposed tiles. That takes fewer cycles than a transpose,
    whatever the extents are; channels must fill whole blocks, since what lies behind the others is
    not known. A product whose result is transposed becomes its adjoint where estimates say so.
    """
    if not config.has_transposed_tiles:
        return layers
    sources = {
        layer.output: layer.inputs[0]
        for layer in layers.layers
        if isinstance(layer, Transpose) and _joins(layers, layer, config)
    }
    joined: list[Layer] = []
    for layer in layers.layers:
        if isinstance(layer, MatMul) and layer.inputs[1] in sources:
            inputs = layer.inputs[0], sources[layer.inputs[1]]
            joined.append(replace(layer, inputs=inputs, transposed=not layer.transposed))
        elif layer.output not in sources:
            joined.append(layer)
    return _without_result_transposes(layers.with_layers(joined), config)


def _without_result_transposes(layers: LayerGraph, config: Config) -> LayerGraph:
    """Return the network without transposes of products that take fewer cycles as the adjoints."""
    made: list[Layer] = []
    products: dict[str, MatMul] = {}
    for layer in layers.layers:
        if isinstance(layer, MatMul) and layer.transposed:
            products[layer.output] = layer
        elif isinstance(layer, Transpose) and layer.inputs[0] in products:
            product = products[layer.inputs[0]]
            adjoint = _adjoint(layers, product, layer, config)
            if adjoint is not None:
                made.remove(product)
                made.append(adjoint)
                continue
        made.append(layer)
    return layers.with_layers(made)


def _adjoint(
    layers: LayerGraph, product: MatMul, transpose: Transpose, config: Config
) -> MatMul | None:
    """Return what makes the transpose of a product with its operands swapped, if that is faster."""
    name = product.output
    if name in layers.outputs or len(layers.readers[name]) > 1:
        return None
    inner = layers.activations[product.inputs[0]].shape[2]
    height, columns, rows = layers.activations[name].shape
    offsets = [len(offset_parts(zero_point)) for zero_point in product.zero_points]
    blocks = [-(-extent // config.array_size) for extent in (inner, rows, columns)]
    here = matmul_cycles(
        (height, columns), (blocks[0], blocks[1]), config, offsets=offsets[0], transposed=True
    )
    there = matmul_cycles(
        (height, rows), (blocks[0], blocks[2]), config, offsets=offsets[1], transposed=True
    )
    transposed, _ = transpose_cycles((height, columns, rows), config)
    if there[0] > _LESS * (here[0] + transposed):
        return None
    return replace(
        product,
        inputs=product.inputs[::-1],
        output=transpose.output,
        zero_points=product.zero_points[::-1],
    )


def _joins(layers: LayerGraph, transpose: Transpose, config: Config) -> bool:
    """Return whether only second operands of products read what a layer transposes."""
    source, name = transpose.inputs[0], transpose.output
    if name in layers.outputs or layers.activations[source].shape[2] % config.array_size:
        return False
    return all(
        isinstance(layer, MatMul) and not layer.transposed and layer.inputs[0] not in (name, source)
        for layer in layers.readers[name]
    )
