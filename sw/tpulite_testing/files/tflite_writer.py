"""Write a :class:`tpulite.graph.graph.Graph` of TFLite operators as the bytes of a TFLite model."""

import warnings

import numpy as np

from tpulite.graph.graph import Graph, Node, Tensor

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its dependencies are not free of deprecations
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

__all__ = ["write_tflite"]

_TYPES = {
    "int8": schema.TensorType.INT8,
    "uint8": schema.TensorType.UINT8,
    "int32": schema.TensorType.INT32,
    "float32": schema.TensorType.FLOAT32,
}
_ACTIVATIONS = {"none": 0, "relu": 1, "relu_n1_1": 2, "relu6": 3}
_CODES = {
    "conv": "CONV_2D",
    "depthwise": "DEPTHWISE_CONV_2D",
    "dense": "FULLY_CONNECTED",
    "add": "ADD",
    "sub": "SUB",
    "mul": "MUL",
    "max_pool": "MAX_POOL_2D",
    "average_pool": "AVERAGE_POOL_2D",
    "mean": "MEAN",
    "pad": "PADV2",
    "concat": "CONCATENATION",
    "reshape": "RESHAPE",
    "relu": "RELU",
    "relu6": "RELU6",
    "relu_n1_1": "RELU_N1_TO_1",
    "sigmoid": "LOGISTIC",
    "tanh": "TANH",
    "hard_swish": "HARD_SWISH",
    "leaky_relu": "LEAKY_RELU",
    "elu": "ELU",
    "gelu": "GELU",
    "requantize": "QUANTIZE",
    "softmax": "SOFTMAX",
}

# The first versions that take int8 and uint8 with scales of channels.
_VERSIONS = {"conv": 3, "depthwise": 3, "dense": 5, "gelu": 2} | dict.fromkeys(
    (
        "add",
        "sub",
        "mul",
        "max_pool",
        "average_pool",
        "mean",
        "pad",
        "concat",
        "relu",
        "relu6",
        "sigmoid",
        "tanh",
        "leaky_relu",
        "requantize",
        "softmax",
    ),
    2,
)


def write_tflite(graph: Graph) -> bytes:
    """Return the model: tensors keep their names, an operator's version is the newest known."""
    writer = _Writer(graph)
    for node in graph.nodes:
        writer.add_node(node)
    return writer.finish()


