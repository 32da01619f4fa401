"""Write a :class:`tpulite.graph.graph.Graph` of TFLite operators as the bytes of a TFLite model."""

from dataclasses import replace
from typing import Any

import numpy as np

from tpulite.frontend.padding import is_cropped, pad_same, whole_windows
from tpulite.frontend.tflite.builder import ModelBuilder, schema
from tpulite.frontend.tflite.codes import CODES
from tpulite.graph.graph import Graph, Node, Quantization, Tensor

_REDUCTIONS = ("mean", "sum", "reduce_max", "reduce_min")
_OPTIONS = {
    "conv": "Conv2DOptions",
    "depthwise": "DepthwiseConv2DOptions",
    "dense": "FullyConnectedOptions",
    "transposed_conv": "TransposeConvOptions",
    "matmul": "BatchMatMulOptions",
    "add": "AddOptions",
    "sub": "SubOptions",
    "mul": "MulOptions",
    "max_pool": "Pool2DOptions",
    "average_pool": "Pool2DOptions",
    **dict.fromkeys(_REDUCTIONS, "ReducerOptions"),
    "concat": "ConcatenationOptions",
    "leaky_relu": "LeakyReluOptions",
    "gelu": "GeluOptions",
    "softmax": "SoftmaxOptions",
    "reshape": "ReshapeOptions",
    "transpose": "TransposeOptions",
    "pick": "GatherOptions",
    "depth_to_space": "DepthToSpaceOptions",
    "space_to_depth": "SpaceToDepthOptions",
}
_WINDOWS = ("conv", "depthwise", "max_pool", "average_pool")
"""Operators that pad; what TFLite does not pad itself, a PAD does."""
_ATTRIBUTES = (("axis",) * 2, ("alpha",) * 2, ("approximate",) * 2, ("block", "blockSize"))
"""Attributes of nodes, and the options of the same meaning."""
_ACTIVATIONS = {"none": 0, "relu": 1, "relu_n1_1": 2, "relu6": 3}


def write_tflite(graph: Graph, *, unsigned_sums: bool = False) -> bytes:
    """Return the file; tensors keep their names.

    Parameters
    ----------
    unsigned_sums : bool
        Whether sums of int8 are sums of uint8 between two QUANTIZE, which change no number:
        LiteRT's reference kernel of SUM reads int8 as uint8.
    """
    writer = _Writer(graph, unsigned_sums)
    for node in graph.nodes:
        writer.add_node(node)
    return writer.model.build(*map(writer.tensor, graph.outputs), name=graph.name)


