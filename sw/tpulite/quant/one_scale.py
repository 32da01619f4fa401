"""One scale for all sides of a concatenation, so that it only moves numbers."""

from collections.abc import Sequence

import onnx
from onnx import helper

__all__ = ["share_scales"]

_PASSING = frozenset(
    {
        *("MaxPool", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Resize", "Slice"),
        *("Split", "Tile", "Pad", "DepthToSpace", "SpaceToDepth", "AveragePool"),
    }
)
"""Operators whose results have the scale of what they read: they would have to compute."""


def share_scales(data: bytes, *, requantize: bool = False) -> bytes:
    """Give the inputs of each Concat the scale of its result, whose range holds theirs.

    Parameters
    ----------
    data : bytes
        An ONNX file in which operators stand between DequantizeLinear and QuantizeLinear.
    requantize : bool
        Whether results of operators that only pass numbers on are quantized once more, to the scale
        of the concatenation, as LiteRT's has no other.

    Returns
    -------
    bytes
        The file; inputs that are inputs of the network, constants, or (without ``requantize``)
        results of operators that only pass numbers on keep their scales.
    """
    model = onnx.load_model_from_string(data)
    nodes = model.graph.node
    producer = {name: node for node in nodes for name in node.output}
    quantized = {node.input[0]: node for node in nodes if node.op_type == "QuantizeLinear"}
    for concat in reversed(list(nodes)):
        if concat.op_type != "Concat" or concat.output[0] not in quantized:
            continue
        meaning = list(quantized[concat.output[0]].input[1:])
        for index, name in enumerate(concat.input):
            pair = _pair(name, producer)
            if pair is not None:
                for node in pair:
                    node.input[1:] = meaning
            elif requantize and _is_other(name, meaning, producer):
                concat.input[index] = _requantized(model.graph, concat, name, meaning)
    return model.SerializeToString()


def _is_other(name: str, meaning: Sequence[str], producer: dict[str, onnx.NodeProto]) -> bool:
    """Tell whether a tensor is an activation of another scale."""
    dequantize = producer.get(name)
    other = dequantize is not None and list(dequantize.input[1:]) != [*meaning]
    return bool(other and dequantize is not None and dequantize.input[0] in producer)


def _requantized(
    graph: onnx.GraphProto, concat: onnx.NodeProto, name: str, meaning: Sequence[str]
) -> str:
    """Add what quantizes a tensor once more, before an operator; return the result."""
    y = f"{concat.output[0]}/{name}"
    pair = [
        helper.make_node("QuantizeLinear", [name, *meaning], [f"{y}/integers"], name=f"{y}/Q"),
        helper.make_node("DequantizeLinear", [f"{y}/integers", *meaning], [y], name=f"{y}/DQ"),
    ]
    place = list(graph.node).index(concat)
    for node in reversed(pair):
        graph.node.insert(place, node)
    return y


def _pair(
    name: str, producer: dict[str, onnx.NodeProto]
) -> tuple[onnx.NodeProto, onnx.NodeProto] | None:
    """Return what quantizes and dequantizes a result of an operator that computes."""
    dequantize = producer.get(name)
    if dequantize is None or dequantize.op_type != "DequantizeLinear":
        return None
    quantize = producer.get(dequantize.input[0])
    if quantize is None or quantize.op_type != "QuantizeLinear":
        return None
    source = producer.get(quantize.input[0])
    if source is None or source.op_type in _PASSING:
        return None
    return quantize, dequantize
