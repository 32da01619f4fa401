"""QONNX files by their definition: quantizers in numpy, all other operators by ONNX Runtime.

The definition is that of the operators Quant, BipolarQuant and Trunc in
https://github.com/fastmachinelearning/qonnx. Files are taken as they are; nothing is folded.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_ROUNDINGS = {"ROUND": np.round, "CEIL": np.ceil, "FLOOR": np.floor}


def bounds(bits: int, *, signed: int = 1, narrow: int = 0) -> tuple[int, int]:
    """Return the least and the largest integer of a number of bits."""
    if signed:
        return narrow - (1 << bits - 1), (1 << bits - 1) - 1
    return 0, (1 << bits) - 1 - narrow


def defined(
    x, scale, bits: int, *, signed: int = 1, narrow: int = 0, zero=0.0, rounding: str = "ROUND"
) -> np.ndarray:
    """Return what a quantizer makes of floats, float32."""
    scaled = x / np.float32(scale) + np.float32(zero)
    if bits == 1 and signed:
        return np.where(scaled >= 0, 1, -1) * np.float32(scale)
    integers = _ROUNDINGS[rounding](np.clip(scaled, *bounds(bits, signed=signed, narrow=narrow)))
    return (integers - np.float32(zero)) * np.float32(scale)


def truncated(x, scale, zero, bits, *result, rounding_mode, signed=1, narrow=0) -> np.ndarray:
    """Return what a truncation makes of floats; it is of version 2 if its result has a scale."""
    steps = 2.0 ** np.round(np.log2(result[0] / scale) if result[1:] else bits - result[0])
    integers = np.round(x / scale + zero) / steps
    if result[1:]:
        integers = np.clip(integers, *bounds(int(result[1]), signed=signed, narrow=narrow))
    rounded = _ROUNDINGS[rounding_mode](integers)
    return (rounded - zero / steps) * (result[0] if result[1:] else scale)


@dataclass(frozen=True)
class Evaluation:
    """What a file computes of its inputs."""

    model: onnx.ModelProto  #: The file.
    #: Every tensor that operators read, float32 unless the file says otherwise.
    values: Mapping[str, np.ndarray]
    made: Mapping[str, np.ndarray]  #: Every tensor as its operator has made it.

    @property
    def outputs(self) -> tuple[np.ndarray, ...]:
        """The outputs, in the order of the file."""
        return tuple(self.made[each.name] for each in self.model.graph.output)


def evaluate(
    data: bytes, inputs: Mapping[str, np.ndarray], known: Mapping[str, np.ndarray] | None = None
) -> Evaluation:
    """Compute every tensor of a file, operator by operator.

    Parameters
    ----------
    inputs : mapping of str to ndarray
        Values of its inputs.
    known : mapping of str to ndarray, optional
        Values that operators read in place of what has been computed.
    """
    model, known = onnx.load_model_from_string(data), known or {}
    values = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    values |= inputs
    made = {}
    for node in model.graph.node:
        read = [values[name] for name in node.input]
        y = _quantizer(node, read) if node.domain else _operator(node, read, model)
        made[node.output[0]] = y
        values[node.output[0]] = known.get(node.output[0], y)
    return Evaluation(model, values, made)


def _quantizer(node: onnx.NodeProto, read: list[np.ndarray]) -> np.ndarray:
    flags: dict[str, Any] = {x.name: helper.get_attribute_value(x) for x in node.attribute}
    if "rounding_mode" in flags:
        flags["rounding_mode"] = flags["rounding_mode"].decode()
    if node.op_type == "Trunc":
        y = truncated(*read, **flags)
    elif node.op_type == "BipolarQuant":
        y = defined(read[0], read[1], 1)
    else:
        x, scale, zero, bits = read
        rounding = flags.pop("rounding_mode")
        y = defined(x, scale, int(bits), zero=zero, rounding=rounding, **flags)
    return np.asarray(y, np.float32)


def _operator(node: onnx.NodeProto, read: list[np.ndarray], model: onnx.ModelProto) -> np.ndarray:
    import onnxruntime

    types = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in zip(node.input, read, strict=True)
    ]
    result = helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None)
    alone = helper.make_graph([node], "alone", types, [result])
    versions = [each for each in model.opset_import if not each.domain]
    file = helper.make_model(alone, opset_imports=versions, ir_version=8)
    session = onnxruntime.InferenceSession(file.SerializeToString())
    (y,) = session.run(None, dict(zip(node.input, read, strict=True)))
    return np.asarray(y)
