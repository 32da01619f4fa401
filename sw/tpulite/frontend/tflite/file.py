"""Import of TFLite files."""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tpulite.frontend.given_shapes import AS_IN_FILE, GivenShapes
from tpulite.frontend.tflite.bodies import is_loop
from tpulite.frontend.tflite.operators import convert_operator
from tpulite.frontend.tflite.parse import FileModel, FileOperator, FileTensor, parse_tflite
from tpulite.frontend.tflite.recurrent import (
    first_value,
    keep_variables,
    kept_variables,
    with_wide_filters,
)
from tpulite.frontend.tflite.settle import UnsettledError, settle_shapes
from tpulite.frontend.tflite.variables import (
    VARIABLE_OPERATORS,
    FileState,
    Variables,
    resolve_variables,
)
from tpulite.graph.graph import Graph, Node, Origin, Quantization, Source, State, Tensor
from tpulite.graph.passes.rewrite import same_meaning, unique_name
from tpulite.graph.verify import verify

_MISSING = -1  # an optional input that is not there


def load_tflite(data: bytes, name: str = "network", given: GivenShapes = AS_IN_FILE) -> Graph:
    """Read the first subgraph of a TFLite file.

    Nodes are named after their operator and its number in the file (``conv_2d_0``), tensors as in
    the file; a name that two of them have gets a number. Tensors that no operator names are left
    out. Operators on variables are no nodes: variables are states of the graph, and so is what an
    operator keeps for itself.

    Parameters
    ----------
    data : bytes
        The file. Constants of the graph are views of it.
    name : str
        Name of the network.
    given : GivenShapes
        Shapes of inputs, where they are not the file's.

    Returns
    -------
    Graph
        The network, verified; operators that graphs do not know are nodes without attributes.

    Raises
    ------
    ValueError
        If the file is no TFLite file, is corrupt, or has shapes or scales that cannot be; the
        message names the tensor or the operator.
    """
    untouched, model = data, parse_tflite(data)
    unsettled = None
    try:
        data = settle_shapes(untouched, model, given)
    except UnsettledError as error:
        unsettled = error
    if data is not untouched:
        model = parse_tflite(data)
    model = with_wide_filters(model)
    variables = resolve_variables(data, model)
    tensors = _read_tensors(model, variables)
    origins = {tensor.name: Origin(i) for i, tensor in tensors.items()}
    tensors |= _aliases(variables.aliases, tensors)
    nodes = []
    for i, operator in enumerate(model.operators):
        if operator.code in VARIABLE_OPERATORS:
            continue
        label = f"{operator.code.lower()}_{i}"
        try:
            node = _node(label, operator, tensors, model)
        except ValueError as error:
            raise ValueError(f"node {label!r}: {error}") from error
        if unsettled is None and _is_guessed(node, operator, tensors, model):
            reason = {"reason": "only the run knows its shape"}
            node = dataclasses.replace(node, op="unsupported", attributes=reason)
        nodes.append(node)
    by_name = {tensor.name: tensor for tensor in tensors.values()}
    nodes = _drop_first_axes(nodes, by_name)
    own = {tensors[i].name: i for i in kept_variables(model)}
    nodes, kept, moved = keep_variables(nodes, by_name, own)
    origins |= moved
    used = {name for node in nodes for name in (*node.inputs, *node.outputs)}
    inputs, outputs = (
        tuple(tensors[i].name for i in side) for side in (model.inputs, model.outputs)
    )
    states = (*_states(variables.states, tensors), *kept)
    used.update(inputs, outputs, *((state.input, state.output) for state in states))
    by_name = {name: tensor for name, tensor in by_name.items() if name in used}
    source = Source(
        data,
        {name: origin for name, origin in origins.items() if name in by_name},
        untouched=b"" if data is untouched else untouched,
    )
    graph = Graph(name, tuple(nodes), by_name, inputs, outputs, "tflite", source, states)
    try:
        verify(graph)
    except ValueError:
        if unsettled is None:
            raise
        raise ValueError(f"LiteRT does not run this file: {unsettled}") from unsettled
    return graph


def _states(states: Sequence[FileState], tensors: Mapping[int, Tensor]) -> tuple[State, ...]:
    made: dict[str, State] = {}
    for state in states:
        before, after = tensors[state.input].name, tensors[state.output].name
        name = unique_name(state.name or before, made)
        value = read_tensor(state.initial, name).data
        assert value is not None
        made[name] = State(name, before, after, value)
    return tuple(made.values())


