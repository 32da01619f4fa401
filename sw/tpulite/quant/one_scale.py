"""One scale for all sides of a concatenation, so that it only moves numbers."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tpulite.quant.floats.graph import ROUNDED

_PASSING = frozenset(
    {
        *("MaxPool", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Resize", "Slice"),
        *("Split", "Tile", "Pad", "DepthToSpace", "SpaceToDepth", "AveragePool"),
    }
)
"""Operators whose results have the scale of what they read: they would have to compute."""

_MEANS = frozenset({"Resize", "AveragePool", "Pad"})
"""Those that compute something, though of the same scale."""

_ROUNDING = ("QuantizeLinear", "DequantizeLinear")

_OWN = frozenset({"Sigmoid", "Softmax", "Tanh"})
"""Operators whose results have a scale of their own in LiteRT."""


def share_scales(
    data: bytes, clips: Mapping[str, tuple[float, float]] | None = None, *, requantize: bool = False
) -> bytes:
    """Give the inputs of each Concat the scale of its result, whose range holds theirs.

    Parameters
    ----------
    data : bytes
        An ONNX file in which operators stand between DequantizeLinear and QuantizeLinear.
    clips : mapping of str to (float, float), optional
        Results of Relu and Clip in the float network, and between which numbers they are. Where the
        file has no such operator, rounding clips in its place, and must go on to.
    requantize : bool
        Whether operators between an input and the concatenation that only pass numbers on get its
        scale, too, and what cannot have it is quantized once more: LiteRT's concatenation has no
        other.

    Returns
    -------
    bytes
        The file; without ``requantize``, inputs that are inputs of the network, constants, clipped
        by their rounding, or results of operators that only pass numbers on keep their scales.
    """
    model = onnx.load_model_from_string(data)
    nodes = model.graph.node
    producer = {name: node for node in nodes for name in node.output}
    quantized = {node.input[0]: node for node in nodes if node.op_type == "QuantizeLinear"}
    readers: dict[str, list[onnx.NodeProto]] = defaultdict(list)
    for node in nodes:
        for name in node.input:
            readers[name].append(node)
    given = {value.name for value in model.graph.input}
    outputs = {value.name for value in model.graph.output}
    clipping = _Clipping(model.graph, clips or {}, producer)
    for concat in reversed(list(nodes)):
        if concat.op_type != "Concat" or concat.output[0] not in quantized:
            continue
        meaning = list(quantized[concat.output[0]].input[1:])
        kept = _PASSING | _OWN if requantize else _PASSING
        for name in concat.input:
            shared = _passed(name, concat, given, producer, readers) if requantize else []
            shared = shared or _pair(name, producer, kept)
            others = len(readers[name]) > 1 or name in outputs
            if clipping.may_share(shared, concat.output[0], meaning, others=others):
                for node in shared:
                    node.input[1:] = meaning
    if requantize:
        _requantize(model.graph, producer, quantized)
    return model.SerializeToString()


class _Clipping:
    """Relu and Clip that are left out, for the rounding behind them clips.

    Parameters
    ----------
    graph : GraphProto
        A graph with roundings.
    clips : mapping of str to (float, float)
        Results of such operators of the float network.
    producer : mapping of str to NodeProto
        What computes each tensor.
    """

    def __init__(
        self,
        graph: onnx.GraphProto,
        clips: Mapping[str, tuple[float, float]],
        producer: Mapping[str, onnx.NodeProto],
    ) -> None:
        self._clips, self._producer = clips, producer
        self._constants = {each.name: each for each in graph.initializer}

    def may_share(
        self, nodes: Sequence[onnx.NodeProto], whole: str, meaning: Sequence[str], *, others: bool
    ) -> bool:
        """Tell whether roundings may become those of a concatenation; others may read results."""
        if others and self._ends(whole) is not None:
            return False  # what the others read would be clipped
        ends = [self._ends(node.input[0]) for node in nodes if node.op_type == "QuantizeLinear"]
        ends = [each for each in ends if each is not None]
        if not ends:
            return True
        step, low, high = self._range(meaning)
        return all(a - step / 2 <= low and high <= b + step / 2 for a, b in ends)

    def _ends(self, name: str) -> tuple[float, float] | None:
        """Return between which numbers a tensor is clipped by its rounding alone."""
        source = self._producer.get(name)
        there = source is not None and source.op_type in ("Relu", "Clip")
        return None if there else self._clips.get(name.removesuffix(ROUNDED))

    def _range(self, meaning: Sequence[str]) -> tuple[float, float, float]:
        """Return the scale that names of constants mean, and the lowest and highest number."""
        scale, zero = (numpy_helper.to_array(self._constants[x]) for x in meaning)
        ends = np.iinfo(zero.dtype)
        step, middle = float(scale.item()), int(zero.item())
        return step, (ends.min - middle) * step, (ends.max - middle) * step


def _passed(
    name: str,
    concat: onnx.NodeProto,
    given: Collection[str],
    producer: Mapping[str, onnx.NodeProto],
    readers: Mapping[str, Sequence[onnx.NodeProto]],
) -> list[onnx.NodeProto]:
    """Return what quantizes and dequantizes on the only way to a tensor from what computes it.

    ``given`` has the inputs of the network.
    """
    found: list[onnx.NodeProto] = []
    while (node := producer.get(name)) is not None and len(readers[name]) == 1:
        if node.op_type in _ROUNDING:
            found.append(node)
        elif node.op_type not in _PASSING - _MEANS:
            break
        elif not all(_leads(other, concat, readers) for other in node.output if other != name):
            return []  # other parts would get a scale that is not theirs
        name = node.input[0]
    computed = node is not None and node.op_type not in (_PASSING | _OWN)
    return found if len(readers[name]) == 1 and (computed or name in given) else []


def _leads(
    name: str, concat: onnx.NodeProto, readers: Mapping[str, Sequence[onnx.NodeProto]]
) -> bool:
    """Tell whether only a concatenation reads a tensor, rounded or not."""
    while len(found := readers[name]) == 1 and found[0].op_type in _ROUNDING:
        name = found[0].output[0]
    return all(node is concat for node in found)


def _requantize(
    graph: onnx.GraphProto,
    producer: dict[str, onnx.NodeProto],
    quantized: dict[str, onnx.NodeProto],
) -> None:
    """Quantize once more what concatenations read of another scale, now that no scale changes."""
    for concat in list(graph.node):
        if concat.op_type != "Concat" or concat.output[0] not in quantized:
            continue
        meaning = list(quantized[concat.output[0]].input[1:])
        others = {x for x in concat.input if _is_other(x, meaning, producer)}
        made = {x: _requantized(graph, concat, x, meaning) for x in sorted(others)}
        concat.input[:] = [made.get(x, x) for x in concat.input]


def _is_other(name: str, meaning: Sequence[str], producer: dict[str, onnx.NodeProto]) -> bool:
    """Tell whether an activation or a constant has another scale."""
    dequantize = producer.get(name)
    return dequantize is not None and list(dequantize.input[1:]) != [*meaning]


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
