"""ONNX Runtime as an oracle: the untouched file, and the graph that it makes of it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tpulite.graph.graph import Graph, Origin
from tpulite.quant.exactness import Exactness
from tpulite.quant.library import as_library
from tpulite.runtime.host.libraries import DECIDED
from tpulite.runtime.oracles.oracle import Oracle, Run, Values
from tpulite.runtime.states import States

ORT = ("ort", "ort-int8")
"""Names of its numerics."""


def open_ort(data: bytes, graph: Graph, name: str) -> Oracle:
    """Open sessions of ONNX Runtime.

    Outputs are those of the untouched file. Tensors inside are those of the graph that the library
    makes of it, where exposing a tensor stops no fusion any more; what is fused away has none.

    Parameters
    ----------
    graph : Graph
        What was read from it.
    name : str
        One of :data:`ORT`.
    """
    from tpulite.frontend.onnx.library import open_session

    exactness = Exactness(name)
    assert graph.source is not None
    decided = DECIDED if graph.source.library else ()
    as_int8 = str(int(exactness == Exactness.ORT_INT8))
    plain = open_session(data, "ENABLE_ALL", disabled=decided, qdqisint8allowed=as_int8)
    ends = (*graph.outputs, *(state.output for state in graph.states))
    run, reset = _runs(plain, graph, ends)
    try:
        exposed, other = _exposed(as_library(graph, exactness), ends)
    except Exception as error:  # it has classes of its own
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return Oracle(run, None, f"its optimized graph does not run ({lines[0]})", (reset,))
    return Oracle(run, exposed, resets=(reset, other))


def _exposed(graph: Graph, ends: tuple[str, ...]) -> tuple[Run, Callable[[], None]]:
    """Return what :func:`_runs` returns for all tensors of a graph that the library has made."""
    import onnx

    from tpulite.frontend.onnx.library import expose, open_session

    assert graph.source is not None
    origins = graph.source.origins
    model = onnx.load_model_from_string(graph.source.data)
    computed = (name for node in graph.nodes for name in node.outputs if name in origins)
    # Floats between dequantization and quantization are what the library fuses away.
    inside = [x for x in computed if np.issubdtype(graph.tensors[x].dtype, np.integer)]
    expose(model, (str(origins[name].key) for name in inside))
    session = open_session(model.SerializeToString(), "ENABLE_ALL", disabled=DECIDED)
    return _runs(session, graph, tuple(dict.fromkeys((*ends, *inside))))


def _runs(session: Any, graph: Graph, wanted: tuple[str, ...]) -> tuple[Run, Callable[[], None]]:
    """Return what runs a session for tensors of a graph, and what lets its states begin anew."""
    origins = graph.source.origins if graph.source else {}
    found = {name: origins.get(name, Origin(name)) for name in wanted}
    keys, states = list(dict.fromkeys(str(each.key) for each in found.values())), States(graph)

    def run(values: Values) -> dict[str, np.ndarray]:
        try:
            results = session.run(keys, {**values, **states.given()})
        except Exception as error:  # it has classes of its own
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise ValueError(f"ONNX Runtime stops: {lines[0]}") from error
        every = dict(zip(keys, map(np.asarray, results), strict=True))
        shown = {}
        for name, origin in found.items():
            shown[name] = origin.taken(every[str(origin.key)], graph.tensors[name])
        states.keep(lambda name: shown[name])
        return shown

    return run, states.reset