class _Writer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.index: dict[str, int] = {}
        self.tensors, self.operators, self.codes = [], [], []
        self.buffers = [_buffer(None)]
        for name in graph.inputs:
            self.tensor(name)

    def tensor(self, name: str) -> int:
        if name not in self.index:
            value = self.graph.tensors[name]
            self.index[name] = self.add_tensor(value, value.shape, value.data)
        return self.index[name]

    def add_tensor(self, tensor: Tensor, shape, data, axis: int | None = None) -> int:
        t = schema.TensorT()
        t.name, t.shape, t.type = tensor.name, list(shape), _TYPES[tensor.dtype]
        if data is not None:
            t.buffer = len(self.buffers)
            self.buffers.append(_buffer(data))
        if (q := tensor.quantization) is not None:
            t.quantization = schema.QuantizationParametersT()
            t.quantization.scale = q.scale.tolist()
            t.quantization.zeroPoint = q.zero_point.tolist()
            t.quantization.quantizedDimension = (q.axis or 0) if axis is None else axis
        self.tensors.append(t)
        return len(self.tensors) - 1

    def constant(self, name: str, data) -> int:
        array = np.asarray(data)
        return self.add_tensor(Tensor(name, array.shape, str(array.dtype)), array.shape, array)

    def add_node(self, node: Node) -> None:
        operator = schema.OperatorT()
        operator.opcodeIndex = len(self.codes)
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, _CODES[node.op])
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.version = _VERSIONS.get(node.op, 1)
        self.codes.append(code)
        operator.inputs = self.inputs(node)
        operator.outputs = [self.tensor(name) for name in node.outputs]
        kind, options = _options(node)
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, kind) if kind else 0
        operator.builtinOptions = options
        self.operators.append(operator)

    def inputs(self, node: Node) -> list[int]:
        if node.op == "depthwise":
            # TFLite has a leading 1, so that its channels are axis 3.
            weight = self.graph.tensors[node.inputs[1]]
            kernel = self.add_tensor(weight, (1, *weight.shape), weight.data, axis=3)
            rest = [self.tensor(name) for name in node.inputs[2:] if name]
            return [self.tensor(node.inputs[0]), kernel, *rest]
        inputs = [self.tensor(name) for name in node.inputs if name]
        if node.op == "mean":
            inputs.append(self.constant(f"{node.name}.axes", np.array(node["axes"], np.int32)))
        elif node.op == "pad":
            top, left, bottom, right = node["padding"]
            pairs = np.array([[0, 0], [top, bottom], [left, right], [0, 0]], np.int32)
            inputs.append(self.constant(f"{node.name}.padding", pairs))
            like = self.graph.tensors[node.inputs[0]]
            value = np.array([node["value"]], like.dtype)
            pad = Tensor(f"{node.name}.value", (1,), like.dtype, like.quantization)
            inputs.append(self.add_tensor(pad, (1,), value))
        elif node.op == "reshape":
            inputs.append(self.constant(f"{node.name}.shape", np.array(node["shape"], np.int32)))
        return inputs

    def finish(self) -> bytes:
        subgraph = schema.SubGraphT()
        subgraph.tensors, subgraph.operators = self.tensors, self.operators
        subgraph.inputs = [self.tensor(name) for name in self.graph.inputs]
        subgraph.outputs = [self.tensor(name) for name in self.graph.outputs]
        model = schema.ModelT()
        model.version = 3
        model.operatorCodes, model.subgraphs, model.buffers = self.codes, [subgraph], self.buffers
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def _options(node: Node):
    attributes = node.attributes
    if node.op in ("conv", "depthwise"):
        conv = node.op == "conv"
        o = schema.Conv2DOptionsT() if conv else schema.DepthwiseConv2DOptionsT()
        o.strideH, o.strideW = node["stride"]
        o.dilationHFactor, o.dilationWFactor = node["dilation"]
        if not conv:
            o.depthMultiplier = node["multiplier"]
    elif node.op in ("max_pool", "average_pool"):
        o = schema.Pool2DOptionsT()
        o.strideH, o.strideW = node["stride"]
        o.filterHeight, o.filterWidth = node["window"]
    elif node.op == "dense":
        o = schema.FullyConnectedOptionsT()
    elif node.op in ("add", "sub", "mul"):
        o = getattr(schema, f"{node.op.capitalize()}OptionsT")()
        if node.op != "mul":
            o.potScaleInt16 = False
    elif node.op == "mean":
        o = schema.ReducerOptionsT()
        o.keepDims = node["keep_dims"]
    elif node.op == "concat":
        o = schema.ConcatenationOptionsT()
        o.axis = node["axis"]
    elif node.op == "leaky_relu":
        o = schema.LeakyReluOptionsT()
        o.alpha = node["alpha"]
    elif node.op == "softmax":
        o = schema.SoftmaxOptionsT()
        o.beta = 1.0
    elif node.op == "gelu":
        o = schema.GeluOptionsT()
        o.approximate = node["approximate"]
    else:
        return None, None
    if "activation" in attributes:
        o.fusedActivationFunction = _ACTIVATIONS[node["activation"]]
    if "padding" in attributes:
        # Paddings of cases are those of SAME and VALID; nothing to pad is the same in both.
        o.padding = schema.Padding.SAME if any(node["padding"]) else schema.Padding.VALID
    return type(o).__name__.removesuffix("T"), o


def _buffer(data):
    buffer = schema.BufferT()
    buffer.data = None if data is None else np.frombuffer(data.tobytes(), dtype=np.uint8)
    return buffer
