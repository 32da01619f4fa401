"""One scale for all sides of a concatenation, so that it only moves numbers."""

import onnx

__all__ = ["share_scales"]

_PASSING = frozenset(
    {
        *("MaxPool", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Resize", "Slice"),
        *("Split", "Tile", "Pad", "DepthToSpace", "SpaceToDepth", "AveragePool"),
    }
)
"""Operators whose results have the scale of what they read: they would have to compute."""


def share_scales(data: bytes) -> bytes:
    """Give the inputs of each Concat the scale of its result, whose range holds theirs.

    Parameters
    ----------
    data : bytes
        An ONNX file in which operators stand between DequantizeLinear and QuantizeLinear.

    Returns
    -------
    bytes
        The file; inputs that are inputs of the network, constants, or results of operators that
        only pass numbers on keep their scales.
    """
    model = onnx.load_model_from_string(data)
    nodes = model.graph.node
    producer = {name: node for node in nodes for name in node.output}
    quantized = {node.input[0]: node for node in nodes if node.op_type == "QuantizeLinear"}
    for concat in reversed(nodes):
        if concat.op_type != "Concat" or concat.output[0] not in quantized:
            continue
        meaning = quantized[concat.output[0]].input[1:]
        for name in concat.input:
            pair = _pair(name, producer)
            if pair is not None:
                for node in pair:
                    node.input[1:] = meaning
    return model.SerializeToString()


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