class _Writer:
    def __init__(self, graph: Graph, unsigned_sums: bool) -> None:
        self.graph, self.model, self.unsigned_sums = graph, ModelBuilder(), unsigned_sums
        self.index: dict[str, int] = {}
        self.model.inputs = [self.tensor(name) for name in graph.inputs]

    def tensor(self, name: str) -> int:
        if name not in self.index:
            self.index[name] = self.add_tensor(self.graph.tensors[name])
        return self.index[name]

    def add_tensor(self, tensor: Tensor, shape=None, data=None, axis: int | None = None) -> int:
        """Add a tensor, perhaps of another shape, value or axis of channels."""
        q = tensor.quantization
        return self.model.tensor(
            tensor.shape if shape is None else shape,
            None if q is None else q.scale,
            0 if q is None else q.zero_point,
            dtype=tensor.dtype,
            axis=axis if axis is not None else (q and q.axis) or 0,
            data=tensor.data if data is None else data,
            name=tensor.name,
        )

    def constant(self, name: str, data) -> int:
        array = np.asarray(data, np.int32)
        return self.add_tensor(Tensor(name, array.shape, "int32", data=array))

    def add_node(self, node: Node) -> None:
        if node.op == "pick":
            self.add_pick(node)
            return
        if node.op == "clip":
            self.add_clip(node)
            return
        if node.op == "transposed_conv" and is_cropped(node, self.graph.tensors.__getitem__):
            self.add_cropped(node)
            return
        if node.op == "sum" and self.unsigned_sums and self._is_int8(node):
            self.add_sum(node)
            return
        outputs = [self.tensor(name) for name in node.outputs]
        inputs = self.inputs(node)
        counted = node.attributes.get("count_include_pad", False) and any(node["padding"])
        if node.op in _WINDOWS and (counted or not self._is_named(node)):
            inputs[0] = self.padded(node)
            node = replace(node, attributes={**node.attributes, "padding": (0, 0, 0, 0)})
        self.model.operator(CODES[node.op], inputs, outputs, **_options(node))

    def add_pick(self, node: Node) -> None:
        """Write a GATHER for each axis that does not stay as it is, and at least one."""
        x = self.graph.tensors[node.inputs[0]]
        shape, source = list(x.shape), self.tensor(x.name)
        moved = [i for i, each in enumerate(node["indices"]) if each != tuple(range(shape[i]))]
        axes = moved or [len(shape) - 1]
        for axis in axes:
            indices = node["indices"][axis]
            shape[axis] = len(indices)
            between = replace(x, name=f"{node.name}.{axis}")
            last = axis == axes[-1]
            y = self.tensor(node.outputs[0]) if last else self.add_tensor(between, shape)
            chosen = self.constant(f"{node.name}.{axis}.indices", indices)
            self.model.operator(CODES["pick"], [source, chosen], [y], **_options(node), axis=axis)
            source = y

    def add_sum(self, node: Node) -> None:
        """Write a sum of int8 as one of uint8, with a QUANTIZE on both sides."""
        ends = (self.graph.tensors[name] for name in (node.inputs[0], node.outputs[0]))
        x, y = (self.add_tensor(_unsigned(end)) for end in ends)
        given, axes = self.inputs(node)
        self.model.operator(CODES["requantize"], [given], [x])
        self.model.operator(CODES["sum"], [x, axes], [y], **_options(node))
        self.model.operator(CODES["requantize"], [y], [self.tensor(node.outputs[0])])

    def add_clip(self, node: Node) -> None:
        """Write MAXIMUM and MINIMUM; input and output have one scale."""
        x, y = self.graph.tensors[node.inputs[0]], self.graph.tensors[node.outputs[0]]
        info, q = np.iinfo(x.dtype), x.quantization
        assert q is not None
        steps = [np.float32(node[end]) / q.scale for end in ("low", "high")]
        bounds = [  # half away from zero, as the bounds of RELU6
            np.clip(np.copysign(np.floor(np.abs(x) + 0.5), x) + q.zero_point, info.min, info.max)
            for x in steps
        ]
        low, high = (
            self.add_tensor(replace(x, name=f"{node.name}.{end}"), (1,), bound.astype(x.dtype))
            for end, bound in zip(("low", "high"), bounds, strict=True)
        )
        above = self.add_tensor(replace(y, name=f"{node.name}.above"))
        for op, inputs, output in (
            ("maximum", (self.tensor(x.name), low), above),
            ("minimum", (above, high), self.tensor(y.name)),
        ):
            self.model.operator(CODES[op], list(inputs), [output])

    def add_cropped(self, node: Node) -> None:
        """Write a transposed convolution of whole windows, and a SLICE of them."""
        y = self.graph.tensors[node.outputs[0]]
        begin = (0, *node["padding"], 0)
        kept = (y.shape[i] + begin[i] for i in (1, 2))
        whole = whole_windows(node, self.graph.tensors.__getitem__)
        shape = (y.shape[0], *map(max, whole, kept), y.shape[3])
        result = self.add_tensor(replace(y, name=f"{node.name}.whole"), shape)
        inputs = self.inputs(node)
        inputs[0] = self.constant(f"{node.name}.shape", shape)
        plain = replace(node, attributes={**node.attributes, "padding": (0, 0)})
        self.model.operator(CODES[node.op], inputs, [result], **_options(plain))
        ends = (("begin", begin), ("size", y.shape))
        moved = [self.constant(f"{node.name}.{role}", value) for role, value in ends]
        self.model.operator("SLICE", [result, *moved], [self.tensor(y.name)])

    def _is_named(self, node: Node) -> bool:
        """Tell whether TFLite has a name for what a window pads: VALID or SAME."""
        top, left, bottom, right = node["padding"]
        if node.op in ("conv", "depthwise"):
            weight = self.graph.tensors[node.inputs[1]].shape
            kernel = weight[1:3] if node.op == "conv" else weight[:2]
        else:
            kernel = node["window"]
        image = self.graph.tensors[node.inputs[0]].shape[1:3]
        dilation = node.attributes.get("dilation", (1, 1))
        same = tuple(map(pad_same, image, kernel, node["stride"], dilation))
        return not any(node["padding"]) or same == ((top, bottom), (left, right))

    def _is_int8(self, node: Node) -> bool:
        return self.graph.tensors[node.inputs[0]].dtype == "int8"

    def no_bias(self, node: Node) -> int:
        """Add a bias of zeros."""
        x, weight = (self.graph.tensors[name].quantization for name in node.inputs[:2])
        assert x is not None and weight is not None
        scale = x.scale * weight.scale
        axis = -1 if node.op == "depthwise" else 0
        zeros = np.zeros(self.graph.tensors[node.inputs[1]].shape[axis], np.int32)
        meaning = Quantization(scale, np.zeros(scale.size, np.int64), 0 if scale.size > 1 else None)
        bias = Tensor(f"{node.name}.bias", zeros.shape, "int32", meaning, zeros)
        return self.add_tensor(bias)

    def padded(self, node: Node) -> int:
        """Write a PAD before a window, of integers that its result does not notice."""
        x = self.graph.tensors[node.inputs[0]]
        assert x.quantization is not None
        if node.op == "average_pool" and not node.attributes.get("count_include_pad"):
            raise ValueError(f"Node {node.name!r}: LiteRT has no pool that pads {node['padding']}")
        largest = node.op == "max_pool"
        value = np.iinfo(x.dtype).min if largest else int(x.quantization.zero_point[0])
        top, left, bottom, right = node["padding"]
        batch, height, width, channels = x.shape
        shape = (batch, height + top + bottom, width + left + right, channels)
        y = self.add_tensor(replace(x, name=f"{node.name}.padded"), shape)
        pad = Node(f"{node.name}.pad", "pad", (x.name,), (), {**node.attributes, "value": value})
        self.model.operator(CODES["pad"], self.inputs(pad), [y], **_options(pad))
        return y

    def inputs(self, node: Node) -> list[int]:
        if node.op == "depthwise":
            # TFLite has a leading 1, so that its channels are axis 3.
            weight = self.graph.tensors[node.inputs[1]]
            kernel = self.add_tensor(weight, (1, *weight.shape), axis=3)
            rest = [self.tensor(name) for name in node.inputs[2:] if name]
            return [self.tensor(node.inputs[0]), kernel, *(rest or [self.no_bias(node)])]
        inputs = [self.tensor(name) for name in node.inputs if name]
        if node.op == "conv" and len(inputs) == 2:
            inputs.append(self.no_bias(node))  # LiteRT's kernels demand one
        if node.op == "transposed_conv":
            shape = self.graph.tensors[node.outputs[0]].shape
            return [self.constant(f"{node.name}.shape", shape), inputs[1], inputs[0], *inputs[2:]]
        if node.op in _REDUCTIONS:
            inputs.append(self.constant(f"{node.name}.axes", node["axes"]))
        elif node.op == "pad":
            top, left, bottom, right = node["padding"]
            pairs = [[0, 0], [top, bottom], [left, right], [0, 0]]
            inputs.append(self.constant(f"{node.name}.padding", pairs))
            like = self.graph.tensors[node.inputs[0]]
            value = np.array([node["value"]], like.dtype)
            pad = Tensor(f"{node.name}.value", (1,), like.dtype, like.quantization, value)
            inputs.append(self.add_tensor(pad))
        elif node.op == "transpose":
            inputs.append(self.constant(f"{node.name}.perm", node["perm"]))
        elif node.op == "reshape":
            inputs.append(self.constant(f"{node.name}.shape", node["shape"]))
        return inputs


