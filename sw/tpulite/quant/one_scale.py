"""One scale for all sides of a concatenation, so that it only moves numbers."""

from collections import Counter
from collections.abc import Collection, Sequence

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

_MEANS = frozenset({"Resize", "AveragePool", "Pad"})
"""Those that compute something, though of the same scale."""

_OWN = frozenset({"Sigmoid", "Softmax", "Tanh"})
"""Operators whose results have a scale of their own in LiteRT."""


def share_scales(data: bytes, *, requantize: bool = False) -> bytes:
    """Give the inputs of each Concat the scale of its result, whose range holds theirs.

    Parameters
    ----------
    data : bytes
        An ONNX file in which operators stand between DequantizeLinear and QuantizeLinear.
    requantize : bool
        Whether operators between an input and the concatenation that only pass numbers on get its
        scale, too, and what cannot have it is quantized once more: LiteRT's concatenation has no
        other.

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
        kept = _PASSING | _OWN if requantize else _PASSING
        for index, name in enumerate(concat.input):
            shared = _passed(name, model.graph, producer) if requantize else []
            for node in shared or _pair(name, producer, kept):
                node.input[1:] = meaning
            if requantize and _is_other(name, meaning, producer):
                concat.input[index] = _requantized(model.graph, concat, name, meaning)
    return model.SerializeToString()


def _passed(
    name: str, graph: onnx.GraphProto, producer: dict[str, onnx.NodeProto]
) -> list[onnx.NodeProto]:
    """Return what quantizes and dequantizes on the only way to a tensor from what computes it."""
    readers = Counter(name for node in graph.node for name in node.input)
    found: list[onnx.NodeProto] = []
    while (node := producer.get(name)) is not None and readers[name] == 1:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            found.append(node)
        elif node.op_type not in _PASSING - _MEANS:
            break
        name = node.input[0]
    given = {value.name for value in graph.input}
    computed = node is not None and node.op_type not in (_PASSING | _OWN)
    return found if readers[name] == 1 and (computed or name in given) else []


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
    name: str, producer: dict[str, onnx.NodeProto], kept: Collection[str]
) -> list[onnx.NodeProto]:
    """Return what quantizes and dequantizes a result of an operator whose scale is not kept."""
    dequantize = producer.get(name)
    if dequantize is None or dequantize.op_type != "DequantizeLinear":
        return []
    quantize = producer.get(dequantize.input[0])
    if quantize is None or quantize.op_type != "QuantizeLinear":
        return []
    source = producer.get(quantize.input[0])
    return [] if source is None or source.op_type in kept else [quantize, dequantize]
