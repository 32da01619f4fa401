"""ONNX files as plain values: checked, with static shapes, without constant arithmetic."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import onnx.version_converter
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper, numpy_helper

from tpulite.frontend.given_shapes import AS_IN_FILE, FileInput, GivenShapes
from tpulite.frontend.onnx.library import CONTRIBUTED
from tpulite.frontend.onnx.read.attributes import array, attributes_of, graphs_of, type_of
from tpulite.frontend.onnx.read.branches import fix_inputs, inline_branches
from tpulite.frontend.onnx.read.expand import expand
from tpulite.frontend.onnx.read.fold import infer_and_fold, learn_shapes
from tpulite.frontend.onnx.read.inputs import fix_shapes, image_inputs
from tpulite.frontend.onnx.read.qonnx import has_quantizers, with_standard_quantizers
from tpulite.graph.macs import macs_of_operator

OLDEST_OPSET = 7
"""The first whose broadcasting is that of all later ones; older models are converted."""

_CONSTANTS_ALONE = 4

MAX_ELEMENTS = 1 << 31
"""No tensor of a network for this machine comes near; a larger one is a damaged file."""

NUMERICS = "tpulite.numerics"
"""Entry of a file's metadata: the name of what its integers are computed with."""

_UNKNOWN_DOMAIN = "tpulite.unknown"


@dataclass(frozen=True, eq=False)
class OnnxNode:
    """A node of a file; attributes are numbers, strings, arrays and tuples of them.

    ``source`` is what the file calls the operator; it differs from ``op`` if the node was expanded.
    """

    name: str
    op: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    source: str


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """A checked model."""

    nodes: tuple[OnnxNode, ...]  #: In an order in which they can run; names are unique.
    constants: Mapping[str, np.ndarray]  #: Tensors that are known.
    #: dtype and shape of each tensor; None where nobody can know the shape before the run.
    types: Mapping[str, tuple[str, tuple[int, ...] | None]]
    #: Tensors that the user gives and gets.
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    opset: int  #: Version of the standard operators.
    file: bytes = b""  #: The file before anything was translated, its batch fixed.
    computed: frozenset[str] = frozenset()  #: Tensors of the file that are inputs or computed.
    numerics: str = ""  #: Name of the numerics that the file's metadata ask for, if they do.
    dialect: str = ""  #: ``qonnx`` if the file has quantizers of QONNX.


def read_onnx(data: bytes, given: GivenShapes = AS_IN_FILE) -> OnnxModel:
    """Read an ONNX file.

    Parameters
    ----------
    data : bytes
        The file.
    given : GivenShapes
        Shapes of inputs that the file leaves open.

    Raises
    ------
    ValueError
        If the file is damaged, has its weights elsewhere, uses a version of the operators that is
        not known, or has inputs whose shapes stay open (except for an open batch, which is 1).
    """
    model = _modernized(_parse(data))
    opset = _check_versions(model)
    _check_complete(model)
    shapeless = fix_shapes(model, given)
    fix_inputs(model, given.values)
    inline_branches(model, opset)
    dialect = "qonnx" if has_quantizers(model) else ""
    if dialect:
        model = with_standard_quantizers(model, opset)
        opset = _opset(model)
    if any(node.domain == CONTRIBUTED for node in model.graph.node):
        learn_shapes(model)
    file = model.SerializeToString()
    computed = {name for node in model.graph.node for name in node.output}
    computed |= {value.name for value in model.graph.input}
    _hide_unknown_operators(model, opset)
    try:
        _check_form(model)
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
    except (onnx.checker.ValidationError, RuntimeError) as error:
        raise ValueError(f"not a valid ONNX model: {_first_line(error)}") from error
    sources = expand(model, opset)
    try:
        infer_and_fold(model, opset)
    except onnx.shape_inference.InferenceError as error:
        for name in shapeless:
            raise ValueError(
                f"input {name!r} has no shape; give it, like --shape {name}=1x3x64x64"
            ) from error
        raise ValueError(
            f"shapes of the ONNX model are inconsistent: {_first_line(error)}"
        ) from error
    plain = _plain(model, opset, sources)
    numerics = next((x.value for x in model.metadata_props if x.key == NUMERICS), "")
    return replace(
        plain,
        file=file,
        computed=frozenset(computed - {""}),
        numerics=numerics,
        dialect=dialect,
    )


