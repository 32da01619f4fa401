"""Libraries whose bits we promise: they run the network's file and show every tensor.

Each oracle is a function from one input to the values of tensors. Intermediate tensors become
outputs of the file, so the library must compute each of them, whatever it fuses otherwise; those of
ONNX files are tensors of the file as ONNX Runtime optimizes it, and the outputs those of the
untouched file.
"""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tpulite.frontend.tflite.widen import widen_filters
from tpulite.graph.graph import Graph
from tpulite.needs import require_package
from tpulite.quant.exactness import Exactness
from tpulite.quant.library import as_library
from tpulite.runtime.host.libraries import DECIDED, library_package, open_library

__all__ = ["ORACLES", "Oracle", "open_oracle", "oracle_package"]

Oracle = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]
"""Runs one input, by names of the graph, and returns tensors by names of the graph."""

_RESOLVERS = {
    "litert-ref": "BUILTIN_REF",
    "litert-opt": "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
    "litert-xnnpack": "AUTO",
}

_ORT = ("ort", "ort-int8")

ORACLES = (*_RESOLVERS, *_ORT)
"""Names of the libraries and their kernel sets."""


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
    wanted = "onnx" if name in _ORT else "tflite"
    if graph.format != wanted:
        raise ValueError(f"Oracle {name} runs {wanted} files, and {path} is {graph.format}")
    require_package(*oracle_package(name), f"Oracle {name}")
    data = path.read_bytes() if graph.source is None else graph.source.data
    try:
        return (_open_ort if name in _ORT else _open_litert)(data, graph, name)
    except Exception as error:  # ONNX Runtime has classes of its own, damaged files raise anything
        message = str(error).strip().splitlines() or [type(error).__name__]
        raise ValueError(f"Oracle {name} refuses {path}: {message[0]}") from error


def oracle_package(name: str) -> tuple[str, str]:
    """Return the package of an oracle as it is imported, and the extra that brings it."""
    return library_package("onnx" if name in _ORT else "tflite")


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


def _open_ort(data: bytes, graph: Graph, name: str) -> Oracle:
    """Run the untouched file for its outputs, and what the library makes of it for the rest."""
    import onnx

    from tpulite.frontend.onnx.library import open_session

    exactness = Exactness(name)
    assert graph.source is not None
    kept = str(int(exactness == Exactness.ORT_INT8))
    decided = DECIDED if graph.source.library else ()
    whole = open_session(data, "ENABLE_ALL", disabled=decided, qdqisint8allowed=kept)
    graph = as_library(graph, exactness)
    assert graph.source is not None
    origins = graph.source.origins
    model = onnx.load_model_from_string(graph.source.data)
    ends = {output.name for output in model.graph.output}
    wanted = {
        name: str(origin.key)
        for name, origin in origins.items()
        if name not in graph.inputs
        # Floats between dequantization and quantization are what the library fuses away.
        and (name in graph.outputs or np.issubdtype(graph.tensors[name].dtype, np.integer))
    }
    inside = list(dict.fromkeys(key for key in wanted.values() if key not in ends))
    model.graph.output.extend(onnx.ValueInfoProto(name=key) for key in inside)
    steps = open_library(model.SerializeToString(), "onnx", exactness)
    names = [output.name for output in model.graph.output]
    whole_names = [output.name for output in whole.get_outputs()]

    def run(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = dict(zip(names, steps([values[name] for name in graph.inputs]), strict=True))
        found |= dict(zip(whole_names, whole.run(None, dict(values)), strict=True))
        return {
            name: origins[name].from_file(found[key], graph.tensors[name].shape)
            for name, key in wanted.items()
        }

    return run
