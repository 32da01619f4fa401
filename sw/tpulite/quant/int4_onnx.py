"""QDQ files of ONNX whose weights become int4.

The weights are INT4 in the file, and a Cast makes them INT8 before DequantizeLinear: ONNX Runtime
joins only such products to its integer kernels.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tpulite.frontend.onnx.read.attributes import attributes_of
from tpulite.quant.floats.mixed import Judge, spread
from tpulite.quant.floats.observe import Feed
from tpulite.quant.int4 import int4_rows
from tpulite.quant.moments import Multiplied, moments_of

OPSET_INT4 = 21
"""Version of the operators that brought INT4."""

_IR = 10
"""Version of the format that did."""

_KEY = "tpulite.int8-weights"
"""Entry of a file's metadata: products whose weights stayed int8, one a line."""

_MEASURED, _TRIED = 16, 4
"""Samples whose inputs decide how weights are rounded, and on which a layer alone is judged."""


def int4_onnx(data: bytes, judge: Judge, least: float) -> bytes:
    """Round weights of Conv, Gemm and MatMul to int4, but of those that lose most.

    Parameters
    ----------
    data : bytes
        QDQ file with int8 weights, whose operators are those of :data:`OPSET_INT4` or later.
    judge : Judge
        What the outputs should be.
    least : float
        Cosine that each output must have; with 0 all weights are rounded.

    Returns
    -------
    bytes
        The file; its metadata name what stayed int8.
    """
    products = _Products(data, spread(judge.feeds, _MEASURED))
    names = list(products.rounded)
    whole = products.file(names)
    if not least or not names or judge.of_file(whole)[0] >= least:
        return whole
    if judge.of_file(none := products.file(()))[0] < least:  # nothing would help
        return none
    few = judge.fewer(_TRIED)
    costs = {name: -few.of_file(products.file([name]))[1] for name in names}
    order = sorted(names, key=lambda name: -costs[name])
    low, high = 0, len(order)
    while low < high:
        middle = (low + high) // 2
        if judge.of_file(products.file(order[middle:]))[0] >= least:
            high = middle
        else:
            low = middle + 1
    return products.file(order[low:])


def int8_weights(model: onnx.ModelProto) -> tuple[str, ...]:
    """Return the products whose weights :func:`int4_onnx` left int8."""
    found = next((x.value for x in model.metadata_props if x.key == _KEY), "")
    return tuple(found.splitlines())


class _Product(NamedTuple):
    """A product, and what makes its operands."""

    node: onnx.NodeProto
    weight: onnx.NodeProto
    bias: onnx.NodeProto | None
    source: onnx.NodeProto | None


class _Products:
    """Products of a QDQ file with constant weights of int8, and their weights as int4.

    Parameters
    ----------
    data : bytes
        The file.
    feeds : sequence of mapping of str to ndarray
        Samples whose inputs decide how weights are rounded.
    """

    def __init__(self, data: bytes, feeds: Sequence[Feed]) -> None:
        self._data = data
        model = onnx.load_model_from_string(data)
        self._values = {x.name: numpy_helper.to_array(x) for x in model.graph.initializer}
        writers = {name: node for node in model.graph.node for name in node.output}
        readers = [name for node in model.graph.node for name in node.input]
        found: dict[str, _Product] = {}
        for node in model.graph.node:
            if node.op_type not in ("Conv", "Gemm", "MatMul"):
                continue
            weight = writers.get(node.input[1])
            bias = writers.get(node.input[2]) if len(node.input) > 2 else None
            if weight is None or readers.count(weight.output[0]) > 1:
                continue
            if not self._is_weight(weight) or not (bias is None or self._is_weight(bias)):
                continue
            # The machine takes no tiles of int4 for groups, depthwise ones above all.
            groups = attributes_of(node).get("group", 1)
            if groups == 1 and (node.op_type == "Conv" or self._extents(weight) == 2):
                found[node.name] = _Product(node, weight, bias, writers.get(node.input[0]))
        inputs = [
            Multiplied(each.node, each.weight.input[0], self._values[each.weight.input[0]].shape)
            for each in found.values()
        ]
        moments = moments_of(model, inputs, feeds)
        #: By node: names of weights, and what they and the bias become.
        self.rounded = {
            each.node.name: self._rounded(found[each.node.name], each, moments.get(each.weight))
            for each in inputs
        }

    def _is_weight(self, node: onnx.NodeProto) -> bool:
        data = self._values.get(node.input[0]) if node.op_type == "DequantizeLinear" else None
        points = self._values.get(node.input[2]) if len(node.input) > 2 else None
        centered = points is None or not points.any()
        return data is not None and data.dtype in (np.int8, np.int32) and centered

    def _extents(self, weight: onnx.NodeProto) -> int:
        return self._values[weight.input[0]].ndim

    def _rounded(
        self, product: _Product, inputs: Multiplied, moments: np.ndarray | None
    ) -> dict[str, np.ndarray]:
        """Return constants by name, as they become."""
        _, weight, bias, source = product
        data, scale = (self._values[name] for name in weight.input[:2])
        flat = inputs.matrix(data)
        each = np.broadcast_to(scale.reshape(-1), len(flat)).astype(np.float64)
        moments = None if moments is None else moments[0]
        rows, fine = int4_rows(flat * each[:, None], moments, per_row=scale.size > 1)
        rows = inputs.from_matrix(rows)
        found = {
            weight.input[0]: rows.astype(ml_dtypes.int4),
            weight.input[1]: fine if scale.size > 1 else fine[:1].reshape(scale.shape),
        }
        if bias is not None and source is not None:
            values, before = (self._values[name] for name in bias.input[:2])
            after = (self._values[source.input[1]] * fine).astype(np.float32)
            after = after if scale.size > 1 else after[:1].reshape(before.shape)
            real = values * before.astype(np.float64)
            found[bias.input[0]] = np.rint(real / after).astype(np.int32)
            found[bias.input[1]] = after
        return found

    def file(self, names: Collection[str]) -> bytes:
        """Return the file with int4 weights of some products."""
        model = onnx.load_model_from_string(self._data)
        changed: dict[str, np.ndarray] = {}
        for name in names:
            changed |= self.rounded[name]
        casts = []
        for tensor in model.graph.initializer:
            if tensor.name not in changed:
                continue
            tensor.CopyFrom(numpy_helper.from_array(changed[tensor.name], tensor.name))
            if tensor.data_type == TensorProto.INT4:
                wide = f"{tensor.name}_int8"
                casts.append(helper.make_node("Cast", [tensor.name], [wide], wide, to=3))
                for node in model.graph.node:
                    if node.op_type == "DequantizeLinear" and node.input[0] == tensor.name:
                        node.input[0] = wide
        nodes = [*casts, *model.graph.node]
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        model.ir_version = max(model.ir_version, _IR)
        left = [name for name in self.rounded if name not in names]
        if left:
            entry = model.metadata_props.add()
            entry.key, entry.value = _KEY, "\n".join(left)
        return model.SerializeToString()
