"""Quantized networks as their files describe them: operators, tensors and scales."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np

_TOP_BIT = np.uint8(128)


@dataclass(frozen=True, eq=False)
class Quantization:
    """real = scale * (integer - zero_point)."""

    #: Ndarray of float32, [1] or [channels]. Scales; of one that is not :attr:`sound` libraries
    #: alone know what it means.
    scale: np.ndarray
    #: Ndarray of int64, like scale. Zero points, in the range of the tensor's dtype.
    zero_point: np.ndarray
    axis: int | None = None  #: Axis of the channels, if there are scales of channels.

    @property
    def sound(self) -> bool:
        """Whether all scales are finite and positive."""
        return bool(np.all(np.isfinite(self.scale) & (self.scale > 0)))

    def along(self, rank: int) -> tuple[np.ndarray, np.ndarray]:
        """Return scales and zero points that broadcast with a tensor of so many axes."""
        shape = [-1 if i == self.axis else 1 for i in range(rank)]
        return self.scale.reshape(shape), self.zero_point.reshape(shape)

    def real(self, integers: np.ndarray) -> np.ndarray:
        """Return what integers mean, in float64: exact, if they are of 8 bits."""
        scale, zero_point = self.along(integers.ndim)
        return (integers.astype(np.int64) - zero_point) * scale.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor of a graph."""

    name: str  #: Name, unique in its graph.
    #: Extents; activations are [batch, height, width, channels], whatever the file's order.
    shape: tuple[int, ...]
    dtype: str  #: Name of a numpy dtype.
    quantization: Quantization | None = None  #: What its integers mean.
    data: np.ndarray | None = None  #: Value of a constant.

    def fits(self, value: np.ndarray) -> bool:
        """Tell whether a value has as many elements as the shape says, which may be a guess."""
        return self.dtype != "object" and value.size == math.prod(self.shape)


@dataclass(frozen=True, eq=False)
class Node:
    """An operator.

    Operators and attributes are the same for all file formats. Pairs are (y, x), padding is (top,
    left, bottom, right), ``activation`` is none, relu, relu6 or relu_n1_1:

    - conv, depthwise, dense: packed (whether the file has weights of 4 bits; False without it)
    - conv: x, weight [O, kh, kw, I / group], bias [O]?; stride, dilation, padding, activation,
      group (1 without it)
    - depthwise: x, weight [kh, kw, C * multiplier], bias?; stride, dilation, padding, multiplier,
      activation
    - transposed_conv: x, weight [O, kh, kw, I], bias [O]?; stride, padding (top, left),
      same (bool: whether a TFLite file calls it so, as its library asks for that), activation,
      said_by (name of the tensor that says its shape to the library, if that is no constant)?
    - dense: x, weight [O, K], bias?; activation (x is flattened to [batch, K]), image (C, H, W, if
      K runs over a feature map in this order in the file, and here as all activations do)?, raw
      (bool: its result is the int32 sums)?, unshifted (bool: these are of x as it is, without its
      zero point)?
    - add, sub, mul: a, b; activation
    - maximum, minimum, squared_difference: a, b
    - prelu: x, slope
    - max_pool, average_pool: x; window, stride, padding, activation, and for average_pool
      count_include_pad (bool)
    - mean, sum, reduce_max, reduce_min: x; axes, keep_dims
    - pad: x; padding (of height and width), value (an integer of the tensor's dtype)
    - concat: x...; axis, activation
    - reshape: x; shape
    - relu, relu6, relu_n1_1, sigmoid, tanh, leaky_relu (alpha), elu (alpha), clip (low, high), and
      the other functions of one number that :mod:`tpulite.graph.verify` lists
    - expression: x; steps (operators of floats, each with the numbers of the steps that it takes)
    - table: x; table (256 integers of its result, that of the least byte first)
    - requantize: x (from one quantization to another)
    - quantize, dequantize: x (from and to float)
    - batch_norm: x, gamma, beta, mean, variance; epsilon
    - transpose: x; perm
    - pick: x; indices (positions of each axis)
    - depth_to_space, space_to_depth: x; block
    - resize_bilinear, resize_nearest: x, size; align_corners, half_pixel_centers
    - space_to_batch, batch_to_space: x, block, amounts (padding, crops), as in TFLite
    - slice, strided_slice, split, split_v, unpack, reverse, mirror_pad, tile, gather_nd: as in
      TFLite
    - broadcast_to: x, shape
    - svdf: x, weights of features [F, K], weights of time [F, steps], bias?, window [steps, F]; the
      window behind the frame is the second output; rank
    - lstm: inputs of TFLite; output and cell state behind it are outputs, too; time_major,
      cell_power, cell_clip, hidden_scale, hidden_zero_point
    - lstm_gates: sums of the input of all steps, sums of the output before, a bias of each; step,
      time_major, input_scales and recurrent_scales (of the sums of each gate)
    - lstm_cell: gates, cell state, peepholes?; cell_power, cell_clip, peephole_scales?
    - lstm_output: gates, cell state behind the step, peepholes?; cell_power, hidden_scale,
      hidden_zero_point, peephole_scales?
    - stack: x...; axis (a new one)
    - unsupported: a form of a known operator that has no attributes here; reason, and for a linear
      interpolation places (of each axis the positions between elements)
    - softmax, argmax and everything else: the host's
    """

    name: str  #: Name, unique in its graph; error messages and reports show it.
    op: str  #: Operator.
    #: Names of tensors; an optional input that is missing is an empty string.
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    #: Plain values: numbers, strings, tuples of them.
    attributes: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""  #: What the file calls the operator, for example ``CONV_2D``.

    def __getitem__(self, name: str) -> Any:
        return self.attributes[name]


