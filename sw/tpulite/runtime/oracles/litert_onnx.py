"""LiteRT as the oracle of an ONNX file whose integers have its numerics.

Every quantized operator is written as one of TFLite's, and LiteRT's own kernels run them. What is
float in the file, as embeddings and masks in front of a transformer, ONNX Runtime runs from the
file itself. Parts of both kinds take turns.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tpulite.frontend.onnx.cut import cut_onnx
from tpulite.frontend.onnx.library import open_session
from tpulite.graph.graph import Graph, Node
from tpulite.graph.passes.trace_origins import trace_origins
from tpulite.quant.exactness import Exactness
from tpulite.quant.library import as_library
from tpulite.quant.runners import is_litert
from tpulite.runtime.host.libraries import DECIDED, open_library, reads_sums_unsigned
from tpulite.runtime.oracles.oracle import Oracle, Run, Values
from tpulite.runtime.states import States

_INTEGERS = ("int8", "uint8")


@dataclass(frozen=True)
class _Part:
    """Operators that one library runs: whether it is LiteRT, and the operators in order."""

    litert: bool
    nodes: tuple[Node, ...]


def open_litert_of_onnx(graph: Graph, name: str) -> Oracle:
    """Open sessions of LiteRT, and of ONNX Runtime for what is float.

    Parameters
    ----------
    graph : Graph
        What was read from an ONNX file.
    name : str
        LiteRT's kernels: ``litert-ref``, ``litert-opt`` or ``litert-xnnpack``.

    Raises
    ------
    ValueError
        If a part of the network can be written for neither library.
    """
    exactness = Exactness(name)
    graph = trace_origins(as_library(graph, exactness))
    runs = [
        (_by_litert if part.litert else _by_file)(graph, part, exactness)
        for part in _parts(graph, exactness)
    ]

    states = States(graph)

    def run(values: Values) -> dict[str, np.ndarray]:
        found = {**values, **states.given()}
        for each in runs:
            found |= each(found)
        states.keep(lambda name: found[name])
        return {x: found[x] for node in graph.nodes for x in node.outputs if x in found}

    return Oracle(run, resets=(states.reset,))


def _parts(graph: Graph, exactness: Exactness) -> Iterator[_Part]:
    """Yield parts in the order in which they run; each operator is in the first that it can be."""
    level: dict[str, int] = {}
    parts: list[list[Node]] = []
    for node in graph.nodes:
        before = max((level[x] for x in node.inputs if x in level), default=0)
        own = before + (before % 2 != _is_integer(graph, node, exactness))
        level.update(dict.fromkeys(node.outputs, own))
        parts += [[] for _ in range(own + 1 - len(parts))]
        parts[own].append(node)
    for index, nodes in enumerate(parts):
        if nodes:
            yield _Part(index % 2 == 1, tuple(nodes))


def _is_integer(graph: Graph, node: Node, exactness: Exactness) -> bool:
    """Tell whether TFLite has an operator for a node, all of whose activations are integers.

    QUANTIZE may read floats and DEQUANTIZE make them: how they round is part of the numerics.
    """
    if node.op in ("quantize", "dequantize"):
        ends = (graph.tensors[x] for x in (node.inputs[0], node.outputs[0]))
        return sum(tensor.dtype in _INTEGERS for tensor in ends) == 1
    return is_litert(node, graph, exactness)


def _ends(graph: Graph, part: _Part) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what operators read from others, and all that they compute."""
    made = tuple(x for node in part.nodes for x in node.outputs)
    read = (x for node in part.nodes for x in node.inputs if x and graph.tensors[x].data is None)
    return tuple(dict.fromkeys(x for x in read if x not in made)), made


def _by_litert(graph: Graph, part: _Part, exactness: Exactness) -> Run:
    from tpulite.frontend.tflite.writer import write_tflite

    inputs, outputs = _ends(graph, part)
    whole = replace(graph, nodes=part.nodes, inputs=inputs, outputs=outputs, states=())
    file = write_tflite(whole, unsigned_sums=reads_sums_unsigned(exactness))
    run = open_library(file, "tflite", exactness)
    return _named(run, inputs, outputs)


def _by_file(graph: Graph, part: _Part, exactness: Exactness) -> Run:
    """Run operators from the file; tensors that it does not have are moved from those that it has.

    Moves and other tensors inside a part are not shown.
    """
    assert graph.source is not None
    origins = graph.source.origins
    read, made = _ends(graph, part)
    later = {x for node in graph.nodes if node not in part.nodes for x in node.inputs}
    outputs = [x for x in made if x in later or x in graph.wanted]
    missing = [x for x in (*read, *outputs) if x not in origins]
    if missing:
        raise ValueError(f"tensor {missing[0]!r} between both libraries is none of the file")
    given = {x: origins[x] for x in read}
    kinds = {
        str(y.key): (
            y.dtype(graph.tensors[x]),
            graph.tensors[x].shape if y.shape is None else y.shape,
        )
        for x, y in given.items()
    }
    keys = list(dict.fromkeys(str(origins[x].key) for x in outputs))
    file, more = cut_onnx(graph.source.data, kinds, keys)
    session = open_session(file, "ENABLE_ALL", disabled=DECIDED)

    def run(values: Values) -> dict[str, np.ndarray]:
        feed = {str(y.key): np.asarray(y.to_file(values[x])) for x, y in given.items()}
        results = dict(
            zip(keys, session.run(keys, feed | {x: values[x] for x in more}), strict=True)
        )
        return {
            x: origins[x].taken(np.asarray(results[str(origins[x].key)]), graph.tensors[x])
            for x in outputs
        }

    return run


def _named(
    run: Callable[[Sequence[np.ndarray]], list[np.ndarray]],
    inputs: Sequence[str],
    outputs: Sequence[str],
) -> Run:
    def named(values: Values) -> dict[str, np.ndarray]:
        try:
            return dict(zip(outputs, run([values[x] for x in inputs]), strict=True))
        except RuntimeError as error:  # LiteRT's, for values that a kernel refuses
            raise ValueError(f"LiteRT refuses the input: {str(error).splitlines()[0]}") from error

    return named
