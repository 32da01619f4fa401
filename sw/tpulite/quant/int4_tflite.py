"""TFLite files of int8 whose weights become int4."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

import numpy as np

from tpulite.frontend.tflite.cut import pack, unpack
from tpulite.quant.int4 import int4_rows, pack_int4


def int4_tflite(
    data: bytes,
    samples: Iterable[Mapping[str, np.ndarray]] = (),
    *,
    per_channel: bool = True,
) -> bytes:
    """Round weights of CONV_2D and FULLY_CONNECTED to int4.

    LiteRT wants a bias beside such weights of CONV_2D; those without one stay int8.

    Parameters
    ----------
    data : bytes
        TFLite file of int8.
    samples : iterable of mapping of str to ndarray
        Inputs of runs, one after the other; states are kept. With them the products of
        FULLY_CONNECTED lose least, without them the weights do.
    per_channel : bool
        Whether each output channel has a scale.

    Returns
    -------
    bytes
        TFLite file; activations and biases keep their meanings.

    Raises
    ------
    ValueError
        If no layer can have such weights.
    """
    model = unpack(data)
    products = _Products(model)
    if not products.layers:
        raise ValueError(
            "no CONV_2D or FULLY_CONNECTED has int8 weights: quantize the network to int8 first"
        )
    moments = products.moments(data, samples)
    for name in products.layers:
        products.narrow(name, moments.get(name), per_channel=per_channel)
    return pack(model)


class _Products:
    """Products of the first graph of a file."""

    def __init__(self, model: Any) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self._schema, self._model, self._graph = schema, model, model.subgraphs[0]
        codes = schema.BuiltinOperator
        self._dense = codes.FULLY_CONNECTED
        self.layers: dict[str, Any] = {}
        for operator in self._graph.operators:
            code = self._code(operator)
            if code not in (codes.CONV_2D, self._dense):
                continue
            weight, bias = self._constants(operator)
            if weight is not None and (bias is not None or code == self._dense):
                name = self._graph.tensors[operator.outputs[0]].name
                self.layers[name.decode()] = operator

    def _code(self, operator: Any) -> int:
        return self._model.operatorCodes[operator.opcodeIndex].builtinCode

    def _constants(self, operator: Any) -> tuple[Any, Any]:
        """Return weights of int8 and bias of an operator; None if they are not there."""
        types = self._schema.TensorType
        weight = self._graph.tensors[operator.inputs[1]]
        index = operator.inputs[2] if len(operator.inputs) > 2 else -1
        bias = self._graph.tensors[index] if index >= 0 else None
        if weight.type != types.INT8 or self._model.buffers[weight.buffer].data is None:
            return None, None
        if bias is not None and bias.type != types.INT32:
            return None, None  # of int16 layers
        return weight, bias

    def moments(
        self, data: bytes, samples: Iterable[Mapping[str, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        """Return sums of products of inputs of dense layers, as the reference kernels run them."""
        from ai_edge_litert import interpreter as litert

        session = litert.Interpreter(
            model_content=data,
            experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
            experimental_preserve_all_tensors=True,
        )
        session.allocate_tensors()
        places = {each["name"]: each["index"] for each in session.get_input_details()}
        found: dict[str, np.ndarray] = {}
        for sample in samples:
            for name, value in sample.items():
                session.set_tensor(places[name], value)
            session.invoke()
            for name, operator in self.layers.items():
                if self._code(operator) != self._dense:
                    continue
                tensor = self._graph.tensors[operator.inputs[0]]
                columns = self._graph.tensors[operator.inputs[1]].shape[1]
                x = session.get_tensor(int(operator.inputs[0])).reshape(-1, columns)
                real = x.astype(np.float64) - tensor.quantization.zeroPoint[0]
                found[name] = found.get(name, 0) + real.T @ real
        return found

    def narrow(self, name: str, moments: np.ndarray | None, *, per_channel: bool) -> None:
        """Round the weights of a layer; tensors that others read, too, are copied."""
        operator, graph = self.layers[name], self._graph
        weight, bias = (self._own(operator, i) for i in (1, 2))
        found = weight.quantization
        scale = np.asarray(found.scale, np.float64)
        values = self._values(weight, np.int8).reshape(weight.shape[0], -1)
        rows, fine = int4_rows(values * scale.reshape(-1, 1), moments, per_row=per_channel)
        self._set(weight, pack_int4(rows))
        weight.type = self._schema.TensorType.INT4
        kept = fine if per_channel else fine[:1]
        found.scale, found.zeroPoint = kept.tolist(), [0] * len(kept)
        found.quantizedDimension = 0
        if bias is None:
            return
        x = np.float64(graph.tensors[operator.inputs[0]].quantization.scale[0])
        real = self._values(bias, np.int32) * (x * scale)
        self._set(bias, np.rint(real / (x * fine.astype(np.float64))).astype(np.int32))
        bias.quantization.scale = (np.float32(x) * kept).tolist()
        bias.quantization.zeroPoint = [0] * len(kept)

    def _values(self, tensor: Any, dtype: type) -> np.ndarray:
        return np.frombuffer(bytes(bytearray(self._model.buffers[tensor.buffer].data)), dtype)

    def _set(self, tensor: Any, values: np.ndarray) -> None:
        """Give a tensor other bytes, in a buffer of its own."""
        if sum(each.buffer == tensor.buffer for each in self._graph.tensors) > 1:
            tensor.buffer = len(self._model.buffers)
            self._model.buffers.append(self._schema.BufferT())
        self._model.buffers[tensor.buffer].data = np.frombuffer(values.tobytes(), np.uint8)

    def _own(self, operator: Any, position: int) -> Any:
        """Return an operand, a copy if others read it, too; None if there is none."""
        if len(operator.inputs) <= position or operator.inputs[position] < 0:
            return None
        index, tensors = operator.inputs[position], self._graph.tensors
        if sum(list(each.inputs).count(index) for each in self._graph.operators) == 1:
            return tensors[index]
        operator.inputs = [*operator.inputs]
        operator.inputs[position] = len(tensors)
        tensors.append(deepcopy(tensors[index]))
        return tensors[-1]
