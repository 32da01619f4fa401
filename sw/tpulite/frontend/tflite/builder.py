"""TFLite files under construction, with LiteRT's object API."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its dependencies are not free of deprecations
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

__all__ = ["ModelBuilder", "schema"]

# Versions of operators that LiteRT has; 2 brought int8 to most, others scales of channels.
_VERSIONS = {
    schema.BuiltinOperator.CONV_2D: 3,
    schema.BuiltinOperator.DEPTHWISE_CONV_2D: 5,
    schema.BuiltinOperator.FULLY_CONNECTED: 5,
    schema.BuiltinOperator.NEG: 1,
    schema.BuiltinOperator.PRELU: 1,
    schema.BuiltinOperator.RELU_0_TO_1: 1,
    schema.BuiltinOperator.RELU_N1_TO_1: 1,
    schema.BuiltinOperator.RSQRT: 1,
    schema.BuiltinOperator.SQRT: 1,
    schema.BuiltinOperator.SQUARED_DIFFERENCE: 1,
    schema.BuiltinOperator.RESHAPE: 1,
    schema.BuiltinOperator.ELU: 1,
    schema.BuiltinOperator.HARD_SWISH: 1,
    schema.BuiltinOperator.PACK: 1,
    schema.BuiltinOperator.DEPTH_TO_SPACE: 1,
    schema.BuiltinOperator.EXPAND_DIMS: 1,
    schema.BuiltinOperator.SQUEEZE: 1,
    schema.BuiltinOperator.SHAPE: 1,
    schema.BuiltinOperator.WHERE: 1,
    schema.BuiltinOperator.SELECT_V2: 1,
    schema.BuiltinOperator.BROADCAST_ARGS: 1,
    schema.BuiltinOperator.CALL_ONCE: 1,
    schema.BuiltinOperator.VAR_HANDLE: 1,
    schema.BuiltinOperator.READ_VARIABLE: 1,
    schema.BuiltinOperator.ASSIGN_VARIABLE: 1,
}


class ModelBuilder:
    """A model under construction; tensors are numbers, operators are added in order.

    Parameters
    ----------
    dtype : str
        Type of activations and of weights: ``int8``, ``uint8`` or ``float32``; scales and zero
        points are left out of float models. Activations may be ``int16``, with weights of int8.
    """

    def __init__(self, dtype: str = "int8") -> None:
        self.dtype = dtype
        self.bias_dtype = np.int64 if dtype == "int16" else np.int32
        self.inputs: list[int] = []
        self.tensors: list[Any] = []
        self._buffers: list[bytes | None] = [None]
        self._codes: list[tuple[int, str]] = []
        self._operators: list[Any] = []
        self._once: Any = None

    def shape(self, tensor: int) -> tuple[int, ...]:
        """Return the extents of a tensor."""
        return tuple(self.tensors[tensor].shape)

    def tensor(
        self,
        shape: Sequence[int],
        scale: ArrayLike | None = None,
        zero_point: ArrayLike = 0,
        *,
        dtype: str | None = None,
        axis: int = 0,
        data: np.ndarray | None = None,
        name: str = "",
    ) -> int:
        """Add a tensor; with ``data`` a constant. Several scales belong to ``axis``."""
        dtype = dtype or self.dtype
        tensor: Any = schema.TensorT()
        tensor.name = (name or f"t{len(self.tensors)}").encode()
        tensor.shape = [int(extent) for extent in shape]
        tensor.type = getattr(schema.TensorType, dtype.upper())
        tensor.buffer = 0
        if scale is not None and dtype != "float32":
            quantization = schema.QuantizationParametersT()
            scales = np.atleast_1d(np.asarray(scale, np.float32))
            zero_points = np.broadcast_to(np.asarray(zero_point, np.int64), scales.shape)
            quantization.scale, quantization.zeroPoint = scales.tolist(), zero_points.tolist()
            quantization.quantizedDimension = axis
            tensor.quantization = quantization
        if data is not None:
            tensor.buffer = len(self._buffers)
            data = np.ascontiguousarray(data)
            self._buffers.append(data.astype(data.dtype.newbyteorder("<")).tobytes())
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def rename(self, tensor: int, name: str) -> int:
        """Give a tensor a name; return it."""
        self.tensors[tensor].name = name.encode()
        return tensor

    def input(self, shape: Sequence[int], scale: float | None = None, zero_point: int = 0) -> int:
        """Add an input of the model."""
        self.inputs.append(self.tensor(shape, scale, zero_point))
        return self.inputs[-1]

    def constant(
        self,
        data: np.ndarray,
        scale: ArrayLike | None = None,
        zero_point: ArrayLike = 0,
        *,
        axis: int = 0,
    ) -> int:
        """Add a constant of the type of ``data``."""
        return self.tensor(
            data.shape, scale, zero_point, dtype=data.dtype.name, axis=axis, data=data
        )

    def operator(
        self, code: str, inputs: Sequence[int], outputs: Sequence[int], **options: Any
    ) -> int:
        """Add any operator, with its options as the schema names them; return its first output.

        -1 if it has none.

        The class of the options is told by the keyword ``options_type``; a custom operator is
        ``CUSTOM:name``. Tensors that only say scales are ``intermediates``.
        """
        builtin, _, custom = code.partition(":")
        key = (getattr(schema.BuiltinOperator, builtin), custom)
        if key not in self._codes:
            self._codes.append(key)
        operator = schema.OperatorT()
        operator.opcodeIndex = self._codes.index(key)
        operator.inputs, operator.outputs = list(inputs), list(outputs)
        operator.intermediates = options.pop("intermediates", None)
        if name := options.pop("options_type", None):
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, name)
            operator.builtinOptions = getattr(schema, f"{name}T")()
            for option, value in options.items():
                assert hasattr(operator.builtinOptions, option), option
                setattr(operator.builtinOptions, option, value)
        self._operators.append(operator)
        return outputs[0] if outputs else -1

    def variable(self, name: str, initial: int | None = None) -> int:
        """Add a handle of a variable; with ``initial``, a tensor, CALL_ONCE assigns that first.

        A variable with a first value is to be added before all operators.
        """
        if initial is not None:
            self._assign_once(name, self.tensors[initial])
        handle = self.tensor((), dtype="RESOURCE", name=f"{name}/handle{len(self.tensors)}")
        options = {"options_type": "VarHandleOptions", "sharedName": name.encode()}
        return self.operator("VAR_HANDLE", [], [handle], **options)

    def read(self, handle: int, like: int) -> int:
        """Add READ_VARIABLE of a variable that has shape and scale of a tensor."""
        y = self.like(like, self.shape(like))
        return self.operator("READ_VARIABLE", [handle], [y], options_type="ReadVariableOptions")

    def assign(self, handle: int, value: int) -> None:
        """Add ASSIGN_VARIABLE."""
        options = {"options_type": "AssignVariableOptions"}
        self.operator("ASSIGN_VARIABLE", [handle, value], [], **options)

    def like(self, x: int, shape: Sequence[int], data: np.ndarray | None = None) -> int:
        """Add a tensor of the type and quantization of another."""
        y = self.tensor(shape, data=data)
        self.tensors[y].type = self.tensors[x].type
        self.tensors[y].quantization = self.tensors[x].quantization
        return y

    def build(self, *outputs: int, name: str = "") -> bytes:
        """Return the file, whose outputs are the given tensors; ``name`` is that of the network."""
        graph = self._subgraph(outputs, name)
        model = schema.ModelT()
        model.description = graph.name
        model.version = 3
        model.subgraphs, model.operatorCodes, model.buffers = [graph], [], []
        if self._once is not None:
            model.subgraphs.append(self._once._subgraph((), "once"))
        for builtin, custom in self._codes:
            code = schema.OperatorCodeT()
            code.builtinCode, code.deprecatedBuiltinCode = builtin, min(builtin, 127)
            code.version = _VERSIONS.get(builtin, 2)
            code.customCode = custom or None
            model.operatorCodes.append(code)
        for data in self._buffers:
            buffer: Any = schema.BufferT()
            buffer.data = None if data is None else np.frombuffer(data, np.uint8)
            model.buffers.append(buffer)
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def _assign_once(self, name: str, value: Any) -> None:
        """Assign a constant in the subgraph that CALL_ONCE runs."""
        if self._once is None:
            assert not self._operators, "CALL_ONCE is the first operator"
            self._once = ModelBuilder(self.dtype)
            self._once._codes, self._once._buffers = self._codes, self._buffers
            options = {"options_type": "CallOnceOptions", "initSubgraphIndex": 1}
            self.operator("CALL_ONCE", [], [], **options)
        self._once.tensors.append(value)
        number = len(self._once.tensors) - 1
        self._once.assign(self._once.variable(name), number)

    def _subgraph(self, outputs: Sequence[int], name: str) -> Any:
        graph: Any = schema.SubGraphT()
        graph.tensors, graph.operators = self.tensors, self._operators
        graph.inputs, graph.outputs = self.inputs, list(outputs)
        graph.name = name.encode() or None
        return graph
