"""Folding of batch normalization into the weights before it."""

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from tpulite.graph.graph import Graph, Node, Tensor
from tpulite.graph.passes.rewrite import count_uses, rebuild, unique_name

# For each operator with weights, the axis of its output channels.
_CHANNEL_AXIS = {"conv": 0, "depthwise": 2, "dense": 0}


def fold_batch_norm(graph: Graph, types: Collection[str] = ("float32", "float64")) -> Graph:
    """Scale weights and bias instead of the result.

    With gain = gamma / sqrt(variance + epsilon), weights become weights * gain and the bias
    (bias - mean) * gain + beta, as in section 3.2 of Jacob et al., "Quantization and Training of
    Neural Networks for Efficient Integer-Arithmetic-Only Inference" (arXiv:1712.05877). Computed in
    float64 and rounded to the type of the weights once.

    It happens where all of them are constants of these types, the node before has no activation,
    nobody else uses its result, and no weight becomes infinite. A batch normalization elsewhere, or
    behind weights that are quantized already, stays. float16 is not folded unless asked for: it
    would change the results of a network that runs.
    """
    uses = count_uses(graph)
    position: dict[str, int] = {}
    nodes: list[Node] = []
    tensors = dict(graph.tensors)
    for node in graph.nodes:
        at = position.get(node.inputs[0]) if node.op == "batch_norm" else None
        if at is not None and uses[node.inputs[0]] == 1:
            folded = None
            if _foldable(nodes[at], node, tensors, types):
                folded = _fold(nodes[at], node, tensors)
            if folded is not None:
                nodes[at] = folded
                continue
        if node.op in _CHANNEL_AXIS and node["activation"] == "none":
            position[node.outputs[0]] = len(nodes)
        nodes.append(node)
    return rebuild(graph, nodes, tensors)


def _foldable(host: Node, norm: Node, tensors: dict[str, Tensor], types: Collection[str]) -> bool:
    """Say whether both have constants of these types, one parameter for each channel."""
    names = [*host.inputs[1:], *norm.inputs[1:]]
    constants = [tensors[name] for name in names if name]
    floats = all(t.data is not None and t.dtype in types for t in constants)
    weight = tensors[host.inputs[1]]
    channels = weight.shape[_CHANNEL_AXIS[host.op]]
    return floats and all(tensors[name].shape == (channels,) for name in norm.inputs[1:])


def _fold(host: Node, norm: Node, tensors: dict[str, Tensor]) -> Node | None:
    """Return the node with new weights, added to the tensors; None if one is beyond its type."""
    gamma, beta, mean, variance = (_value(tensors[name]) for name in norm.inputs[1:])
    gain = gamma / np.sqrt(variance + norm["epsilon"])
    x, weight_name, *bias_names = host.inputs
    weight = tensors[weight_name]
    axis = _CHANNEL_AXIS[host.op]
    shape = [-1 if i == axis else 1 for i in range(len(weight.shape))]
    bias = sum((_value(tensors[name]) for name in bias_names if name), np.zeros(len(gain)))
    exact = {
        "weight": _value(weight) * gain.reshape(shape),
        "bias": (bias - mean) * gain + beta,
    }
    with np.errstate(over="ignore"):  # asked below
        rounded = {what: value.astype(weight.dtype) for what, value in exact.items()}
    if any(np.any(np.isinf(rounded[what]) & np.isfinite(exact[what])) for what in exact):
        return None
    names = []
    for what, data in rounded.items():
        name = unique_name(f"{host.name}.{what}", tensors)
        tensors[name] = Tensor(name, data.shape, weight.dtype, None, data)
        names.append(name)
    return replace(host, inputs=(x, *names), outputs=norm.outputs)


def _value(tensor: Tensor) -> np.ndarray:
    assert tensor.data is not None
    return tensor.data.astype(np.float64)
