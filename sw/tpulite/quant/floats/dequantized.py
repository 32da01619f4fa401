"""The float network that an ONNX file with integer weights stands for.

Its weights are those that the file multiplies with: integers times scales. Activations that the
file quantizes are the floats before that, by the ranges of fixed scales.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tpulite.frontend.onnx.library import open_session
from tpulite.frontend.onnx.read.attributes import attributes_of
from tpulite.quant.floats.axes import add_constant, drop_constants
from tpulite.quant.floats.dead import drop_unread
from tpulite.quant.floats.graph import Links
from tpulite.quant.floats.rounded import clip_for_rounding

_DYNAMIC = "DynamicQuantizeLinear"
_TAKEN = 8
"""Products by factors between sums of integers and a float result; ONNX Runtime writes one."""


def dequantize_weights(model: onnx.ModelProto) -> None:
    """Make a float network of a file with integer weights, in place.

    Known is what ONNX Runtime's tools write: DynamicQuantizeLinear before MatMulInteger or
    ConvInteger, whose sums are scaled, also as one operator, or as an LSTM; DequantizeLinear of
    constants, and of rows of a table; MatMulNBits, whose weights have a scale for each block; and
    QuantizeLinear and DequantizeLinear before operators whose results stay in floats, as ModelOpt,
    NNCF and brevitas write them. The rest stays.
    """
    graph = model.graph
    if not has_integer_weights(graph):
        return
    _fold(model)
    links = Links(graph)
    clip_for_rounding(links)
    for node in list(graph.node):
        if (rewrite := _REWRITES.get(node.op_type)) is not None:
            rewrite(node, links)
    drop_unread(graph)
    drop_constants(graph)


def has_integer_weights(graph: onnx.GraphProto) -> bool:
    """Tell whether :func:`dequantize_weights` may find something."""
    return any(node.op_type in _REWRITES for node in graph.node)


def _fold(model: onnx.ModelProto) -> None:
    """Compute what DequantizeLinear makes of constants, and make initializers of Constant."""
    graph = model.graph
    known = {tensor.name for tensor in graph.initializer}
    constant: list[onnx.NodeProto] = []
    for node in graph.node:
        body = any(each.type == onnx.AttributeProto.GRAPH for each in node.attribute)
        if not body and all(not name or name in known for name in node.input):
            constant.append(node)
            known.update(node.output)
    wanted = [
        node.output[0]
        for node in constant
        if node.op_type == "DequantizeLinear"
        or (node.op_type == "Constant" and node.attribute[0].name == "value")
    ]
    if not wanted:
        return
    outputs = [onnx.ValueInfoProto(name=name) for name in wanted]
    part = helper.make_graph(constant, "constants", [], outputs, graph.initializer)
    file = onnx.ModelProto()
    file.CopyFrom(model)
    file.graph.CopyFrom(part)
    values = open_session(file.SerializeToString(), "DISABLE_ALL").run(wanted, {})
    for name, value in zip(wanted, values, strict=True):
        graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    folded = {*wanted}
    _replace(graph, [node for node in graph.node if not folded.intersection(node.output)])


def _integer_product(node: onnx.NodeProto, links: Links) -> None:
    """Make one product of floats of one of integers, the Cast of its sums, and what scales them."""
    source = links.writer.get(node.input[0])
    cast = links.only_reader(node.output[0])
    weight = _centered(node, 1, 3, links)
    if source is None or source.op_type != _DYNAMIC or weight is None or cast is None:
        return
    if tuple(node.input[2:3]) != (source.output[2],) or cast.op_type != "Cast":
        return
    found = _scaled(cast, source.output[1], links)
    if found is None:
        return
    last, factor = found
    factor = _of_channels(factor, weight, 0 if node.op_type == "ConvInteger" else weight.ndim - 1)
    if factor is None:
        return
    name = add_constant(links.graph, f"{node.output[0]}/weight", weight * factor, None)
    last.op_type = node.op_type.removesuffix("Integer")
    last.attribute.extend(node.attribute)
    last.name = node.name
    _set_inputs(last, [source.input[0], name])


def _of_channels(factor: np.ndarray, weight: np.ndarray, axis: int) -> np.ndarray | None:
    """Return a factor of sums as one of weights; None if it is not one for each channel.

    Channels are along an axis of the weights: the first one, [O, I, h, w], or the last one, [I, O].
    """
    if factor.size == 1:
        return factor
    behind = weight.ndim - 2 if axis == 0 else 0  # axes of sums behind that of channels
    fits = factor.ndim > behind and factor.shape[factor.ndim - 1 - behind] == factor.size
    if not fits or factor.size != weight.shape[axis]:
        return None
    return factor.reshape(-1, *(1,) * (weight.ndim - 1 - axis))


def _scaled(
    cast: onnx.NodeProto, scale: str, links: Links
) -> tuple[onnx.NodeProto, np.ndarray] | None:
    """Return the product with the activation's scale, and all constant factors up to there."""
    name, factor = cast.output[0], np.ones(1, np.float32)
    for _ in range(_TAKEN):
        node = links.only_reader(name)
        if node is None or node.op_type != "Mul":
            return None
        factors = [*_factors(node, name, links)]
        for each in factors:
            if each not in (*links.constants, scale):
                return None
            factor = factor if each == scale else factor * links.constants[each]
        if scale in factors:
            return node, factor
        name = node.output[0]
    return None


def _factors(node: onnx.NodeProto, name: str, links: Links) -> Iterator[str]:
    """Yield what a Mul multiplies a tensor by, or the two factors of that."""
    for other in node.input:
        before = links.writer.get(other)
        if other == name:
            continue
        yield from [other] if before is None or before.op_type != "Mul" else before.input


