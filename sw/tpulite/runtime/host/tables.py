"""Functions of one byte as tables of what a library computes of all 256 of them."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.numerics import INT8
from tpulite.golden.ops import softmax
from tpulite.graph.graph import Graph, Node
from tpulite.graph.passes.byte_functions import ByteFunction, byte_functions, with_tables
from tpulite.quant.exactness import Exactness
from tpulite.quant.exactness.functions import function_table
from tpulite.quant.exactness.litert import UndecidedError
from tpulite.quant.exactness.real import APPROXIMATED
from tpulite.quant.exactness.softmax import fixed_point_exponentials
from tpulite.quant.tensors import UnsupportedError, quantized
from tpulite.runtime.host.libraries import KERNELS, open_library, require_library

_TRIED = {
    Exactness.LITERT_REF: (Exactness.LITERT_REF, Exactness.LITERT_OPT),
    Exactness.LITERT_OPT: (Exactness.LITERT_OPT,),
}
"""Kernels that may compute a function: the reference ones lack some operators of the others."""

_TIMES = 4
"""So often each byte comes, at different places of a vector."""

_VECTOR = 64
"""Elements after which code for vectors certainly begins anew."""


def tabulate(graph: Graph, exactness: Exactness) -> Graph:
    """Return a graph whose functions of one byte that only LiteRT knows are tables.

    In a TFLite file they are those of several operators, in an ONNX file operators whose last bits
    decide how a result is rounded. LiteRT computes them itself, on the part of the file that has
    them, or on an operator that is written for it. A function is taken only if equal bytes give
    equal results wherever they are; the last elements, which code for vectors may leave to other
    code, are as many as in the file.

    Parameters
    ----------
    graph : Graph
        The network, simplified.
    exactness : Exactness
        Whose numerics; those of others than LiteRT change nothing. For TFLite Micro's, an ONNX
        file has the results of LiteRT's reference kernels.

    Raises
    ------
    ValueError
        If LiteRT is not installed and an ONNX file needs it, whose library rounds in another way.
    """
    if graph.format == "onnx":
        functions = _undecided(graph, exactness)
        tables = {each.target: _asked(graph, each, exactness) for each in functions}
        return with_tables(graph, functions, {y: table for y, table in tables.items() if table})
    functions = _in_file(graph, exactness)
    if not functions:
        return graph
    try:
        require_library("tflite")
    except ValueError:  # who has no LiteRT gets what is known without it
        return graph
    return with_tables(graph, functions, _tables(graph, functions, exactness))


def _in_file(graph: Graph, exactness: Exactness) -> list[ByteFunction]:
    """Return the functions of several operators between tensors of a TFLite file."""
    if graph.source is None or exactness not in _TRIED:
        return []
    known = graph.source.origins.keys()
    return [each for each in byte_functions(graph) if {each.source, each.target} <= known]


def _undecided(graph: Graph, exactness: Exactness) -> list[ByteFunction]:
    """Return the operators whose results are LiteRT's, and known to nobody else."""
    return [
        ByteFunction(node.inputs[0], node.outputs[0], (node,))
        for node in graph.nodes
        if exactness.litert and node.op in APPROXIMATED and _is_undecided(graph, node, exactness)
    ]


def _is_undecided(graph: Graph, node: Node, exactness: Exactness) -> bool:
    try:
        x, y = (quantized(graph.tensors[name]) for name in (node.inputs[0], node.outputs[0]))
        function_table(node.op, x, y, node.attributes, exactness, 0)
    except UnsupportedError as error:
        return isinstance(error, UndecidedError)
    return False


def _asked(graph: Graph, function: ByteFunction, exactness: Exactness) -> tuple[int, ...]:
    """Return the table of an operator of an ONNX file that is written as one of TFLite."""
    require_library("tflite")
    from tpulite.frontend.tflite.writer import write_tflite

    x, y = graph.tensors[function.source], graph.tensors[function.target]
    values = _bytes(x.dtype, math.prod(x.shape))
    tensors = {each.name: replace(each, shape=values.shape) for each in (x, y)}
    ends = {"inputs": (x.name,), "outputs": (y.name,)}
    alone = replace(graph, nodes=function.nodes, tensors=tensors, states=(), **ends)
    (results,) = open_library(write_tflite(alone), "tflite", exactness)([values])
    return _table(values, results)