def with_types(data: bytes, types: Mapping[str, tuple[str, tuple[int, ...]]]) -> bytes:
    """Return a file whose outputs have types, those that are given where it says none.

    Parameters
    ----------
    data : bytes
        A file that can be read but for that.
    types : mapping of str to (str, tuple of int)
        dtype and shape of tensors.
    """
    model = onnx.load_model_from_string(data)
    for value in model.graph.output:
        if not value.HasField("type") and value.name in types:
            dtype, shape = types[value.name]
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            value.CopyFrom(helper.make_tensor_value_info(value.name, kind, shape))
    return model.SerializeToString()


def read_image_inputs(data: bytes) -> Mapping[str, FileInput]:
    """Return the inputs of an ONNX file with four extents; ValueError if it is none."""
    return image_inputs(_parse(data))


def _parse(data: bytes) -> onnx.ModelProto:
    try:
        model = onnx.load_model_from_string(data)
    except (DecodeError, RuntimeError, ValueError) as error:
        raise ValueError(f"not an ONNX file, or a damaged one: {error}") from error
    if not model.graph.node and not model.graph.output:
        raise ValueError(f"not an ONNX file: {len(data)} bytes without a graph")
    names = []
    for graph in graphs_of(model.graph):
        names += [value.name for value in (*graph.input, *graph.output, *graph.initializer)]
        for node in graph.node:
            names += [node.name, node.op_type, node.domain, *node.input, *node.output]
            names += [attribute.name for attribute in node.attribute]
    for name in names:
        if isinstance(name, bytes):
            raise ValueError(f"not an ONNX file, or a damaged one: the name {name!r} is not UTF-8")
    return model


def _check_form(model: onnx.ModelProto) -> None:
    """Let the checker see the model; it asks for shapes of outputs, which nobody else needs."""
    kinds = [value.type.tensor_type for value in model.graph.output]
    shapeless = [kind for kind in kinds if not kind.HasField("shape")]
    for kind in shapeless:
        kind.shape.SetInParent()
    onnx.checker.check_model(model)
    for kind in shapeless:
        kind.ClearField("shape")


def _first_line(error: Exception) -> str:
    """Return the first line of a message; the first two if the first one says nothing alone."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return " ".join(lines[:2] if lines[0].endswith(":") else lines[:1])


def _modernized(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model in the oldest version that we read, if it is of an older one."""
    # Before this version of the format constants had to be inputs as well.
    model.ir_version = max(model.ir_version, _CONSTANTS_ALONE)
    if not 0 < _opset(model) < OLDEST_OPSET:
        return model
    try:
        return onnx.version_converter.convert_version(model, OLDEST_OPSET)
    except (onnx.version_converter.ConvertError, RuntimeError) as error:
        raise ValueError(
            f"The ONNX model has opset {_opset(model)} and cannot be converted to {OLDEST_OPSET}: "
            f"{_first_line(error)}"
        ) from error


def _opset(model: onnx.ModelProto) -> int:
    """Return the version of the standard operators; 0 if there is none."""
    versions = {entry.domain: entry.version for entry in model.opset_import}
    return versions.get("", versions.get("ai.onnx", 0))


def _check_versions(model: onnx.ModelProto) -> int:
    """Return the version of the standard operators."""
    if model.ir_version > onnx.IR_VERSION:
        raise ValueError(
            f"The ONNX file has IR version {model.ir_version}; the onnx package that is installed "
            f"reads up to {onnx.IR_VERSION}"
        )
    newest = onnx.defs.onnx_opset_version()
    opset = _opset(model)
    if not OLDEST_OPSET <= opset <= newest:
        raise ValueError(
            f"Opset of an ONNX model must be from {OLDEST_OPSET} to {newest}, not {opset}"
        )
    return opset


def _check_complete(model: onnx.ModelProto) -> None:
    graphs = list(graphs_of(model.graph))
    for tensor in (tensor for graph in graphs for tensor in graph.sparse_initializer):
        raise ValueError(f"Tensor {tensor.values.name!r} is sparse, which is not supported")
    for tensor in (tensor for graph in graphs for tensor in graph.initializer):
        if tensor.data_location == TensorProto.EXTERNAL:
            raise ValueError(
                f"Tensor {tensor.name!r} lies in another file; save the model with its weights "
                "inside"
            )
        if any(extent < 0 for extent in tensor.dims):
            raise ValueError(f"Tensor {tensor.name!r} has the shape {list(tensor.dims)}")