def _joined_product(node: onnx.NodeProto, links: Links) -> None:
    """Make a product of floats of DynamicQuantizeMatMul."""
    weight, scale = _centered(node, 1, 3, links), links.constants.get(node.input[2])
    if weight is not None and scale is not None:
        name = add_constant(links.graph, f"{node.output[0]}/weight", weight * scale, None)
        _product_and_sum(node, name, [*node.input, ""][4], links)


def _blocks(node: onnx.NodeProto, links: Links) -> None:
    """Make a product of floats of MatMulNBits: weights [N, blocks, bytes], zero points packed."""
    names = [*node.input, *[""] * 5]
    packed, scales, points, order = (links.constants.get(name) for name in names[1:5])
    missing = any(name and name not in links.constants for name in names[1:5])
    if packed is None or scales is None or order is not None or missing:
        return
    attributes = attributes_of(node)
    k, n, bits = attributes["K"], attributes["N"], attributes.get("bits", 4)
    size = attributes["block_size"]
    values = _unpacked(packed.reshape(n, -1), bits).reshape(n, -1, size)
    blocks = values.shape[1]
    if points is None:
        points = np.full((n, blocks), 2 ** (bits - 1))
    elif points.dtype == np.uint8:
        points = _unpacked(points.reshape(n, -1), bits)[:, :blocks]
    points = points.reshape(n, blocks, 1).astype(np.float32)
    real = (values - points) * scales.reshape(n, blocks, 1)
    weight = real.reshape(n, -1)[:, :k].T.astype(scales.dtype)
    name = add_constant(links.graph, f"{node.output[0]}/weight", weight, None)
    _product_and_sum(node, name, names[5], links)


def _lstm(node: onnx.NodeProto, links: Links) -> None:
    """Make an LSTM of floats of DynamicQuantizeLSTM, whose weights are [directions, in, gates]."""
    names = [*node.input, *[""] * 12][:12]
    parts = (names[1], *names[8:10]), (names[2], *names[10:12])
    real = [_of_gates([links.constants.get(name) for name in part]) for part in parts]
    if any(value is None for value in real):
        return
    for i, value in enumerate(real, 1):
        assert value is not None
        names[i] = add_constant(links.graph, f"{node.output[0]}/weights{i}", value, None)
    node.op_type, node.domain = "LSTM", ""
    _set_inputs(node, names[:8])


def _of_gates(values: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """Return integers less zero points, times scales, as LSTM has weights: gates first."""
    if any(value is None for value in values):
        return None
    weight, scale, point = (np.asarray(value) for value in values)
    scale, point = (x.reshape(len(weight), 1, -1) for x in (scale, point))
    real = (weight.astype(np.float32) - point.astype(np.float32)) * scale.astype(np.float32)
    return np.ascontiguousarray(real.transpose(0, 2, 1))


def _unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """Return unsigned numbers of some bits, of which each byte has several, the lowest first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (packed[..., None] >> shifts) & np.uint8(2**bits - 1)
    return numbers.reshape(len(packed), -1)


def _row_of_table(node: onnx.NodeProto, links: Links) -> None:
    """Make a Gather of floats of DequantizeLinear behind a Gather from a table of integers."""
    gather = links.writer.get(node.input[0])
    scale = links.scalar(node.input[1])
    if gather is None or gather.op_type != "Gather" or scale is None:
        return
    point = links.scalar(node.input[2]) if node.input[2:] else 0.0
    table = links.constants.get(gather.input[0])
    if table is None or point is None:
        return
    real = (table.astype(np.float32) - np.float32(point)) * np.float32(scale)
    name = add_constant(links.graph, f"{node.output[0]}/table", real, None)
    node.op_type = "Gather"
    del node.attribute[:]
    node.attribute.extend(gather.attribute)
    _set_inputs(node, [name, gather.input[1]])


_REWRITES: dict[str, Callable[[onnx.NodeProto, Links], None]] = {
    "ConvInteger": _integer_product,
    "DequantizeLinear": _row_of_table,
    "DynamicQuantizeLSTM": _lstm,
    "DynamicQuantizeMatMul": _joined_product,
    "MatMulInteger": _integer_product,
    "MatMulNBits": _blocks,
}


def _centered(node: onnx.NodeProto, weight: int, point: int, links: Links) -> np.ndarray | None:
    """Return constant integer weights less their zero points, as float32."""
    values = links.constants.get(node.input[weight])
    name = node.input[point] if len(node.input) > point else ""
    points = links.constants.get(name) if name else np.zeros(1, np.int8)
    if values is None or points is None:
        return None
    if node.op_type == "ConvInteger" and points.size > 1:
        points = points.reshape(-1, *(1,) * (values.ndim - 1))
    return values.astype(np.float32) - points.astype(np.float32)


def _product_and_sum(node: onnx.NodeProto, weight: str, bias: str, links: Links) -> None:
    """Make a MatMul of a node, with an Add behind it for a bias."""
    x, y = node.input[0], node.output[0]
    node.op_type, node.domain = "MatMul", ""
    del node.attribute[:]
    _set_inputs(node, [x, weight])
    if bias:
        node.output[0] = f"{y}/product"
        place = next(i for i, each in enumerate(links.graph.node) if each is node)
        add = helper.make_node("Add", [node.output[0], bias], [y], name=f"{node.name}/Add")
        links.graph.node.insert(place + 1, add)


def _set_inputs(node: onnx.NodeProto, names: list[str]) -> None:
    del node.input[:]
    node.input.extend(names)


def _replace(graph: onnx.GraphProto, nodes: list[onnx.NodeProto]) -> None:
    del graph.node[:]
    graph.node.extend(nodes)
