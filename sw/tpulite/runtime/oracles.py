"""Libraries whose bits we promise: they run the network's file and show every tensor.

Each oracle is a function from one input to the values of tensors. Intermediate tensors become
outputs of the file, so the library must compute each of them, whatever it fuses otherwise. Products
between quantized tensors of ONNX files are those of integers, which ONNX Runtime leaves to the CPU.
"""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tpulite.frontend.tflite.widen import widen_filters
from tpulite.graph.graph import Graph
from tpulite.needs import require_package
from tpulite.runtime.host.libraries import library_package

__all__ = ["ORACLES", "Oracle", "open_oracle", "oracle_package"]

Oracle = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]
"""Runs one input, by names of the graph, and returns tensors by names of the graph."""

_RESOLVERS = {
    "litert-ref": "BUILTIN_REF",
    "litert-opt": "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
    "litert-xnnpack": "AUTO",
}

ORACLES = (*_RESOLVERS, "ort")
"""Names of the libraries and their kernel sets."""

_PERMUTATIONS = {".nhwc": (0, 2, 3, 1), ".nwc": (0, 2, 1)}
"""Suffixes of tensors whose axes the graph has in another order than an ONNX file."""


def open_oracle(name: str, path: Path, graph: Graph) -> Oracle:
    """Prepare a library to run a file.

    Parameters
    ----------
    name : str
        One of :data:`ORACLES`.
    path : Path
        The network's file, as messages name it.
    graph : Graph
        What :func:`tpulite.frontend.files.load_graph` makes of the file, not simplified; or a part
        of it.

    Raises
    ------
    ValueError
        If there is no such oracle, it is not installed, does not read this format or refuses the
        file.
    """
    if name not in ORACLES:
        raise ValueError(f"Oracle must be one of {', '.join(ORACLES)}, not {name!r}")
    wanted = "onnx" if name == "ort" else "tflite"
    if graph.format != wanted:
        raise ValueError(f"Oracle {name} runs {wanted} files, and {path} is {graph.format}")
    require_package(*oracle_package(name), f"Oracle {name}")
    data = path.read_bytes() if graph.source is None else graph.source.data
    try:
        return _open_ort(data, graph) if name == "ort" else _open_litert(data, graph, name)
    except Exception as error:  # ONNX Runtime has classes of its own, damaged files raise anything
        message = str(error).strip().splitlines() or [type(error).__name__]
        raise ValueError(f"Oracle {name} refuses {path}: {message[0]}") from error


def oracle_package(name: str) -> tuple[str, str]:
    """Return the package of an oracle as it is imported, and the extra that brings it."""
    return library_package("onnx" if name == "ort" else "tflite")


def _open_litert(data: bytes, graph: Graph, name: str) -> Oracle:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its dependencies are not free of deprecations
        import flatbuffers
        from ai_edge_litert import schema_py_generated as schema
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

    model: Any = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data))
    widen_filters(model)  # or LiteRT writes beyond its tensors
    model.signatureDefs = []  # they name outputs, of which there are more now
    file = model.subgraphs[0]
    numbers: dict[str, int] = {}
    for node, operator in zip(graph.nodes, file.operators, strict=True):
        numbers.update(zip(node.outputs, (int(i) for i in operator.outputs), strict=True))
    inputs = dict(zip(graph.inputs, (int(i) for i in file.inputs), strict=True))
    ends = [int(i) for i in file.outputs]
    file.outputs = ends + [i for i in numbers.values() if i not in ends]
    builder = flatbuffers.Builder(len(data))
    builder.Finish(model.Pack(builder), b"TFL3")
    interpreter = Interpreter(
        model_content=bytes(builder.Output()),
        experimental_op_resolver_type=OpResolverType[_RESOLVERS[name]],
        num_threads=1,
    )
    interpreter.allocate_tensors()

    def run(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        interpreter.reset_all_variables()  # each input is a run of its own
        for tensor, number in inputs.items():
            interpreter.set_tensor(number, values[tensor])
        interpreter.invoke()
        return {tensor: interpreter.get_tensor(number) for tensor, number in numbers.items()}

    return run


def _open_ort(data: bytes, graph: Graph) -> Oracle:
    import onnx
    import onnxruntime

    from tpulite.frontend.onnx.quantized_products import quantize_products

    model = onnx.load_model_from_string(data)
    computed = {name for node in model.graph.node for name in node.output}
    wanted: dict[str, tuple[str, tuple[int, ...] | None]] = {}
    for node in graph.nodes:
        for name in node.outputs:
            origin, permutation = _in_file(name, computed)
            if permutation is not None and len(permutation) != len(graph.tensors[name].shape):
                continue  # flattened in another order than the file's
            # Floats between dequantization and quantization are what the library fuses away.
            integer = np.issubdtype(graph.tensors[name].dtype, np.integer)
            if origin in computed and (integer or name in graph.outputs):
                wanted[name] = origin, permutation
    quantize_products(model, {origin for origin, _ in wanted.values()})
    known = {output.name for output in model.graph.output}
    for origin in dict.fromkeys(origin for origin, _ in wanted.values()):
        if origin not in known:
            model.graph.output.append(onnx.ValueInfoProto(name=origin))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]

    def run(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        results: Any = session.run(names, dict(values))
        found = dict(zip(names, results, strict=True))
        return {
            name: found[origin] if permutation is None else found[origin].transpose(permutation)
            for name, (origin, permutation) in wanted.items()
        }

    return run


def _in_file(name: str, computed: set[str]) -> tuple[str, tuple[int, ...] | None]:
    """Return the file's name of a tensor, and how its axes are permuted."""
    for suffix, permutation in _PERMUTATIONS.items():
        if name not in computed and name.endswith(suffix):
            return name.removesuffix(suffix), permutation
    return name, None
