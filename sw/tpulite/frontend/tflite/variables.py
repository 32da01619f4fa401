"""Variables of TFLite files as tensors that go into a run and come out of it.

An interpreter keeps a variable behind a handle and reads and writes it on the way. What the first
read of a run finds is an input of the run, what the last write leaves an output; any other read
finds the tensor that was written before. So no operator on variables remains.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tpulite.frontend.tflite.parse import FileModel, FileOperator, FileTensor, parse_tflite

VARIABLE_OPERATORS = frozenset({"CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"})
"""Operators that vanish."""

_PORTS = {"VAR_HANDLE": (0, 1), "READ_VARIABLE": (1, 1), "ASSIGN_VARIABLE": (2, 0)}
"""How many inputs and outputs they have."""

_Key = tuple[bytes, bytes]
"""Container and name of a variable, which all its handles share."""


@dataclass(frozen=True, eq=False)
class FileState:
    """A variable that is read before it is written."""

    name: str  #: The file's name of it; may be empty, or that of another in a second container, too
    #: Numbers of the tensors that hold it before and after a run.
    input: int
    output: int
    initial: FileTensor  #: The constant that it begins with.


@dataclass(frozen=True, eq=False)
class Variables:
    """The variables of a file."""

    states: tuple[FileState, ...]  #: Those that outlive a run.
    aliases: Mapping[int, int]  #: Results of other reads, and the tensors that they find.


def resolve_variables(data: bytes, model: FileModel) -> Variables:
    """Follow the variables of a file through a run.

    Parameters
    ----------
    data : bytes
        The file, whose other subgraphs give variables their first values.
    model : FileModel
        Its first subgraph.

    Raises
    ------
    ValueError
        If a handle is not made by VAR_HANDLE, the first value of a variable is missing or no
        constant, or an operator lacks an input or output.
    """
    first: dict[_Key, int] = {}
    current: dict[_Key, int] = {}
    aliases: dict[int, int] = {}
    handles = _handles(model)
    for number, operator in enumerate(model.operators):
        if operator.code == "READ_VARIABLE":
            key, result = _key(number, operator, handles), operator.outputs[0]
            if key in current:
                aliases[result] = current[key]
            else:
                first[key] = current[key] = result
        elif operator.code == "ASSIGN_VARIABLE":
            key, value = _key(number, operator, handles), operator.inputs[1]
            current[key] = aliases.get(value, value)
    initial = _initial_values(data, model) if first else {}
    states = []
    for key, number in first.items():
        name = key[1].decode(errors="replace")
        if key not in initial:
            raise ValueError(f"variable {name!r} is read, but has no initial value")
        if initial[key].data is None:
            raise ValueError(f"variable {name!r}: its initial value must be a constant")
        states.append(FileState(name, number, current[key], initial[key]))
    return Variables(tuple(states), aliases)


def _initial_values(data: bytes, model: FileModel) -> dict[_Key, FileTensor]:
    """Return what the subgraphs that run once assign."""
    values = {}
    for call in model.operators:
        if call.code != "CALL_ONCE":
            continue
        index = call.options.get("InitSubgraphIndex", 0)
        if index == 0:
            raise ValueError("CALL_ONCE calls the network itself")
        once = parse_tflite(data, index)
        handles = _handles(once)
        for number, operator in enumerate(once.operators):
            if operator.code == "ASSIGN_VARIABLE":
                key, value = _key(number, operator, handles), operator.inputs[1]
                if not 0 <= value < len(once.tensors):
                    raise ValueError(f"CALL_ONCE uses tensor {value} of {len(once.tensors)}")
                values[key] = once.tensors[value]
    return values


def _handles(model: FileModel) -> dict[int, _Key]:
    handles = {}
    for number, operator in enumerate(model.operators):
        if operator.code == "VAR_HANDLE":
            _check_ports(number, operator)
            container, name = (operator.options.get(x) or b"" for x in ("Container", "SharedName"))
            handles[operator.outputs[0]] = container, name
    return handles


def _key(number: int, operator: FileOperator, handles: Mapping[int, _Key]) -> _Key:
    """Return the variable of an operator."""
    _check_ports(number, operator)
    if operator.inputs[0] not in handles:
        label = f"{operator.code.lower()}_{number}"
        raise ValueError(f"node {label!r}: its variable is not created by VAR_HANDLE")
    return handles[operator.inputs[0]]


def _check_ports(number: int, operator: FileOperator) -> None:
    """Check how many inputs and outputs an operator on variables has."""
    due = _PORTS[operator.code]
    if (len(operator.inputs), len(operator.outputs)) != due:
        label = f"{operator.code.lower()}_{number}"
        raise ValueError(f"node {label!r}: it must have {due[0]} inputs and {due[1]} outputs")