def _hide_unknown_operators(model: onnx.ModelProto, opset: int) -> None:
    """Move nodes that claim to be standard and are not to a domain that nobody checks."""
    hidden = False
    for node in model.graph.node:
        if node.domain in ("", "ai.onnx") and not onnx.defs.has(node.op_type, opset, ""):
            node.domain = _UNKNOWN_DOMAIN
            hidden = True
    if hidden:
        model.opset_import.append(helper.make_opsetid(_UNKNOWN_DOMAIN, 1))


def _plain(model: onnx.ModelProto, opset: int, sources: Mapping[str, str]) -> OnnxModel:
    constants = {tensor.name: array(tensor) for tensor in model.graph.initializer}
    types: dict[str, tuple[str, tuple[int, ...] | None]] = {}
    for value in (*model.graph.value_info, *model.graph.output, *model.graph.input):
        types[value.name] = type_of(value)
    types |= {name: (value.dtype.name, value.shape) for name, value in constants.items()}
    for name, (_, shape) in types.items():
        if shape is not None and np.prod([float(extent) for extent in shape]) > MAX_ELEMENTS:
            raise ValueError(f"Tensor {name!r} has the impossible shape {list(shape)}")
    shapes = {name: shape for name, (_, shape) in types.items()}
    nodes: list[OnnxNode] = []
    names: set[str] = set()
    for index, node in enumerate(model.graph.node):
        name = node.name or f"{node.op_type}_{index}"
        while name in names:
            name += "_"
        names.add(name)
        nodes.append(
            OnnxNode(
                name,
                node.op_type,
                "" if node.domain == "ai.onnx" else node.domain,
                tuple(node.input),
                tuple(node.output),
                attributes_of(node) | body_attributes(node, shapes, constants),
                sources.get(node.name, node.op_type),
            )
        )
    return OnnxModel(
        tuple(nodes),
        constants,
        types,
        tuple(value.name for value in model.graph.input if value.name not in constants),
        tuple(value.name for value in model.graph.output),
        opset,
    )


Shapes = Mapping[str, tuple[int, ...] | None]


def body_attributes(
    node: onnx.NodeProto, shapes: Shapes, constants: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what a node with graphs of its own takes, as attributes.

    Parameters
    ----------
    shapes : mapping of str to tuple of int or None
        Shapes of tensors outside, None where a run decides.
    constants : mapping of str to ndarray
        Tensors outside that are known.

    Returns
    -------
    dict
        ``macs``, those of the longest branch or of all iterations, and ``open_loop`` if only a run
        knows how many these are (one is counted); nothing for nodes without a graph.
    """
    bodies = [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    if not bodies:
        return {}
    found = [_graph_macs(body, shapes, constants) for body in bodies]
    macs, is_open = max(count for count, _ in found), any(loops for _, loops in found)
    count = _iterations(node, shapes, constants)
    return {"macs": macs * (1 if count is None else count)} | (
        {"open_loop": 1} if is_open or count is None else {}
    )


def _graph_macs(
    graph: onnx.GraphProto, outer: Shapes, known: Mapping[str, Any]
) -> tuple[int, bool]:
    """Return the multiplications of a graph, and whether a loop in it is open."""
    values = (*graph.value_info, *graph.output, *graph.input)
    shapes = {**outer, **{value.name: type_of(value)[1] for value in values}}
    constants = {**known, **{t.name: numpy_helper.to_array(t) for t in graph.initializer}}
    shapes |= {name: value.shape for name, value in constants.items()}
    total, is_open = 0, False
    for node in graph.node:
        inner = body_attributes(node, shapes, constants)
        inputs = [shapes.get(name) or () for name in node.input]
        output = shapes.get(node.output[0]) or () if node.output else ()
        attributes = attributes_of(node)
        total += inner.get("macs", macs_of_operator(node.op_type, inputs, output, attributes))
        is_open |= "open_loop" in inner
    return total, is_open


def _iterations(node: onnx.NodeProto, shapes: Shapes, constants: Mapping[str, Any]) -> int | None:
    """Return how often the body runs; None if only a run knows."""
    if node.op_type == "Scan":
        count = next(a.i for a in node.attribute if a.name == "num_scan_inputs")
        shape = shapes.get(node.input[-count]) if count else None
        return shape[0] if shape else None
    if node.op_type != "Loop":
        return 1
    count, condition = node.input[0], node.input[1] if len(node.input) > 1 else ""
    if count in constants and not condition:
        return int(constants[count].reshape(-1)[0])
    return None
