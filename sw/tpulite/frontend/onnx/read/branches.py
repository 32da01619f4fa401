"""Inputs that become constants, and branches that are decided then."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import prod

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tpulite.frontend.onnx.read.attributes import array, rename_tensors
from tpulite.frontend.onnx.read.fold import infer_and_fold
from tpulite.near import no_such

_MOST_ELEMENTS = 1 << 20
"""Of an input with a number everywhere: such inputs are numbers, masks or states."""

_TYPES = onnx.TensorProto.DataType
_NO_NUMBERS: dict[int, str] = {
    **{_TYPES.STRING: "text", _TYPES.COMPLEX64: "complex", _TYPES.COMPLEX128: "complex"},
    **{_TYPES.UNDEFINED: "of no type"},
}
"""What an input of a type is that has no real numbers."""


def fix_inputs(model: onnx.ModelProto, values: Mapping[str, float]) -> None:
    """Make inputs constants, in place.

    Parameters
    ----------
    model : ModelProto
        The network; shapes of its inputs are fixed, but for those with a default.
    values : mapping of str to float
        A number for each input; an input with extents has it everywhere.

    Raises
    ------
    ValueError
        If there is no such input, an extent of it is open, its type cannot have the number, or it
        has more than 2²⁰ elements.
    """
    inputs = {value.name: value for value in model.graph.input}
    for name, number in values.items():
        if name not in inputs:
            raise ValueError(f"--set {no_such('input', name, sorted(inputs))}")
        kind = inputs[name].type.tensor_type
        value = _constant(f"--set {name}={number:g}", number, kind)
        model.graph.input.remove(inputs[name])
        for index, default in reversed([*enumerate(model.graph.initializer)]):
            if default.name == name:
                del model.graph.initializer[index]
        model.graph.initializer.append(numpy_helper.from_array(value, name))


def _constant(option: str, number: float, kind: onnx.TypeProto.Tensor) -> np.ndarray:
    """Return what has a number everywhere."""
    shape = [extent.dim_value for extent in kind.shape.dim]
    if min(shape, default=1) < 1:
        raise ValueError(f"{option}: an extent of the input is open")
    if (elements := prod(shape)) > _MOST_ELEMENTS:
        raise ValueError(f"{option}: the input has {elements:,} elements")
    if what := _NO_NUMBERS.get(kind.elem_type):
        raise ValueError(f"{option}: the input is {what}")
    if kind.elem_type not in _TYPES.values():
        raise ValueError(f"{option}: the input is of the unknown type {kind.elem_type}")
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    with np.errstate(all="ignore"):
        value = np.full(shape, number).astype(dtype)
    rounded = not np.issubdtype(dtype, np.integer) and dtype != np.dtype(bool)
    same = np.isfinite(value.astype(float)) == np.isfinite(number) if rounded else value == number
    if not np.all(same):
        raise ValueError(f"{option}: the input is {value.dtype.name}")
    return value


def inline_branches(model: onnx.ModelProto, opset: int) -> None:
    """Put the branch that is taken in place of each If whose condition is known, in place.

    Parameters
    ----------
    model : ModelProto
        The network; shapes of its inputs are fixed.
    opset : int
        Version of the standard operators.
    """
    while any(node.op_type == "If" for node in model.graph.node):
        folded = onnx.ModelProto()
        folded.CopyFrom(model)
        # Both branches may contradict the shapes; what is known by then is folded already.
        with suppress(onnx.shape_inference.InferenceError):
            infer_and_fold(folded, opset)
        known = {tensor.name: tensor for tensor in folded.graph.initializer}
        nodes: list[onnx.NodeProto] = []
        done = False
        for node in model.graph.node:
            if node.op_type == "If" and node.input and node.input[0] in known:
                taken = "then_branch" if array(known[node.input[0]]).all() else "else_branch"
                branch = next(each.g for each in node.attribute if each.name == taken)
                nodes += _inlined(node, branch, model.graph)
                done = True
            else:
                nodes.append(node)
        if not done:
            return
        del model.graph.node[:]
        model.graph.node.extend(nodes)


def _inlined(
    node: onnx.NodeProto, branch: onnx.GraphProto, graph: onnx.GraphProto
) -> Iterator[onnx.NodeProto]:
    """Yield the operators of a branch; its constants are added to the graph.

    Names of the branch get that of the node's output before them, so that they differ from all
    others; nodes may share names.
    """
    prefix = f"{node.output[0]}/"
    own = {name for each in branch.node for name in each.output if name}
    own |= {tensor.name for tensor in branch.initializer}
    names = {name: prefix + name for name in own}
    rename_tensors(branch, names)
    for tensor in branch.initializer:
        graph.initializer.add().CopyFrom(tensor)
        graph.initializer[-1].name = names[tensor.name]
    for each in branch.node:
        each.name = f"{prefix}{each.name or each.output[0]}"
        yield each
    for value, output in zip(branch.output, node.output, strict=True):
        yield helper.make_node("Identity", [value.name], [output], name=f"{prefix}{output}")
