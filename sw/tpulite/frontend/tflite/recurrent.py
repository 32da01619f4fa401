"""SVDF and LSTM operators of TFLite files, and the variables that such operators keep.

A tensor that an interpreter keeps and an operator changes becomes two: what the operator finds, and
what it leaves. So it is a state of the graph as any other, whoever runs the operator.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import tflite

from tpulite.frontend.tflite.operation import Inputs, Operation, UnsupportedFormError
from tpulite.frontend.tflite.parse import FileModel, FileTensor
from tpulite.graph.graph import Node, Origin, State, Tensor
from tpulite.graph.passes.rewrite import unique_name

_KEEPERS = frozenset(
    {
        *("SVDF", "RNN", "LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN", "UNIDIRECTIONAL_SEQUENCE_LSTM"),
        *("BIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_LSTM", "CUSTOM"),
    }
)
"""Operators that change the variables among their inputs."""

_TIME, _STATE = 2, 4  # inputs of SVDF

_INPUT, _RECURRENT, _PEEPHOLE, _BIAS = 1, 5, 9, 12  # inputs of an LSTM: the first gate's of each
_PROJECTION, _OUTPUT, _CELL, _NORM = 16, 18, 19, 20
_GATES = 4
_CELL_POWERS = range(-15, -8)
"""Powers of two that LiteRT takes for the scale of a cell state."""
_MOST_STEPS = 128
"""Steps of a sequence that are worth a program each."""


def with_wide_filters(model: FileModel) -> FileModel:
    """Return a file whose SVDF operators have time weights and states of 16 bits, not of 8.

    So LiteRT takes them; what zero point a state has is nothing to it. In the file that LiteRT runs
    :func:`tpulite.frontend.tflite.cut.widen_filters` does the same.
    """
    tensors = list(model.tensors)
    for operator in model.operators:
        if operator.code != "SVDF" or len(operator.inputs) <= _STATE:
            continue
        for number in (operator.inputs[_TIME], operator.inputs[_STATE]):
            if 0 <= number < len(tensors) and tensors[number].type == "INT8":
                tensors[number] = _widened(tensors[number])
    return replace(model, tensors=tuple(tensors))


def _widened(tensor: FileTensor) -> FileTensor:
    data = tensor.data
    wide = None if data is None else data.view(np.int8).astype("<i2").view(np.uint8)
    zero_point = np.zeros_like(tensor.zero_point)
    return replace(tensor, type="INT16", data=wide, zero_point=zero_point)


def kept_variables(model: FileModel) -> frozenset[int]:
    """Return the numbers of the tensors that an operator keeps from run to run."""
    given = {*model.inputs, *(i for operator in model.operators for i in operator.outputs)}
    read = (i for operator in model.operators if operator.code in _KEEPERS for i in operator.inputs)
    return frozenset(
        i
        for i in read
        if i not in given and 0 <= i < len(model.tensors) and model.tensors[i].variable
    )


def keep_variables(
    nodes: list[Node], tensors: dict[str, Tensor], variables: Mapping[str, int]
) -> tuple[list[Node], tuple[State, ...], dict[str, Origin]]:
    """Give operators that change variables the changed ones as outputs, behind the others.

    Parameters
    ----------
    nodes : list of Node
        The operators, which name variables as inputs.
    tensors : dict of str to Tensor
        Tensors by name; new ones are added, states of SVDF are [steps, filters].
    variables : mapping of str to int
        Names of the variables, and their numbers in the file.

    Returns
    -------
    nodes : list of Node
        The operators.
    states : tuple of State
        The variables that any of them changes.
    origins : dict of str to Origin
        What the tensors of the states are in the file.
    """
    current: dict[str, str] = {}
    kept, origins = [], {}
    for node in nodes:
        changed = [name for name in dict.fromkeys(node.inputs) if name in variables]
        before = {name: current.get(name, name) for name in changed}
        inputs = tuple(before.get(name, name) for name in node.inputs)
        for name in changed:
            tensor, origin = tensors[name], Origin(variables[name])
            if node.op == "svdf" and tensor.shape[:1] == (1,) and len(inputs) > _STATE:
                tensor, origin = _by_steps(tensor, tensors[node.inputs[_TIME]].shape, origin)
            current[name] = unique_name(f"{name}/after", tensors)
            tensors[name], after = tensor, replace(tensor, name=current[name])
            tensors[after.name] = after
            origins |= {name: origin, after.name: origin}
        outputs = (*node.outputs, *(current[name] for name in changed))
        kept.append(replace(node, inputs=inputs, outputs=outputs))
    states = (
        State(name, name, after, first_value(tensors[name])) for name, after in current.items()
    )
    return kept, tuple(states), origins


def _by_steps(tensor: Tensor, filters: tuple[int, ...], origin: Origin) -> tuple[Tensor, Origin]:
    """Return a state of SVDF as [steps, filters]; the file has [1, filters * steps]."""
    if math.prod(filters) != math.prod(tensor.shape) or len(filters) != len(tensor.shape):
        return tensor, origin
    moved = Origin(origin.key, tensor.shape, ((filters, (1, 0)),))
    return replace(tensor, shape=filters[::-1]), moved


def first_value(tensor: Tensor) -> np.ndarray:
    """Return what a variable begins as: an int8 as its zero point, all others as 0."""
    q = tensor.quantization
    value = int(q.zero_point[0]) if tensor.dtype == "int8" and q is not None else 0
    return np.full(tensor.shape, value, tensor.dtype)


def convert_svdf(options: Mapping[str, Any], inputs: Inputs, outputs: tuple[Tensor, ...]):
    """Translate SVDF: x, weights of features, weights of time, bias, state."""
    return Operation("svdf", tuple(range(len(inputs))), {"rank": int(options.get("Rank", 1))})


def convert_lstm(
    options: Mapping[str, Any], inputs: Inputs, outputs: tuple[Tensor, ...]
) -> Operation:
    """Translate UNIDIRECTIONAL_SEQUENCE_LSTM with int8 activations and cells of int16.

    Raises
    ------
    UnsupportedFormError
        If it has other types, a projection, a layer normalization or too many steps.
    """
    each = (*inputs, *[None] * (_NORM + _GATES - len(inputs)))
    x, state, cell = each[0], each[_OUTPUT], each[_CELL]
    if x is None or state is None or cell is None:
        raise UnsupportedFormError("an input or a state is missing")
    if (x.dtype, state.dtype, cell.dtype) != ("int8", "int8", "int16"):
        raise UnsupportedFormError(f"its input is {x.dtype} and its cell state {cell.dtype}")
    if each[_PROJECTION] is not None:
        raise UnsupportedFormError("it has a projection")
    if any(tensor is not None for tensor in each[_NORM:]):
        raise UnsupportedFormError("it has a layer normalization")
    if options.get("FusedActivationFunction", 0) != tflite.ActivationFunctionType.TANH:
        raise UnsupportedFormError("its activation is not tanh")
    axis = 0 if options.get("TimeMajor") else 1
    steps, batch = (x.shape[axis], x.shape[1 - axis]) if len(x.shape) == 3 else (0, 0)
    if not 1 <= steps <= _MOST_STEPS:
        raise UnsupportedFormError(f"it has {steps} steps, not 1 to {_MOST_STEPS}")
    if len(cell.shape) != 2 or cell.shape[0] != batch or state.shape != cell.shape:
        raise UnsupportedFormError(f"its states are {list(state.shape)} and {list(cell.shape)}")
    first, cells = 0 if each[_INPUT] is not None else 1, cell.shape[1]
    for begin, shape in ((_INPUT, (cells, x.shape[2])), (_RECURRENT, (cells, cells))):
        _check_constants(each[begin + first : begin + _GATES], "int8", shape)
    _check_constants(each[_BIAS + first : _BIAS + _GATES], "int32", (cells,))
    if each[_PEEPHOLE + 1] is not None:
        _check_constants(each[_PEEPHOLE + first : _BIAS], "int16", (cells,))
    power = _power(cell)
    for tensor in (x, state):
        _require_scale(tensor)
    hidden = options.get("Intermediates", ())[_GATES:]
    scales, points = (hidden[0].scale, hidden[0].zero_point) if hidden else ((), ())
    if len(scales) != 1 or not 0 < scales[0] < math.inf or len(points) != 1:
        raise UnsupportedFormError("it does not say the scale of its hidden state")
    clip = float(options.get("CellClip", 0.0))
    if not 0 <= clip < math.inf or not -128 <= points[0] <= 127:
        raise UnsupportedFormError("its bounds or zero point are no numbers that LiteRT takes")
    attributes = {
        "time_major": bool(options.get("TimeMajor")),
        "cell_power": power,
        "cell_clip": clip,
        "hidden_scale": float(scales[0]),
        "hidden_zero_point": int(points[0]),
    }
    return Operation("integer_lstm", tuple(range(len(inputs))), attributes)


def _check_constants(tensors: Inputs, dtype: str, shape: tuple[int, ...]) -> None:
    for tensor in tensors:
        if tensor is None or tensor.data is None or (tensor.dtype, tensor.shape) != (dtype, shape):
            raise UnsupportedFormError(f"its weights are not constants of {dtype} {list(shape)}")
        if dtype != "int32":
            _require_scale(tensor)


def _require_scale(tensor: Tensor) -> None:
    q = tensor.quantization
    if q is None or not q.sound or len(q.scale) != 1:
        raise UnsupportedFormError(f"tensor {tensor.name!r} needs one scale")


def _power(cell: Tensor) -> int:
    """Return the power of two that is the scale of a cell state."""
    scale = 0.0 if cell.quantization is None else float(cell.quantization.scale[0])
    fraction, exponent = math.frexp(scale)
    if fraction != 0.5 or exponent - 1 not in _CELL_POWERS:
        raise UnsupportedFormError(f"the scale {scale:g} of its cell state is not 2**-15 to 2**-9")
    return exponent - 1
