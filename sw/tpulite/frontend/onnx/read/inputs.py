"""Shapes of an ONNX file's inputs: what the file leaves open is given, or a batch of 1."""

import onnx

from tpulite.frontend.given_shapes import GivenShapes, Open

__all__ = ["fix_shapes"]


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
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = {value.name: value for value in model.graph.input if value.name not in constants}
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


def _extents(value: onnx.ValueInfoProto) -> Open | None:
    """Return the extents of an input, open ones by their names; None without a shape."""
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        return None
    return [
        each.dim_value if each.HasField("dim_value") and each.dim_value >= 0 else each.dim_param
        for each in kind.shape.dim
    ]
