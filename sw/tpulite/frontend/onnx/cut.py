"""Parts of an ONNX file as files of their own."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tpulite.frontend.backwards import needed
from tpulite.frontend.onnx.read.attributes import names_read, static_shape
from tpulite.frontend.onnx.read.fold import infer_shapes, value_of_shape


def cut_onnx(
    data: bytes, inputs: Mapping[str, tuple[str, tuple[int, ...]]], outputs: Sequence[str]
) -> tuple[bytes, list[str]]:
    """Return a file of the nodes between some tensors of a file.

    Parameters
    ----------
    data : bytes
        An ONNX file that can be read.
    inputs : mapping of str to (str, tuple of int)
        Tensors that are given, with dtype and shape in the file.
    outputs : sequence of str
        Tensors that are wanted, each computed by a node.

    Returns
    -------
    file : bytes
        The file.
    more : list of str
        Inputs of the file that are needed besides: inputs of the part, too, behind the others.
    """
    whole = _parsed(data)
    graph, values = whole.graph, dict(whole.values)
    for name, (dtype, shape) in inputs.items():
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        values[name] = helper.make_tensor_value_info(name, kind, shape)
    nodes, users = list(whole.nodes), list(whole.users)
    for i in whole.shapes:
        nodes[i] = _known(nodes[i], values)
        users[i] = _user(nodes[i])
    chosen, reached = needed(users, inputs, outputs)
    constants = {tensor.name for tensor in graph.initializer}
    free = reached - constants - set(inputs)
    more = [value.name for value in graph.input if value.name in free]
    kept = [tensor for tensor in graph.initializer if tensor.name in reached]
    part = helper.make_graph(
        [nodes[i] for i in chosen],
        graph.name or "part",
        [values[name] for name in (*inputs, *more)],
        [values.get(name, onnx.ValueInfoProto(name=name)) for name in outputs],
        kept,
        value_info=[],
    )
    part.quantization_annotation.extend(graph.quantization_annotation)
    model = onnx.ModelProto()
    model.CopyFrom(whole.shell)
    model.graph.CopyFrom(part)
    return model.SerializeToString(), more


@dataclass(frozen=True, eq=False)
class _Whole:
    """A file: its graph with the shapes that are known, and all around the graph.

    Nodes, what each reads and writes, and which of them are shapes; ``values`` by name.
    """

    graph: onnx.GraphProto
    nodes: tuple[onnx.NodeProto, ...]
    users: tuple[tuple[list[str], list[str]], ...]
    shapes: tuple[int, ...]
    values: dict[str, onnx.ValueInfoProto]
    shell: onnx.ModelProto


@lru_cache(maxsize=1)
def _parsed(data: bytes) -> _Whole:
    """Read a file, of which many parts may be cut one after the other."""
    model = onnx.load_model_from_string(data)
    with suppress(onnx.shape_inference.InferenceError, RuntimeError):  # the library may know more
        infer_shapes(model, values=True)
    graph, shell = onnx.GraphProto(), onnx.ModelProto()
    graph.CopyFrom(model.graph)
    model.ClearField("graph")
    shell.CopyFrom(model)
    values = {value.name: value for value in (*graph.value_info, *graph.output, *graph.input)}
    nodes = tuple(graph.node)
    shapes = tuple(i for i, node in enumerate(nodes) if node.op_type == "Shape")
    return _Whole(graph, nodes, tuple(map(_user, nodes)), shapes, values, shell)


def _user(node: onnx.NodeProto) -> tuple[list[str], list[str]]:
    """Return what a node reads, and what it writes."""
    return [*names_read(node)], [name for name in node.output if name]


def _known(node: onnx.NodeProto, values: dict[str, onnx.ValueInfoProto]) -> onnx.NodeProto:
    """Return a constant instead of the shape of a tensor whose shape is known."""
    if node.op_type != "Shape" or node.domain or node.input[0] not in values:
        return node
    shape = static_shape(values[node.input[0]])
    if shape is None:
        return node
    tensor = numpy_helper.from_array(value_of_shape(node, shape))
    return helper.make_node("Constant", [], list(node.output), name=node.name, value=tensor)
