"""Import of TFLite files."""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from tpulite.frontend.given_shapes import AS_IN_FILE, GivenShapes
from tpulite.frontend.tflite.bodies import is_loop
from tpulite.frontend.tflite.operators import convert_operator
from tpulite.frontend.tflite.parse import FileModel, FileOperator, parse_tflite
from tpulite.frontend.tflite.recurrent import (
    first_value,
    keep_variables,
    kept_variables,
    with_wide_filters,
)
from tpulite.frontend.tflite.settle import UnsettledError, settle_shapes
from tpulite.frontend.tflite.tensors import read_tensor
from tpulite.frontend.tflite.variables import (
    VARIABLE_OPERATORS,
    FileState,
    Variables,
    resolve_variables,
)
from tpulite.graph.graph import Graph, Node, Origin, Source, State, Tensor
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