def _tables(
    graph: Graph, functions: Sequence[ByteFunction], exactness: Exactness
) -> dict[str, tuple[int, ...]]:
    """Return the tables of all functions that have one: from one session, or from one of each."""
    for kernels in _TRIED[exactness]:
        try:
            return _computed(graph, functions, kernels)
        except Exception:  # whatever LiteRT raises
            continue
    if len(functions) == 1:
        return {}
    return {
        name: table
        for each in functions
        for name, table in _tables(graph, [each], exactness).items()
    }


def _computed(
    graph: Graph, functions: Sequence[ByteFunction], exactness: Exactness
) -> dict[str, tuple[int, ...]]:
    from tpulite.frontend.tflite.cut import cut_tflite

    assert graph.source is not None
    origins = graph.source.origins
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its dependencies are not free of deprecations
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

    sources = list(dict.fromkeys(int(origins[each.source].key) for each in functions))
    targets = list(dict.fromkeys(int(origins[each.target].key) for each in functions))
    data, more = cut_tflite(graph.source.data, sources, targets)
    if more:
        raise ValueError("a one-byte function depends on an input of the network")
    kernels = OpResolverType[KERNELS[exactness]]
    session: Any = Interpreter(
        model_content=data, experimental_op_resolver_type=kernels, num_threads=1
    )
    names = {int(origins[each.source].key): each.source for each in functions}
    values = {}
    for details, key in zip(session.get_input_details(), sources, strict=True):
        tensor = graph.tensors[names[key]]
        values[names[key]] = value = _bytes(tensor.dtype, math.prod(tensor.shape))
        shape = [1] * (len(tensor.shape) - 1) + [value.size]
        session.resize_tensor_input(details["index"], shape)
    session.allocate_tensors()
    for details, key in zip(session.get_input_details(), sources, strict=True):
        session.set_tensor(details["index"], values[names[key]].reshape(details["shape"]))
    session.invoke()
    found = {
        key: session.get_tensor(details["index"]).reshape(-1)
        for details, key in zip(session.get_output_details(), targets, strict=True)
    }
    tables = {
        each.target: _table(values[each.source], found[int(origins[each.target].key)])
        for each in functions
    }
    return {name: table for name, table in tables.items() if table}


def _bytes(dtype: str, count: int) -> np.ndarray:
    """Return all bytes several times, each time further on, and as many more as a tensor has."""
    limits = np.iinfo(dtype)
    every = np.arange(limits.min, limits.max + 1)
    turns = [np.roll(every, 7 * turn) for turn in range(_TIMES)]
    return np.concatenate([*turns, every[: count % _VECTOR]]).astype(dtype)


def _table(values: np.ndarray, results: np.ndarray) -> tuple[int, ...]:
    """Return what each byte gives, the least one first; nothing if that depends on its place."""
    if results.shape != values.shape:
        return ()
    low = int(np.iinfo(values.dtype).min)
    table = np.zeros(256, np.int64)
    table[values.astype(np.int64) - low] = results
    same = np.array_equal(table[values.astype(np.int64) - low], results)
    return tuple(table.tolist()) if same else ()


def exponentials(scale: float, beta: float) -> NDArray[np.float32]:
    """Return exp(-d * scale * beta) for differences d of 0 to 255, as the optimized kernel does."""
    exponents = (np.float32(-scale * beta) * np.arange(256, dtype=np.float32)).astype(np.float64)
    return np.exp(exponents).astype(np.float32)


def softmax_table(x: NDArray, scale: float, beta: float, bits: range) -> NDArray[np.int64]:
    """Return what TFLite's optimized kernel gives: float32 exponentials from a table.

    Parameters
    ----------
    x : ndarray of int8 or uint8, [..., n]
        Integers; softmax is along the last axis.
    beta : float
        Factor of the exponents.
    bits : range
        Integers of the output's dtype.
    """
    exps = exponentials(scale, beta)[x.max(axis=-1, keepdims=True).astype(np.int64) - x]
    total = np.zeros(x.shape[:-1], np.float32)
    for column in np.moveaxis(exps, -1, 0):  # float32 sums depend on their order
        total = total + column
    shares = exps * (np.float32(1) / (total * np.float32(1 / 256)))[..., None]
    rounded = np.floor(shares + np.float32(0.5)).astype(np.int64)
    return np.clip(rounded + bits[0], bits[0], bits[-1])


def softmax_fixed_point(x: NDArray, scale: float, beta: float, bits: range) -> NDArray[np.int64]:
    """Return what TFLite's reference kernel and TFLite Micro give: integers only.

    Parameters are those of :func:`softmax_table`.
    """
    return softmax(x, fixed_point_exponentials(scale, beta)).astype(np.int64) - INT8[0] + bits[0]