@dataclass(frozen=True)
class Origin:
    """What a tensor is in the file, and how its elements move from there."""

    key: int | str  #: Its number or name in the file.
    shape: tuple[int, ...] | None = None  #: Its shape in the file; None if it is that of the tensor
    #: What makes the tensor of the file's, in order: each gives it a shape and then permutes its
    #: axes, so that axis i becomes axis ``perm[i]``. In the end it gets the tensor's shape.
    moves: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()
    unsigned: bool = False  #: Whether the file has uint8, 128 more, where the tensor is int8.

    def dtype(self, tensor: Tensor) -> str:
        """Return the dtype that the file has for a tensor of the graph."""
        return "uint8" if self.unsigned else tensor.dtype

    def from_file(self, value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Return the tensor, whose shape is given, that the file's value stands for."""
        if self.unsigned:
            value = (value ^ _TOP_BIT).view(np.int8)
        for before, perm in self.moves:
            value = value.reshape(before).transpose(perm)
        return value.reshape(shape)

    def taken(self, value: np.ndarray, tensor: Tensor) -> np.ndarray:
        """Return a library's value as the graph has it; of shapes unknown before, as it is."""
        return self.from_file(value, tensor.shape) if tensor.fits(value) else value

    def to_file(self, value: np.ndarray) -> np.ndarray:
        """Return the file's value that a tensor stands for."""
        for before, perm in reversed(self.moves):
            after = [before[axis] for axis in perm]
            value = value.reshape(after).transpose(np.argsort(perm))
        if self.unsigned:
            value = np.ascontiguousarray(value).view(np.uint8) ^ _TOP_BIT
        return value if self.shape is None else value.reshape(self.shape)


@dataclass(frozen=True, eq=False)
class Source:
    """The file of a graph, of which libraries run parts."""

    data: bytes  #: The file.
    #: Tensors of the graph that are tensors of the file, with the same elements.
    origins: Mapping[str, Origin]
    #: Name and version of the library that has optimized the file; empty if none has.
    library: str = ""
    #: The file as it was before its shapes were settled; empty if that has changed nothing.
    untouched: bytes = b""
    #: Name of the numerics that the file says its integers have; empty if it says nothing.
    numerics: str = ""
    #: ``qonnx`` if its quantizers were those of QONNX, which ``data`` has in ONNX's own operators.
    dialect: str = ""


@dataclass(frozen=True, eq=False)
class State:
    """A value that a network keeps from run to run."""

    name: str  #: Name, unique among the states of a graph.
    #: Tensors that hold the value before and after a run. The bytes of one are the bytes of the
    #: other in the next run, whatever their scales.
    input: str
    output: str
    initial: np.ndarray  #: Value before the first run, in shape and dtype of both.


@dataclass(frozen=True, eq=False)
class Graph:
    """A network: nodes in an order in which they can run.

    ValueError if a name is unknown or not unique, a node comes before what it needs, the two
    tensors of a state and its first value differ in shape or dtype, or there cannot be so many
    classes.
    """

    name: str  #: Name of the network.
    #: Operators; each input is a constant, an input of the graph or an earlier node's output.
    nodes: tuple[Node, ...]
    tensors: Mapping[str, Tensor]  #: All tensors by name.
    #: Names of the tensors that the user gives and gets.
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    format: str  #: ``tflite`` or ``onnx``.
    #: The file, if there is one; tensors with the same name keep their value in all passes.
    source: Source | None = None
    states: tuple[State, ...] = ()  #: What the network keeps from run to run.
    #: How many values of the only output are classes, the first ones; all of them by default. The
    #: answer is the class with the largest value, of equal ones the first.
    classes: int | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """Tensors that a run begins with: inputs, and states before it."""
        return (*self.inputs, *(state.input for state in self.states))

    @property
    def wanted(self) -> tuple[str, ...]:
        """Tensors that a run must compute: outputs, and states after it."""
        return (*self.outputs, *(state.output for state in self.states))

    def __post_init__(self) -> None:
        known = {name for name, tensor in self.tensors.items() if tensor.data is not None}
        known |= set(self.given)
        names: set[str] = set()
        for node in self.nodes:
            if node.name in names:
                raise ValueError(f"Node {node.name!r}: name must be unique in {self.name!r}")
            names.add(node.name)
            for name in node.inputs:
                if name and name not in known:
                    raise ValueError(f"Node {node.name!r} needs {name!r}, which nothing computes")
            for name in node.outputs:
                if name not in self.tensors:
                    raise ValueError(f"Node {node.name!r} computes the unknown tensor {name!r}")
                if name in known:
                    raise ValueError(f"Tensor {name!r} is computed twice")
                known.add(name)
        for name in self.wanted:
            if name not in known:
                raise ValueError(f"Nothing computes the output {name!r}")
        if len({state.name for state in self.states}) < len(self.states):
            raise ValueError(f"States of {self.name!r} must have names of their own")
        for state in self.states:
            _check_state(state, self.tensors)
        if self.classes is not None:
            _check_classes(self.classes, [self.tensors[name].shape for name in self.outputs])

    def dump(self) -> str:
        """Return a line of text for the graph and each node."""
        lines = [f"graph {self.name} ({self.format})"]
        for node in self.nodes:
            shapes = ", ".join(
                f"{name} {self.tensors[name].dtype}{list(self.tensors[name].shape)}"
                for name in node.outputs
            )
            attributes = " ".join(f"{key}={value}" for key, value in node.attributes.items())
            lines.append(
                f"  {node.op} {node.name}: {', '.join(node.inputs)} -> {shapes} {attributes}"
            )
        return "\n".join(lines)


def _check_state(state: State, tensors: Mapping[str, Tensor]) -> None:
    """Check that a state has one shape and dtype: in the first run, before and after each."""
    before, after = tensors[state.input], tensors[state.output]
    kind = state.initial.dtype.name, state.initial.shape
    for tensor in (before, after):
        if (tensor.dtype, tensor.shape) != kind:
            raise ValueError(
                f"State {state.name!r}: {tensor.name!r} is {tensor.dtype} {list(tensor.shape)}, "
                f"its first value {kind[0]} {list(kind[1])}"
            )


def _check_classes(classes: int, shapes: list[tuple[int, ...]]) -> None:
    """Check that the only output has so many values."""
    if len(shapes) != 1:
        raise ValueError(f"classes are values of the only output, and there are {len(shapes)}")
    values = math.prod(shapes[0])
    if not isinstance(classes, Integral) or not 1 <= classes <= values:
        raise ValueError(
            f"classes must be from 1 to {values}, the values of the output, not {classes!r}"
        )