def _aliases(aliases: Mapping[int, int], tensors: Mapping[int, Tensor]) -> dict[int, Tensor]:
    """Return for each read of a variable that was written before what was written."""
    for read, written in aliases.items():
        if not same_meaning(tensors[read], tensors[written]):
            names = tensors[read].name, tensors[written].name
            raise ValueError(
                f"tensor {names[0]!r} reads a variable with another type than {names[1]!r}"
            )
    return {read: tensors[written] for read, written in aliases.items()}


def _read_tensors(model: FileModel, variables: Variables) -> dict[int, Tensor]:
    """Return the tensors that operators, inputs and outputs name, by number."""
    users: dict[str, Sequence[int]] = {"the inputs": model.inputs, "the outputs": model.outputs}
    for i, operator in enumerate(model.operators):
        label = f"node '{operator.code.lower()}_{i}'"
        users[f"the inputs of {label}"] = [j for j in operator.inputs if j != _MISSING]
        users[f"the outputs of {label}"] = operator.outputs
    for what, numbers in users.items():
        for number in numbers:
            if not 0 <= number < len(model.tensors):
                raise ValueError(f"{what} name tensor {number} of {len(model.tensors)}")
    tensors, names = {}, set()
    given = {*model.inputs, *(state.input for state in variables.states)}
    kept = kept_variables(model)
    given |= kept
    made = given.union(*(operator.outputs for operator in model.operators))
    for number in sorted(set(itertools.chain.from_iterable(users.values()))):
        file = model.tensors[number]
        if number not in made and file.data is None and 0 in file.shape:
            file = dataclasses.replace(file, data=np.zeros(0, np.uint8))  # an empty constant
        name = file.name or f"tensor_{number}"
        while name in names:
            name = f"{name}:{number}"
        names.add(name)
        tensors[number] = read_tensor(file, name, given=number in given)
        if file.variable and number not in made:  # nobody changes it
            tensors[number] = dataclasses.replace(
                tensors[number], data=first_value(tensors[number])
            )
    return tensors


def _node(label: str, file: FileOperator, tensors: dict[int, Tensor], model: FileModel) -> Node:
    inputs = tuple(None if i == _MISSING else tensors[i] for i in file.inputs)
    outputs = tuple(tensors[i] for i in file.outputs)
    if file.intermediates:
        said = tuple(model.tensors[i] for i in file.intermediates if 0 <= i < len(model.tensors))
        file = dataclasses.replace(file, options={**file.options, "Intermediates": said})
    operation = convert_operator(file, inputs, outputs)
    chosen = [inputs[i] for i in operation.inputs]
    attributes = dict(operation.attributes)
    if any(i != _MISSING and model.tensors[i].type == "INT4" for i in file.inputs):
        attributes["packed"] = True
    if file.macs is not None:
        attributes |= {"macs": file.macs} | ({"open_loop": 1} if is_loop(file.code) else {})
    return Node(
        label,
        operation.op,
        tuple(tensor.name if tensor else "" for tensor in chosen),
        tuple(tensor.name for tensor in outputs),
        attributes,
        f"{file.code} {file.custom}".strip(),
    )


def _is_guessed(
    node: Node, file: FileOperator, tensors: Mapping[int, Tensor], model: FileModel
) -> bool:
    """Tell whether a RESHAPE has another count of elements, as a first extent is not known."""
    if node.op != "reshape":
        return False
    ends = file.inputs[0], file.outputs[0]
    before, after = (math.prod(tensors[i].shape) for i in ends)
    return before != after and any(min(model.tensors[i].signature, default=0) < 0 for i in ends)


def _drop_first_axes(nodes: list[Node], tensors: dict[str, Tensor]) -> list[Node]:
    """Give depthwise nodes weights [y, x, channels] instead of the file's [1, y, x, channels]."""
    dropped: dict[str, str] = {}
    result = []
    for node in nodes:
        if node.op == "depthwise":
            x, weight, *bias = node.inputs
            if weight not in dropped:
                dropped[weight] = _add_without_first_axis(tensors, weight)
            node = dataclasses.replace(node, inputs=(x, dropped[weight], *bias))
        result.append(node)
    return result


def _add_without_first_axis(tensors: dict[str, Tensor], name: str) -> str:
    tensor = tensors[name]
    assert tensor.data is not None
    quantization = tensor.quantization
    if quantization is not None and quantization.axis is not None:
        quantization = dataclasses.replace(quantization, axis=quantization.axis - 1)
    while name in tensors:
        name += "[0]"
    shape = tensor.shape[1:]
    tensors[name] = Tensor(name, shape, tensor.dtype, quantization, tensor.data.reshape(shape))
    return name


_MAX_ELEMENTS = (1 << 31) - 1

