"""Which operators of int16 the machine has, and what lowers each."""

from collections.abc import Callable, Mapping

from tpulite.arch.config import Config
from tpulite.graph.graph import Graph, Node
from tpulite.quant.lower.context import GraphContext
from tpulite.quant.lower.int16.additions import lower_addition
from tpulite.quant.lower.int16.extremes import (
    lower_extreme_of_int16,
    lower_max_pool_of_int16,
)
from tpulite.quant.lower.int16.movement import (
    lower_bytes,
    lower_concat_of_pairs,
    lower_pad_of_pairs,
    lower_pick_of_pairs,
    lower_reshape_of_pairs,
)
from tpulite.quant.lower.int16.products import lower_product
from tpulite.quant.lower.int16.scales import lower_leaky_relu, lower_relu, lower_scale
from tpulite.quant.lower.int16.sums import lower_average_pool_of_int16, lower_mean_of_int16
from tpulite.quant.lower.int16.svdf import lower_svdf
from tpulite.quant.lower.movement import MOVEMENT, lower_pack

INT16: Mapping[str, Callable[[Node, GraphContext], None]] = {
    **dict.fromkeys(("conv", "depthwise", "dense", "transposed_conv"), lower_product),
    "requantize": lower_scale,
    **dict.fromkeys(("relu", "relu6"), lower_relu),
    "leaky_relu": lower_leaky_relu,
    **dict.fromkeys(("add", "sub"), lower_addition),
    "average_pool": lower_average_pool_of_int16,
    "mean": lower_mean_of_int16,
    "max_pool": lower_max_pool_of_int16,
    **dict.fromkeys(("maximum", "minimum"), lower_extreme_of_int16),
    "pad": lower_pad_of_pairs,
    "concat": lower_concat_of_pairs,
    "reshape": lower_reshape_of_pairs,
    "svdf": lower_svdf,
    "pack": lower_bytes(lower_pack),
    **dict.fromkeys(set(MOVEMENT) - {"space_to_depth"}, lower_pick_of_pairs),
}
"""How each operator of int16 becomes layers."""


def wide_activations(node: Node, graph: Graph) -> tuple[str, ...]:
    """Return the activations of int16 that a node reads or computes."""
    tensors = (graph.tensors[name] for name in (*node.inputs, *node.outputs) if name)
    return tuple(each.name for each in tensors if each.dtype == "int16" and each.data is None)


def lacking_int16(graph: Graph, config: Config) -> Mapping[str, str]:
    """Return the nodes that a machine without int16 lacks it for, and why."""
    if config.int16:
        return {}
    nodes = (node for node in graph.nodes if node.op in INT16 and wide_activations(node, graph))
    size = config.array_size
    why = f"this configuration has no int16 ({size}x{size},int16=1 has)"
    return {node.name: why for node in nodes}
