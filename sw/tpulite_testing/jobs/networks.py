"""Network files, on the golden machine and by the library of their format."""

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

from tpulite.frontend.tflite.writer import write_tflite
from tpulite.graph.graph import Graph
from tpulite.runtime.model import Model
from tpulite_testing.drawn import onnx_cases
from tpulite_testing.drawn.graphs import random_graph
from tpulite_testing.drawn.operator_cases import OPERATORS, draw_case
from tpulite_testing.jobs.fewest import fewest, graph_of
from tpulite_testing.oracles.litert import KERNELS, run_litert
from tpulite_testing.oracles.model_tensors import equals_library
from tpulite_testing.quick_options import quick_options

__all__ = [
    "litert_network",
    "litert_operator",
    "litert_operator_file",
    "onnx_operator",
    "onnx_operator_file",
    "operators_graph",
    "smallest_litert_network",
]

_STEPS = 8
"""Operators of a network."""


def litert_network(seed: int) -> dict[str, int]:
    """Compare all tensors of a TFLite network of some operators with LiteRT's reference kernels."""
    model = _as_litert(operators_graph(seed))
    return {"networks": 1, "operators": len(model.graph.nodes)} | _hosted(model)


def smallest_litert_network(seed: int, folder: Path) -> Path:
    """Write the fewest operators of a network that still fail in the same way, as TFLite."""
    graph = operators_graph(seed)
    found = fewest(graph.nodes, partial(graph_of, graph), _as_litert)
    path = folder / f"litert-networks-{seed}.tflite"
    path.write_bytes(write_tflite(found))
    return path


def operators_graph(seed: int) -> Graph:
    """Draw a network of some operators."""
    graph = random_graph(seed, real=False, steps=_STEPS)
    return replace(graph, outputs=tuple(n for n in graph.outputs if n not in graph.inputs))


def _as_litert(graph: Graph) -> Model:
    with tempfile.TemporaryDirectory() as folder:
        return equals_library(Path(folder), write_tflite(graph), count=2)


def litert_operator(seed: int) -> dict[str, int]:
    """Compare an operator of TFLite with LiteRT: kinds in turn, and its three kernel sets."""
    case = draw_case(OPERATORS[seed % len(OPERATORS)], seed)
    exact = list(KERNELS)[seed // len(OPERATORS) % len(KERNELS)]
    try:
        theirs = run_litert(case, exact)
    except (RuntimeError, ValueError):
        return {"refused by LiteRT": 1}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.tflite"
        path.write_bytes(case.model)
        model = Model.load(path, exact=str(exact), options=quick_options())
        inputs = dict(zip(model.graph.inputs, case.inputs, strict=True))
        ours = model.run(inputs, "golden").output
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), (case.name, exact)
    differ = int((ours != theirs).sum())
    assert not differ, f"{differ} of {ours.size} elements of {case.name} as {exact} differ"
    return {"operators": 1, "elements": ours.size} | _hosted(model)


def litert_operator_file(seed: int, folder: Path) -> Path:
    """Write the operator as TFLite."""
    path = folder / f"litert-operators-{seed}.tflite"
    path.write_bytes(draw_case(OPERATORS[seed % len(OPERATORS)], seed).model)
    return path


def onnx_operator(seed: int) -> dict[str, int]:
    """Compare an operator of ONNX with ONNX Runtime: kinds in turn."""
    with tempfile.TemporaryDirectory() as folder:
        model = equals_library(Path(folder), _onnx(seed), "ort", 1)
    return {"operators": 1} | _hosted(model)


def onnx_operator_file(seed: int, folder: Path) -> Path:
    """Write the operator as ONNX."""
    path = folder / f"onnx-operators-{seed}.onnx"
    path.write_bytes(_onnx(seed))
    return path


def _onnx(seed: int) -> bytes:
    op = onnx_cases.OPERATORS[seed % len(onnx_cases.OPERATORS)]
    return onnx_cases.draw_onnx_case(op, seed)[1]


def _hosted(model: Model) -> dict[str, int]:
    return {} if model.layers else {"all on the CPU": 1}
