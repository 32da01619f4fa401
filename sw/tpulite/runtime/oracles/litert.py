"""LiteRT as an oracle: its reference, optimized and XNNPACK kernels."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from tpulite.graph.graph import Graph
from tpulite.runtime.oracles.oracle import Oracle, Run, Values

Shape = tuple[int, ...]

RESOLVERS = {
    "litert-ref": "BUILTIN_REF",
    "litert-opt": "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
    "litert-xnnpack": "AUTO",
}
"""LiteRT's names of its kernels."""


def open_litert(data: bytes, graph: Graph, name: str) -> Oracle:
    """Open sessions of LiteRT: one for outputs, one that keeps all tensors.

    What a delegate computes it does not keep, so tensors are outputs of XNNPACK's second file.

    Parameters
    ----------
    data : bytes
        The file. Int8 states of SVDF, which LiteRT does not have, are widened. Where its shapes
        were settled, outputs are those of the untouched file, whose inputs LiteRT resizes.
    graph : Graph
        What was read from it.
    name : str
        One of :data:`RESOLVERS`.
    """
    from tpulite.frontend.tflite.cut import widened

    data = widened(data)
    inputs, outputs, computed = numbers_of(graph)
    untouched = graph.source.untouched if graph.source else b""
    shapes = {number: graph.tensors[x].shape for x, number in inputs.items()} if untouched else {}
    session = _Session(widened(untouched) if untouched else data, name, shapes)
    run = session.runs(graph, inputs, outputs)
    try:
        if name == "litert-xnnpack":
            other, exposed = _exposed(data, graph, name)
        else:
            other = _Session(data, name, {}, keep=True)
            exposed = other.runs(graph, inputs, computed | outputs)
    except ValueError as error:
        return Oracle(run, None, f"it cannot expose them ({error})", (session.open,))
    resets = (session.open, other.open) if graph.states else ()
    return Oracle(run, exposed, resets=resets)


def numbers_of(graph: Graph) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Return the file's numbers of inputs, outputs and of all tensors that operators compute."""
    origins = graph.source.origins if graph.source else {}

    def numbered(names: tuple[str, ...]) -> dict[str, int]:
        return {name: int(origins[name].key) for name in names if name in origins}

    computed = tuple(name for node in graph.nodes for name in node.outputs)
    return numbered(graph.inputs), numbered(graph.outputs), numbered(computed)


class _Session:
    """An interpreter of a file; ``shapes`` are those that inputs are resized to, by number."""

    def __init__(
        self, data: bytes, name: str, shapes: Mapping[int, Shape], *, keep: bool = False
    ) -> None:
        self._data = data
        self._shapes = shapes
        self._kernels = RESOLVERS[name]
        self._keep = keep
        self.interpreter: Any = None
        self.open()

    def open(self) -> None:
        """Make an interpreter, whose states are the first ones: LiteRT resets no resources."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its dependencies are not free of deprecations
            from ai_edge_litert.interpreter import Interpreter, OpResolverType

        self.interpreter = Interpreter(
            model_content=self._data,
            experimental_op_resolver_type=OpResolverType[self._kernels],
            experimental_preserve_all_tensors=self._keep,
        )
        for number, shape in self._shapes.items():
            self.interpreter.resize_tensor_input(number, shape)
        self.interpreter.allocate_tensors()

    def runs(self, graph: Graph, inputs: Mapping[str, int], wanted: Mapping[str, int]) -> Run:
        """Return what runs it for tensors of a graph, each by its number in the file."""
        origins = {} if graph.source is None else graph.source.origins

        def taken(name: str, value: np.ndarray) -> np.ndarray:
            moved = name in origins and origins[name].moves
            return origins[name].from_file(value, graph.tensors[name].shape) if moved else value

        def run(values: Values) -> dict[str, np.ndarray]:
            interpreter = self.interpreter
            for name, number in inputs.items():
                interpreter.set_tensor(number, values[name])
            interpreter.invoke()
            return {name: taken(name, interpreter.get_tensor(i)) for name, i in wanted.items()}

        return run


def _exposed(data: bytes, graph: Graph, name: str) -> tuple[_Session, Run]:
    """Return a session of a file whose outputs are all tensors, and what runs it."""
    from tpulite.frontend.tflite.cut import cut_tflite

    inputs, outputs, computed = numbers_of(graph)
    wanted = computed | outputs
    every = list(dict.fromkeys(wanted.values()))
    file, more = cut_tflite(data, [], every)
    session = _Session(file, name, {})
    details = session.interpreter.get_input_details(), session.interpreter.get_output_details()
    given = dict(zip(more, (x["index"] for x in details[0]), strict=True))
    shown = dict(zip(every, (x["index"] for x in details[1]), strict=True))
    return session, session.runs(
        graph,
        {name: given[number] for name, number in inputs.items() if number in given},
        {name: shown[number] for name, number in wanted.items()},
    )