# Types that numpy has, too, by the same name; tensors of other types are objects without a value.
_NUMPY = frozenset(
    {
        *("float16", "float32", "float64", "complex64", "complex128", "bool"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    }
)
_ACTIVATIONS = ("int8", "uint8", "int16")


def read_tensor(file: FileTensor, name: str, *, given: bool = True) -> Tensor:
    """Check a tensor of a file and give it a name.

    Constants are views of the file; a variable that an interpreter keeps is none. A quantization
    that nobody needs (int32 has those of biases, which follow from input and weights) is left out
    if it is not sound.

    Parameters
    ----------
    name : str
        Its name in the graph, and in messages.
    given : bool
        Whether it is an input of the network. Others may have a shape that only the run knows;
        they are objects without a shape, and so are sparse constants, which libraries alone read.

    Raises
    ------
    ValueError
        If an extent of an input is dynamic (a batch is taken as 1), one is absurd, a constant has
        not as many bytes as its shape, or a scale or zero point is missing or out of range.
    """
    try:
        if not given and any(n < 0 for n in (*file.signature[1:], *file.shape[1:])):
            return Tensor(name, (), "object")
        return _read(file, name)
    except ValueError as error:
        raise ValueError(f"tensor {name!r}: {error}") from error


def _read(file: FileTensor, name: str) -> Tensor:
    shape = _shape(file)
    dtype = file.type.lower()
    if dtype == "int4" and file.data is not None and not file.sparse:
        file, dtype = replace(file, data=_nibbles(file.data, math.prod(shape))), "int8"
    if dtype not in _NUMPY or (file.sparse and file.data is not None):
        data = None if file.data is None else np.broadcast_to(np.array(None, object), shape)
        return Tensor(name, shape, "object", None, data)
    data = _data(file, shape, np.dtype(dtype))
    quantization = None
    if dtype in _ACTIVATIONS:
        quantization = _quantization(file, shape, np.iinfo(dtype))
    elif dtype == "int32":
        try:
            found = _quantization(file, shape, np.iinfo(dtype))
            quantization = found if found is not None and found.sound else None
        except ValueError:
            quantization = None
    return Tensor(name, shape, dtype, quantization, data)


def _shape(file: FileTensor) -> tuple[int, ...]:
    if file.signature and len(file.signature) != len(file.shape):
        raise ValueError(
            f"shape {list(file.shape)} and signature {list(file.signature)} have different ranks"
        )
    if any(extent < 0 for extent in file.signature[1:]) or any(n < 0 for n in file.shape[1:]):
        dynamic = file.signature or file.shape
        raise ValueError(f"shape {list(dynamic)} is dynamic; only the batch may be")
    shape = tuple(1 if i == 0 and n == -1 else n for i, n in enumerate(file.shape))
    if any(extent < 0 for extent in shape):
        raise ValueError(f"extents must not be negative: {list(shape)}")
    if math.prod(shape) > _MAX_ELEMENTS:
        raise ValueError(f"shape {list(shape)} has more than {_MAX_ELEMENTS:,} elements")
    return shape


def _data(file: FileTensor, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray | None:
    if file.variable or file.data is None:
        return None
    expected = math.prod(shape) * dtype.itemsize
    if file.data.size != expected:
        raise ValueError(
            f"shape {list(shape)} of {dtype.name} needs {expected} bytes, not {file.data.size}"
        )
    return file.data.view(dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(shape)


def _nibbles(data: np.ndarray, count: int) -> np.ndarray:
    """Return integers of 4 bits as bytes; of two in a byte the first is the low half."""
    halves = np.stack([data << 4, data], axis=-1).reshape(-1).view(np.int8) >> 4
    whole = len(data) == -(-count // 2)
    return (halves[:count] if whole else halves).view(np.uint8)


def _quantization(
    file: FileTensor, shape: tuple[int, ...], integers: np.iinfo
) -> Quantization | None:
    count = file.scale.size
    if not count:
        return None
    if file.zero_point.size != count:
        raise ValueError(f"it has {count} scales but {file.zero_point.size} zero points")
    axis = None
    if count > 1:
        axis = file.axis
        if not 0 <= axis < len(shape):
            raise ValueError(f"its scales belong to axis {axis} of shape {list(shape)}")
        if shape[axis] != count:
            raise ValueError(f"it has {count} scales for {shape[axis]} channels")
    scale = file.scale.astype(np.float32)
    zero_point = file.zero_point.astype(np.int64)
    wrong = (zero_point < integers.min) | (zero_point > integers.max)
    if wrong.any():
        raise ValueError(
            f"zero points must be from {integers.min} to {integers.max}, not {zero_point[wrong][0]}"
        )
    return Quantization(scale, zero_point, axis)
