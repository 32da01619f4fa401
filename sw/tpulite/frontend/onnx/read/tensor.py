"""Values and types of an ONNX file's tensors."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def array(tensor: TensorProto) -> np.ndarray:
    """Return the value of a tensor.

    Raises
    ------
    ValueError
        If it has more or fewer bytes than its shape says.
    """
    try:
        return np.array(numpy_helper.to_array(tensor))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"Tensor {tensor.name!r} is damaged: {error}") from error


def static_shape(value: onnx.ValueInfoProto) -> tuple[int, ...] | None:
    """Return the shape of a tensor if all of it is known."""
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        return None
    extents = list(kind.shape.dim)
    if any(not extent.HasField("dim_value") for extent in extents):
        return None
    return tuple(extent.dim_value for extent in extents)


def type_of(value: onnx.ValueInfoProto) -> tuple[str, tuple[int, ...] | None]:
    """Return dtype and shape; ``object`` and None for what is not a tensor."""
    try:
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).name
    except KeyError:
        return "object", None
    return dtype, static_shape(value)
