"""Files as ONNX Runtime itself optimizes them: what it runs as integers is explicit there.

An ordinary session decides which of DequantizeLinear, an operator on floats and QuantizeLinear it
joins to an integer kernel. The extended level has all of these decisions, and its form does not
depend on the CPU; the layouts of later levels do.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx

from tpulite.frontend.onnx.read.attributes import rename_tensors
from tpulite.frontend.onnx.signs import AS_UINT8
from tpulite.needs import require_package

CONTRIBUTED = "com.microsoft"
"""Domain of the operators that ONNX Runtime has besides the standard ones."""

_INTEGERS = frozenset(
    {
        *("QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul"),
        *("ConvInteger", "MatMulInteger", "DynamicQuantizeLinear"),
    }
)

_SCALED_PRODUCTS = ("DynamicQuantizeMatMulFusion", "MatMulIntegerToFloatFusion")
"""Optimizers that join an integer product and what scales its sums; the bits are the same."""

_FATAL = 4  # of ONNX Runtime's log: errors are told by exceptions
_RENAMED = "qdq_s8_to_u8_quant"
"""How ONNX Runtime names the uint8 tensors that it makes of int8 ones."""


def is_quantized(model: onnx.ModelProto) -> bool:
    """Tell whether a file has operators of quantized tensors, those of bodies included."""
    return any(map(_computes_integers, model.graph.node))


def _computes_integers(node: onnx.NodeProto) -> bool:
    bodies = (body for each in node.attribute for body in (each.g, *each.graphs))
    return (
        node.op_type in _INTEGERS
        or (node.domain == CONTRIBUTED and node.op_type.startswith("Q"))
        or any(_computes_integers(inner) for body in bodies for inner in body.node)
    )


def library_version() -> str:
    """Return the name and version of the library that is installed."""
    import onnxruntime

    return f"ONNX Runtime {onnxruntime.__version__}"


def open_session(
    data: bytes,
    level: str,
    *,
    disabled: tuple[str, ...] = (),
    path: Path | None = None,
    **entries: str,
) -> Any:
    """Open a session on one thread of the CPU, with the exact kernels of :func:`prefer_exact`.

    Parameters
    ----------
    data : bytes
        A file.
    level : str
        What it optimizes: ``DISABLE_ALL``, ``ENABLE_EXTENDED`` or ``ENABLE_ALL``.
    disabled : tuple of str
        Optimizers to leave out.
    path : Path, optional
        Where to write the optimized file.
    **entries : str
        Entries of the session's configuration, without ``session.``.
    """
    import onnxruntime

    def opened(data: bytes, **exact: str) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = _FATAL
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = getattr(levels, f"ORT_{level}")
        if path is not None:
            options.optimized_model_filepath = str(path)
        for name, value in (entries | exact).items():
            options.add_session_config_entry(f"session.{name}", value)
        return onnxruntime.InferenceSession(
            data, options, providers=["CPUExecutionProvider"], disabled_optimizers=list(disabled)
        )

    return prefer_exact(opened, data) if path is None else opened(data)


def expose(model: "onnx.ModelProto", names: Iterable[str]) -> None:
    """Make tensors outputs of a file, too."""
    known = {value.name for value in model.graph.output}
    new = (onnx.ValueInfoProto(name=name) for name in dict.fromkeys(names) if name not in known)
    model.graph.output.extend(new)


def prefer_exact(opened: Callable[..., Any], data: bytes) -> Any:
    """Open a session with kernels that add products of uint8 and int8 exactly, if there are any.

    Only where the default kernels saturate: on a CPU with AVX2 and without VNNI they add pairs of
    products in int16. The entry ``x64quantprecision`` makes int8 weights uint8, whose kernels are
    exact. It throws if two operators share a weight or its zero point, so those are copied then;
    its zero points of channels that the file leaves out do not run, so they are written. It also
    throws for some files with int8 activations, whose default kernels are exact. At
    ``DISABLE_ALL`` it does nothing, nor for QLinearMatMul of opset 21, whose weights become uint8
    here. It makes constants of Add and Mul uint8, too, which may give these an integer kernel that
    rounds ties otherwise than the floats of an ordinary session.

    Parameters
    ----------
    opened : callable
        Opens a session for the bytes of a file, with more entries by name.
    data : bytes
        A file.
    """
    if not _saturates():
        return opened(data)
    with suppress(Exception):  # a file that is broken, as the last call says, too
        data = _with_points(_unsigned(data))
    for attempt in (lambda: data, lambda: _unshared(data)):
        with suppress(Exception):  # of classes of its own; what else is wrong, the last call says
            return opened(attempt(), x64quantprecision="1")
    return opened(data)


@cache
def _saturates() -> bool:
    """Tell whether the default kernels of this CPU add products of uint8 and int8 in int16."""
    import onnxruntime

    x, weight = np.full((4, 64), 255, np.uint8), np.full((64, 64), 127, np.int8)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMulInteger", ["x", "weight"], ["y"])],
        "largest",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, x.shape)],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT32, x.shape)],
        [onnx.numpy_helper.from_array(weight, "weight")],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (sums,) = session.run(None, {"x": x})
    return not np.array_equal(np.asarray(sums), x.astype(np.int32) @ weight.astype(np.int32))


def _unsigned(data: bytes) -> bytes:
    """Return a file in which QLinearMatMul of uint8 by constant int8 is of uint8 alone."""
    model = onnx.load_model_from_string(data)
    graph = model.graph
    known = {x.name: x for x in graph.initializer}
    made: set[str] = set()
    for node in graph.node:
        if node.op_type != "QLinearMatMul" or len(node.input) < 6:
            continue
        activation, *weights = (known.get(node.input[i]) for i in (2, 3, 5))  # 2: its zero point
        if activation is None or activation.data_type != onnx.TensorProto.UINT8:
            continue
        signed = [x for x in weights if x is not None and x.data_type == onnx.TensorProto.INT8]
        if len(signed) < len(weights):
            continue
        for i, tensor in zip((3, 5), signed, strict=True):
            node.input[i] = f"{tensor.name}/unsigned"
            if tensor.name not in made:
                made.add(tensor.name)
                value = onnx.numpy_helper.to_array(tensor).view(np.uint8) ^ 0x80
                graph.initializer.append(onnx.numpy_helper.from_array(value, node.input[i]))
    return model.SerializeToString() if made else data


def _with_points(data: bytes) -> bytes:
    """Return a file whose int8 constants with scales of channels have zero points, all 0."""
    model = onnx.load_model_from_string(data)
    graph = model.graph
    known = {x.name: x for x in graph.initializer}
    found = False
    for node in graph.node:
        if node.op_type != "DequantizeLinear" or any(node.input[2:]):
            continue
        weight, scale = (known.get(name) for name in node.input[:2])
        if weight is None or scale is None or weight.data_type != onnx.TensorProto.INT8:
            continue
        if len(scale.dims) == 1:
            del node.input[2:]
            node.input.append(f"{node.output[0]}/zero_point")
            zeros = np.zeros(tuple(scale.dims), np.int8)
            graph.initializer.append(onnx.numpy_helper.from_array(zeros, node.input[2]))
            found = True
    return model.SerializeToString() if found else data


def _unshared(data: bytes) -> bytes:
    """Return a file in which no two operators share an int8 initializer, dequantized or not."""
    model = onnx.load_model_from_string(data)
    graph = model.graph
    known = {x.name: x for x in graph.initializer if x.data_type == onnx.TensorProto.INT8}
    weights = {
        node.output[0]: node
        for node in graph.node
        if node.op_type == "DequantizeLinear" and node.input[0] in known
    }
    read: set[str] = set()
    nodes: list[onnx.NodeProto] = []

    def own(node: onnx.NodeProto) -> onnx.NodeProto:
        """Give a node copies of what nodes before it read."""
        for i, name in enumerate(node.input):
            if name not in read:
                read.update({name} & {*known, *weights})
                continue
            node.input[i] = f"{name}/{len(graph.initializer)}.{len(nodes)}"
            if name in known:
                graph.initializer.add().CopyFrom(known[name])
                graph.initializer[-1].name = node.input[i]
            else:
                copy = onnx.NodeProto()
                copy.CopyFrom(weights[name])
                copy.name = copy.output[0] = node.input[i]
                nodes.append(own(copy))
        return node

    for node in graph.node:
        nodes.append(own(node))
    del graph.node[:]
    graph.node.extend(nodes)
    return model.SerializeToString()


def optimize(data: bytes, *, keep_int8: bool = False, name: str = "the file") -> bytes:
    """Return a file as ONNX Runtime optimizes it before it chooses layouts for the CPU.

    On x86 it makes int8 activations uint8 first, where they have one reader; on others it does not.
    That is chosen here, not by the CPU.

    Parameters
    ----------
    data : bytes
        A file with quantized tensors.
    keep_int8 : bool
        Whether int8 activations stay int8.
    name : str
        What messages call the file.

    Raises
    ------
    ValueError
        If the library is not installed, or refuses the file.
    """
    require_package(
        "onnxruntime", "onnx", "a quantized ONNX file runs as ONNX Runtime plans it; this"
    )
    named = onnx.load_model_from_string(data)
    for index, node in enumerate(named.graph.node):
        node.name = node.name or f"{node.op_type}_{index}"
    with TemporaryDirectory() as folder:
        path = Path(folder) / "optimized.onnx"
        try:
            open_session(
                named.SerializeToString(),
                "ENABLE_EXTENDED",
                path=path,
                qdqisint8allowed=str(int(keep_int8)),
                disabled=_SCALED_PRODUCTS,
                disable_prepacking="1",
            )
        except Exception as error:  # ONNX Runtime has classes of its own
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            who = "ONNX Runtime rejects it"
            with suppress(Exception):
                open_session(named.SerializeToString(), "DISABLE_ALL")
                who = "ONNX Runtime's optimizer rejects it (--exact litert-ref goes without)"
            raise ValueError(f"{name}: {who}: {(lines or [type(error).__name__])[0]}") from error
        model = onnx.load_model_from_string(path.read_bytes())
    _forget_domains(model)
    _rename(model, named)
    return model.SerializeToString()


def _forget_domains(model: onnx.ModelProto) -> None:
    """Drop the domains that no operator is of: a session names all that it knows."""
    used = {"", CONTRIBUTED} | {node.domain for node in model.graph.node}
    kept = [entry for entry in model.opset_import if entry.domain in used]
    del model.opset_import[:]
    model.opset_import.extend(kept)


def _rename(model: onnx.ModelProto, original: onnx.ModelProto) -> None:
    """Name uint8 tensors after the int8 tensors of the file that they stand for."""
    names = {}
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in original.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    writers = {node.name: node for node in original.graph.node}
    taken = {name for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        for output in node.output:
            if not output.startswith(_RENAMED):
                continue
            name = _quantized_name(writers.get(node.name), readers)
            name = f"{name or node.name}{AS_UINT8}"
            while name in taken:
                name += "_"
            taken.add(name)
            names[output] = name
    if names:
        rename_tensors(model.graph, names)


def _quantized_name(node: onnx.NodeProto | None, readers: dict[str, list[onnx.NodeProto]]) -> str:
    """Return the file's name of the integers that a node's result becomes; nothing if unknown."""
    while node is not None and node.op_type != "QuantizeLinear":
        after = {id(each): each for each in readers.get(node.output[0], ())}
        node = next(iter(after.values())) if len(after) == 1 else None
    return "" if node is None else node.output[0]