def _unsigned(tensor: Tensor) -> Tensor:
    """Return a tensor of uint8 that means what one of int8 does."""
    q = tensor.quantization
    assert q is not None
    meaning = replace(q, zero_point=q.zero_point + 128)
    return replace(tensor, name=f"{tensor.name}/uint8", dtype="uint8", quantization=meaning)


def _options(node: Node) -> dict[str, Any]:
    """Return the options of an operator by the names of the schema, and their type."""
    options: dict[str, Any] = {}
    kind = _OPTIONS.get(node.op, "")
    if node.op in ("conv", "depthwise"):
        options["strideH"], options["strideW"] = node["stride"]
        options["dilationHFactor"], options["dilationWFactor"] = node["dilation"]
        if node.op == "depthwise":
            options["depthMultiplier"] = node["multiplier"]
    elif node.op in ("max_pool", "average_pool"):
        options["strideH"], options["strideW"] = node["stride"]
        options["filterHeight"], options["filterWidth"] = node["window"]
    elif node.op == "transposed_conv":
        options["strideH"], options["strideW"] = node["stride"]
    elif node.op in ("add", "sub"):
        options["potScaleInt16"] = False
    elif node.op in _REDUCTIONS:
        options["keepDims"] = node["keep_dims"]
    elif node.op == "matmul":
        options["adjX"], options["adjY"] = bool(node["adj_x"]), bool(node["adj_y"])
    elif node.op == "softmax":
        options["beta"] = node.attributes.get("beta", 1.0)
        return {"options_type": kind, **options}
    options |= {
        name: node[attribute]
        for attribute, name in _ATTRIBUTES
        if kind and attribute in node.attributes
    }
    if kind and "activation" in node.attributes:
        options["fusedActivationFunction"] = _ACTIVATIONS[node["activation"]]
    if kind and "padding" in node.attributes:
        same = node.attributes.get("same", any(node["padding"]))
        options["padding"] = schema.Padding.SAME if same else schema.Padding.VALID
    return {"options_type": kind, **options} if kind else {}
