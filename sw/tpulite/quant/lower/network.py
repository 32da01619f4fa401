"""From a quantized graph to integer layers."""

from collections.abc import Callable, Iterable, Mapping

from tpulite.arch.config import Config
from tpulite.graph.graph import Graph, Node
from tpulite.graph.layers import Layer, LayerGraph, Reshape
from tpulite.quant.exactness.functions import FUNCTIONS
from tpulite.quant.lower.affine import lower_batch_norm
from tpulite.quant.lower.batches import images_of, lower_images, sees_neighbors
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.data_movement import (
    lower_concat,
    lower_function,
    lower_pad,
    lower_reshape,
    lower_table,
)
from tpulite.quant.lower.differences import lower_squared_difference
from tpulite.quant.lower.floats import require_integers
from tpulite.quant.lower.int16 import INT16, lacking_int16, wide_activations
from tpulite.quant.lower.int16.svdf import lower_svdf
from tpulite.quant.lower.matrices import lower_matmul
from tpulite.quant.lower.movement import (
    MOVEMENT,
    lower_depth_to_space,
    lower_movement,
    lower_pack,
)
from tpulite.quant.lower.pools import lower_average_pool, lower_max_pool
from tpulite.quant.lower.prelu import lower_prelu
from tpulite.quant.lower.products import (
    lower_conv,
    lower_dense,
    lower_depthwise,
)
from tpulite.quant.lower.reductions import lower_extreme_of_axes, lower_mean, lower_sum
from tpulite.quant.lower.resize import lower_resize
from tpulite.quant.lower.selections import lower_extreme, lower_pair
from tpulite.quant.lower.softmax import lacking_softmax, lower_softmax
from tpulite.quant.lower.transposed import lower_transposed_conv
from tpulite.quant.tensors import UnsupportedError

LOWERED: Mapping[str, Callable[[Node, GraphContext], None]] = {
    "conv": lower_conv,
    "depthwise": lower_depthwise,
    "dense": lower_dense,
    "transposed_conv": lower_transposed_conv,
    "matmul": lower_matmul,
    "add": lower_pair,
    "sub": lower_pair,
    "mul": lower_pair,
    "maximum": lower_extreme,
    "minimum": lower_extreme,
    "squared_difference": lower_squared_difference,
    "prelu": lower_prelu,
    "max_pool": lower_max_pool,
    "average_pool": lower_average_pool,
    "mean": lower_mean,
    "sum": lower_sum,
    "reduce_max": lower_extreme_of_axes,
    "reduce_min": lower_extreme_of_axes,
    "pad": lower_pad,
    "concat": lower_concat,
    "reshape": lower_reshape,
    "pack": lower_pack,
    "table": lower_table,
    "softmax": lower_softmax,
    "depth_to_space": lower_depth_to_space,
    **dict.fromkeys(MOVEMENT, lower_movement),
    "resize_bilinear": lower_resize,
    "svdf": lower_svdf,
    "batch_norm": lower_batch_norm,
    **dict.fromkeys(FUNCTIONS, lower_function),
}
"""How each operator of the machine becomes layers."""


def lacking(graph: Graph, config: Config) -> Mapping[str, str]:
    """Return the nodes that a machine lacks the operations for, and why."""
    return {**lacking_softmax(graph, config), **lacking_int16(graph, config)}


def joined(
    context: GraphContext, name: str, inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> LayerGraph:
    """Return the layers of a context as a network.

    Parameters
    ----------
    context : GraphContext
        Nodes that have been lowered.
    name : str
        Name of the network.
    inputs, outputs : tuple of str
        Tensors that come from outside, and that are needed there.

    Raises
    ------
    ValueError
        If a change of shape that only some dense layers can do without has to be done.
    """
    layers = _needed(context.layers, outputs)
    for layer in layers:
        if isinstance(layer, Reshape) and layer.output in context.parted:
            raise ValueError(f"{layer.title} splits the channels of a vector")
    used = {x for layer in layers for x in (*layer.inputs, layer.output)} | {*inputs, *outputs}
    for x in inputs:
        if x not in context.activations:
            context.read(x)
    return LayerGraph(
        name=name,
        layers=layers,
        activations={x: image for x, image in context.activations.items() if x in used},
        inputs=inputs,
        outputs=outputs,
        constants={x: value for x, value in context.constants.items() if x in used},
        unsigned=frozenset(x for x in (*inputs, *outputs) if context.tensor(x).dtype == "uint8"),
    )


def lower_node(node: Node, context: GraphContext) -> None:
    """Add the layers of a node to a context.

    Raises
    ------
    UnsupportedError
        If the machine cannot compute it exactly.
    """
    if node.op not in LOWERED:
        raise UnsupportedError(node.attributes.get("reason", f"unsupported operator {node.op}"))
    if len(node.outputs) != 1 and node.op not in (*MOVEMENT, "svdf"):
        raise UnsupportedError(f"it has {len(node.outputs)} outputs")
    if (
        node.op not in ("conv", "depthwise", "dense", "transposed_conv", "batch_norm", "svdf")
        and "" in node.inputs
    ):
        raise UnsupportedError("an input is missing")
    if context.exactness.ort:
        require_integers(node, context)
    lower = LOWERED[node.op]
    if wide := wide_activations(node, context.graph):
        if node.op not in INT16:
            raise UnsupportedError(f"tensor {wide[0]!r} is int16, not int8 or uint8")
        lower = INT16[node.op]
    count, images = len(context.layers), images_of(node, context)
    if images > 1 and sees_neighbors(node, context):
        lower_images(node, context, lower, images)
        return
    try:
        lower(node, context)
    except UnsupportedError:
        if images == 1:
            raise
        del context.layers[count:]
        lower_images(node, context, lower, images)


def _needed(layers: Iterable[Layer], outputs: tuple[str, ...]) -> tuple[Layer, ...]:
    needed, kept = set(outputs), []
    for layer in reversed(list(layers)):
        if layer.output in needed:
            needed.update(layer.inputs)
            kept.append(layer)
    return tuple(reversed(kept))
