"""Networks without their beginning or end: from some tensors of a file to others."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from tpulite.frontend.backwards import needed
from tpulite.frontend.onnx.signs import AS_UINT8
from tpulite.graph.graph import Graph
from tpulite.near import no_such
from tpulite.needs import require_package


def cut_graph(graph: Graph, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> Graph:
    """Return the part of a network between some tensors of its file.

    Parameters
    ----------
    graph : Graph
        What was read from a file, not simplified; or what a library makes of that.
    inputs, outputs : sequence of str
        Tensors by the names that they have in the file, or nodes by theirs, which stand for their
        first results; several may be joined by commas. Without, those of the network. Inputs of
        the network that are needed besides remain inputs.

    Returns
    -------
    Graph
        What the part of the file means, read from a file of its own.

    Raises
    ------
    ValueError
        If there is no such tensor, an output is not computed, or does not need an input; or if the
        network comes from no such file, or what cuts it is not installed.
    """
    if not inputs and not outputs:
        return graph
    if graph.source is None:
        raise ValueError("--inputs and --outputs need a TFLite or ONNX file")
    cut = _cut_tflite if graph.format == "tflite" else _cut_onnx
    return cut(graph, graph.source.data, inputs, outputs)


def _cut_tflite(graph: Graph, data: bytes, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
    from tpulite.frontend.tflite.cut import cut_tflite
    from tpulite.frontend.tflite.file import load_tflite

    for package in ("ai_edge_litert", "flatbuffers"):
        require_package(package, "litert", "--inputs and --outputs of a TFLite file")
    assert graph.source is not None
    numbers = {name: int(origin.key) for name, origin in graph.source.origins.items()}
    computed = {name for node in graph.nodes for name in node.outputs}
    computed &= numbers.keys()
    nodes = _first_results((node.name, node.outputs) for node in graph.nodes)
    given = _resolve(inputs, computed | set(graph.given), nodes)
    wanted = _resolve(outputs, computed, nodes) or list(graph.outputs)
    _check_use([(node.inputs, node.outputs) for node in graph.nodes], given, wanted)
    begins, states = [numbers[x] for x in given], ()
    while True:  # what computes a state may need others
        ends = dict.fromkeys(numbers[x] for x in (*wanted, *(state.output for state in states)))
        file, more = cut_tflite(data, begins, list(ends))
        reached = tuple(state for state in graph.states if numbers[state.input] in more)
        if len(reached) == len(states):
            break
        states = reached
    part = load_tflite(file, graph.name)
    before = dict(zip((*begins, *more), part.inputs, strict=True))
    after = dict(zip(ends, part.outputs, strict=True))
    states = tuple(
        replace(state, input=before[numbers[state.input]], output=after[numbers[state.output]])
        for state in states
    )
    held = {state.input for state in states}
    return replace(
        part,
        inputs=tuple(name for name in part.inputs if name not in held),
        outputs=tuple(after[numbers[name]] for name in wanted),
        states=states,
    )


def _cut_onnx(graph: Graph, data: bytes, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
    from tpulite.frontend.onnx.cut import cut_onnx
    from tpulite.frontend.onnx.file import load_onnx
    from tpulite.frontend.onnx.read.model import read_onnx, with_types

    model = read_onnx(data)
    nodes = _first_results((node.name, node.outputs) for node in model.nodes)
    assert graph.source is not None
    nodes |= {name.removesuffix(AS_UINT8): name for name in model.computed}
    for node in graph.nodes:  # of several nodes of the file that became one, the last counts
        if (origin := graph.source.origins.get(node.outputs[0])) is not None:
            nodes[node.name] = str(origin.key)
    given = _resolve(inputs, model.computed, nodes)
    computed = model.computed - set(model.inputs)
    wanted = _resolve(outputs, computed, nodes) or list(model.outputs)
    types = {}
    for name in (*given, *wanted):
        dtype, shape = model.types.get(name, ("object", None))
        if shape is not None:
            types[name] = dtype, shape
        elif name in given:
            raise ValueError(f"tensor {name!r} has a shape that is known only at run time")
    _check_use([(node.inputs, node.outputs) for node in model.nodes], given, wanted)
    file, _ = cut_onnx(data, {name: types[name] for name in given}, wanted)
    return load_onnx(with_types(file, types), graph.name, library=graph.source.library)


def _first_results(nodes: Iterable[tuple[str, Sequence[str]]]) -> dict[str, str]:
    return {name: outputs[0] for name, outputs in nodes if outputs}


def _resolve(asked: Sequence[str], known: Collection[str], nodes: Mapping[str, str]) -> list[str]:
    """Return the tensors that were asked for by their names, or by those of nodes, each once."""
    found: dict[str, None] = {}
    for text in asked:
        for name in [text] if text in known else text.split(","):
            tensor = name if name in known else nodes.get(name, "")
            if tensor not in known:
                raise ValueError(no_such("tensor or node", name, sorted({*known, *nodes})))
            found[tensor] = None
    return list(found)


def _check_use(
    operators: list[tuple[tuple[str, ...], tuple[str, ...]]],
    given: Sequence[str],
    wanted: Sequence[str],
) -> None:
    """Check that every tensor that is given is needed, and none is both."""
    for name in given:
        if name in wanted:
            raise ValueError(f"tensor {name!r} cannot be an input and an output at once")
        chosen, _ = needed(operators, given, wanted)
        if not any(name in operators[index][0] for index in chosen):
            raise ValueError(f"tensor {name!r} is not needed by {', '.join(map(repr, wanted))}")
