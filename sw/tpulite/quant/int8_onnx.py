"""QDQ files of ONNX: weights of int8, once more rounded by what products lose."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import numpy_helper

from tpulite.quant.floats.graph import Links
from tpulite.quant.floats.observe import Feed
from tpulite.quant.int4 import compensated, damped
from tpulite.quant.moments import Multiplied, moments_of

QUANTIZED = "_quantized"
"""What ONNX Runtime's quantizer appends to names of constants that it rounds."""

_KINDS = ("Conv", "Gemm", "MatMul")


def compensate_weights(
    data: bytes, floats: Mapping[str, np.ndarray], feeds: Sequence[Feed], most: int
) -> bytes:
    """Let each weight make up for the errors of those before it, in the same channel.

    Scales and biases stay. Weights that are integers already do, too.

    Parameters
    ----------
    data : bytes
        QDQ file with int8 weights, rounded one by one.
    floats : mapping of str to ndarray
        Weights before that, by their names in the file.
    feeds : sequence of mapping of str to ndarray
        Samples; the inputs of the products, as this file has them, decide.
    most : int
        Largest magnitude of a weight.

    Returns
    -------
    bytes
        The file.
    """
    model = onnx.load_model_from_string(data)
    found = list(_products(model, floats))
    moments = moments_of(model, [each for each, _ in found], feeds)
    made: dict[str, np.ndarray] = {}
    for each, scale in found:
        name = each.weight
        if name in moments and name not in made:
            weight = each.matrix(floats[name]).astype(np.float64)
            rows = _rounded(weight, scale, moments.pop(name), most)
            made[name] = np.ascontiguousarray(each.from_matrix(rows), np.int8)
    for tensor in model.graph.initializer:
        if tensor.name in made:
            tensor.CopyFrom(numpy_helper.from_array(made[tensor.name], tensor.name))
    return model.SerializeToString()


def _rounded(weight: np.ndarray, scale: np.ndarray, moments: np.ndarray, most: int) -> np.ndarray:
    """Round the rows of all groups."""
    parts = zip(*(np.split(x, len(moments)) for x in (weight, scale)), moments, strict=True)
    return np.concatenate([compensated(w, s, damped(h), (-most, most)) for w, s, h in parts])


def _products(
    model: onnx.ModelProto, floats: Mapping[str, np.ndarray]
) -> Iterator[tuple[Multiplied, np.ndarray]]:
    """Yield products with weights that were floats, and the scales of their outputs."""
    links = Links(model.graph)
    for node in model.graph.node:
        if node.op_type not in _KINDS:
            continue
        weight = links.writer.get(node.input[1])
        if weight is None or weight.op_type != "DequantizeLinear":
            continue
        name, scale = weight.input[0], links.constants.get(weight.input[1])
        values = links.constants.get(name)
        if values is None or scale is None or values.dtype != np.int8 or name not in floats:
            continue
        others = (x for y in links.readers[name] for x in links.readers[y.output[0]])
        if any(x.op_type not in _KINDS for x in others):
            continue  # such as Gather, which wants each number as it is
        if node.op_type == "Conv" or values.ndim == 2:
            each = Multiplied(node, name, values.shape)
            scales = np.broadcast_to(scale.reshape(-1), len(each.matrix(values)))
            yield each, scales.astype(np.float64)
