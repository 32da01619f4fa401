"""What a float ONNX network needs before ONNX Runtime's quantizer can do well."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tpulite.frontend.onnx.read.attributes import attributes_of
from tpulite.frontend.padding import pad_same
from tpulite.quant.floats.axes import Axes, add_constant
from tpulite.quant.floats.curves import name_curves
from tpulite.quant.floats.graph import Links

HARD_SWISH = 14
"""Version of the operators that brought HardSwish."""

_PAD_AXES = 3
"""Input of Pad that chooses axes."""

_SCALES = 2
"""Input of Resize with scales; sizes follow."""

_SHAPES = ("gemm_input_shape", "gemm_output_shape")
"""How names of extents begin that ONNX Runtime adds where it joins MatMul and Add."""


def prepare(path: Path) -> None:
    """Change a file in place: curves in one piece, plain Gemm and Pad, and flat biases."""
    model = onnx.load(path)
    _widen_constants(model.graph)
    if standard_opset(model) >= HARD_SWISH:
        name_curves(model.graph)
    _transpose_first(model.graph)
    _simplify_products(model.graph)
    _pad_all_axes(model.graph)
    _resize_all_axes(model)
    _rename_shapes(model.graph)
    onnx.save(model, path)


def standard_opset(model: onnx.ModelProto) -> int:
    """Return the version of the standard operators; 0 if there is none."""
    return max((entry.version for entry in model.opset_import if not entry.domain), default=0)


def _widen_constants(graph: onnx.GraphProto) -> None:
    """Compute constants that ONNX Runtime casts from float16, or the quantizer sees no constant."""
    values = {tensor.name: tensor for tensor in graph.initializer}
    for node in [each for each in graph.node if each.op_type == "Cast"]:
        tensor = values.get(node.input[0])
        wide = attributes_of(node)["to"] == onnx.TensorProto.FLOAT
        if wide and tensor is not None and tensor.data_type == onnx.TensorProto.FLOAT16:
            value = numpy_helper.to_array(tensor).astype(np.float32)
            graph.initializer.append(numpy_helper.from_array(value, node.output[0]))
            graph.node.remove(node)


def _rename_shapes(graph: onnx.GraphProto) -> None:
    """Rename extents around products, or ONNX Runtime uses their names again for others."""
    names = {x.name: f"{x.name}_kept" for x in graph.initializer if x.name.startswith(_SHAPES)}
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for node in graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = names.get(name, name)


def _transpose_first(graph: onnx.GraphProto) -> None:
    """Transpose before a mean is subtracted, where ONNX Runtime has moved it behind.

    A normalization that begins so would be over an axis that is not the last.
    """
    links = Links(graph)
    for node in [each for each in graph.node if each.op_type == "Sub"]:
        x, after = node.input[0], links.only_reader(node.output[0])
        mean = links.writer.get(node.input[1])
        if after is None or after.op_type != "Transpose" or mean is None:
            continue
        flags, order = attributes_of(mean), list(attributes_of(after).get("perm", ()))
        known = mean.op_type == "ReduceMean" and flags.get("axes") and flags.get("keepdims", 1)
        if not (known and order) or mean.input[0] != x or links.only_reader(mean.output[0]) is None:
            continue
        moved, averaged = f"{x}_{after.name}", f"{mean.output[0]}_moved"
        axes = [order.index(each % len(order)) for each in flags["axes"]]
        made = [
            helper.make_node("Transpose", [x], [moved], name=moved, perm=order),
            helper.make_node("ReduceMean", [moved], [averaged], name=mean.name, axes=axes),
            helper.make_node("Sub", [moved, averaged], list(after.output), name=node.name),
        ]
        place = list(graph.node).index(mean)
        for each in (mean, node, after):
            graph.node.remove(each)
        for each in reversed(made):
            graph.node.insert(place, each)


def _simplify_products(graph: onnx.GraphProto) -> None:
    """Put factors into constants; the quantizer takes only biases of one number a column."""
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        known = node.op_type == "Gemm" and all(name in values for name in node.input[1:])
        nodes += _simple_gemm(graph, node, values) if known else [node]
    _replace(graph, nodes)


def _simple_gemm(
    graph: onnx.GraphProto, node: onnx.NodeProto, values: dict[str, np.ndarray]
) -> Iterator[onnx.NodeProto]:
    attributes = attributes_of(node)
    weight = values[node.input[1]] * np.float32(attributes.get("alpha", 1.0))
    columns = weight.shape[0 if attributes.get("transB", 0) else 1]
    y = node.output[0]
    inputs = [node.input[0], add_constant(graph, f"{y}_weight", weight)]
    flags = {name: attributes[name] for name in ("transA", "transB") if name in attributes}
    if len(node.input) < 3 or not node.input[2]:
        yield helper.make_node("Gemm", inputs, [y], name=node.name, **flags)
        return
    bias = values[node.input[2]] * np.float32(attributes.get("beta", 1.0))
    if bias.size in (1, columns):
        bias = np.broadcast_to(bias.reshape(-1), (columns,))
        inputs.append(add_constant(graph, f"{y}_bias", bias))
        yield helper.make_node("Gemm", inputs, [y], name=node.name, **flags)
        return
    product = f"{y}_product"
    yield helper.make_node("Gemm", inputs, [product], name=node.name, **flags)
    added = add_constant(graph, f"{y}_added", bias)
    yield helper.make_node("Add", [product, added], [y], name=f"{node.name}_add")


def _pad_all_axes(graph: onnx.GraphProto) -> None:
    """Pad all axes, most by 0: ONNX Runtime fails where it moves a Transpose over chosen axes."""
    links = Links(graph)
    shapes = {x.name: x.type.tensor_type.shape.dim for x in (*graph.input, *graph.value_info)}
    for node in [x for x in graph.node if x.op_type == "Pad" and len(x.input) > _PAD_AXES]:
        pads, axes = (links.constants.get(node.input[i]) for i in (1, _PAD_AXES))
        rank = len(shapes.get(node.input[0], ()))
        if pads is None or axes is None or not rank:
            continue
        full = np.zeros((2, rank), np.int64)
        full[:, axes] = pads.reshape(2, -1)
        node.input[1] = add_constant(graph, f"{node.output[0]}_pads", full.reshape(-1), None)
        del node.input[_PAD_AXES:]


def _resize_all_axes(model: onnx.ModelProto) -> None:
    """Resize all axes, most by 1: ONNX Runtime fails where it moves a Transpose over some."""
    links = Links(model.graph)
    axes = Axes(model, links)
    for node in [x for x in model.graph.node if x.op_type == "Resize"]:
        flags, shape = attributes_of(node), axes.shape(node.input[0])
        stretched = flags.get("keep_aspect_ratio_policy", "stretch") == "stretch"
        if not flags.get("axes") or not shape or 0 in shape or not stretched:
            continue
        for index, usual in ((_SCALES, [1.0] * len(shape)), (_SCALES + 1, shape)):
            value = links.constants.get(node.input[index]) if index < len(node.input) else None
            if value is not None and value.size:
                whole = np.array(usual, value.dtype)
                whole[[*flags["axes"]]] = value
                node.input[index] = add_constant(
                    model.graph, f"{node.output[0]}_extents", whole, None
                )
                _drop_attribute(node, "axes")


def write_pads(model: onnx.ModelProto) -> None:
    """Write the pads of dilated convolutions with auto_pad in place, which ONNX Runtime refuses."""
    links, axes = Links(model.graph), None
    for node in model.graph.node:
        flags = attributes_of(node)
        kind, dilations = flags.get("auto_pad", ""), flags.get("dilations", ())
        if node.op_type != "Conv" or not kind.startswith("SAME") or max(dilations, default=1) == 1:
            continue
        axes = axes or Axes(model, links)
        image, weight = axes.shape(node.input[0])[2:], links.constants.get(node.input[1])
        if not image or weight is None or 0 in image:
            continue
        strides = flags.get("strides", [1] * len(image))
        ends = [
            sorted(pad_same(*each), reverse=kind == "SAME_LOWER")
            for each in zip(image, weight.shape[2:], strides, dilations, strict=True)
        ]
        for name in ("auto_pad", "pads"):  # pads do not count beside it
            _drop_attribute(node, name)
        pads = [each[end] for end in (0, 1) for each in ends]
        node.attribute.append(helper.make_attribute("pads", pads))


def _drop_attribute(node: onnx.NodeProto, name: str) -> None:
    kept = [each for each in node.attribute if each.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)


def _replace(graph: onnx.GraphProto, nodes: list[onnx.NodeProto]) -> None:
    del graph.node[:]
    graph.node.extend(nodes)
