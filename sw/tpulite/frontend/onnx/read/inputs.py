"""Shapes of an ONNX file's inputs: what the file leaves open is given, or a batch of 1."""

from collections.abc import Mapping

import onnx

from tpulite.frontend.given_shapes import AXES, FileInput, GivenShapes, Open
from tpulite.frontend.onnx.read.attributes import attributes_of

_UNKNOWN = "?"
"""What PaddlePaddle writes in place of a name: two such extents need not be the same."""

_CHANNELS_FIRST = ("batch", "channels", "height", "width")

_PARAMETERS = {"BatchNormalization": (1, 0), "Conv": (1, 1), "QLinearConv": (3, 1)}
"""Which input of an operator says how many channels it reads, and on which axis."""

_SAME_CHANNELS = ("Cast", "Clip", "DequantizeLinear", "QuantizeLinear", "Relu")
"""Operators that may stand before one that says it."""


def fix_shapes(model: onnx.ModelProto, given: GivenShapes) -> tuple[str, ...]:
    """Give every input a shape, in place; forget what the file says of others that is open.

    Returns
    -------
    tuple of str
        Inputs whose shape nobody says: they are taken for scalars.

    Raises
    ------
    ValueError
        If an input is no tensor, an extent stays open, or shapes are given that do not fit.
    """
    inputs = _inputs(model)
    for name, value in inputs.items():
        if not value.type.HasField("tensor_type"):
            raise ValueError(f"Input {name!r} is not a tensor")
    settled = given.settle({name: _extents(value) for name, value in inputs.items()})
    unknown = []
    for name, shape in settled.items():
        kind = inputs[name].type.tensor_type
        if not kind.HasField("shape") and name not in given.shapes:
            unknown.append(name)
        kind.ClearField("shape")
        kind.shape.SetInParent()  # also of a scalar, which has no extents
        for extent in shape:
            kind.shape.dim.add(dim_value=extent)
    for value in (*model.graph.value_info, *model.graph.output):
        for extent in value.type.tensor_type.shape.dim:
            if not extent.HasField("dim_value") or extent.dim_value < 0:
                extent.Clear()
    return tuple(unknown)


def image_inputs(model: onnx.ModelProto) -> Mapping[str, FileInput]:
    """Return the inputs with four extents, by name.

    Channels come second, as ONNX has it, unless only the last extent but the batch is fixed.
    """
    found = {}
    for name, value in _inputs(model).items():
        extents = _extents(value)
        if extents is None or len(extents) != len(_CHANNELS_FIRST):
            continue
        last = [isinstance(each, str) for each in extents[1:]] == [True, True, False]
        axes = AXES if last else _CHANNELS_FIRST
        found[name] = FileInput(extents, axes, _read_channels(model, name))
    return found


def _read_channels(model: onnx.ModelProto, name: str) -> int | None:
    """Return the channels that the first operator with parameters reads, or None."""
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    for node in model.graph.node:  # in an order in which they can run
        if name not in node.input[:1]:
            continue
        if node.op_type in _SAME_CHANNELS:
            name = node.output[0]
        elif node.op_type in _PARAMETERS:
            number, axis = _PARAMETERS[node.op_type]
            shape = shapes.get(_stored(model, node.input[number]), ())
            groups = attributes_of(node).get("group", 1)
            return shape[axis] * groups if axis < len(shape) else None
        else:
            return None
    return None


def _stored(model: onnx.ModelProto, name: str) -> str:
    """Return the constant that a parameter is, or is dequantized from."""
    makers = {output: node for node in model.graph.node for output in node.output}
    node = makers.get(name)
    return node.input[0] if node is not None and node.op_type == "DequantizeLinear" else name


def _inputs(model: onnx.ModelProto) -> dict[str, onnx.ValueInfoProto]:
    constants = {tensor.name for tensor in model.graph.initializer}
    return {value.name: value for value in model.graph.input if value.name not in constants}


def _extents(value: onnx.ValueInfoProto) -> Open | None:
    """Return the extents of an input, open ones by their names; None without a shape."""
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        return None
    return [
        each.dim_value
        if each.HasField("dim_value") and each.dim_value >= 0
        else ""
        if each.dim_param == _UNKNOWN
        else each.dim_param
        for each in kind.shape.dim
    ]
