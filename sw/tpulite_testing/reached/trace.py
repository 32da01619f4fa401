"""Rewrites that change a network, and where two of them meet."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.compiler.passes import REWRITES
from tpulite.compiler.state import State
from tpulite.frontend.files import load_graph
from tpulite.graph.graph import Graph
from tpulite.graph.layers import LayerGraph
from tpulite.graph.passes.simplify import PASSES as GRAPH_PASSES
from tpulite.runtime.model import Model

__all__ = ["GRAPH_REWRITES", "LAYER_REWRITES", "Reached"]

GRAPH_REWRITES = tuple(dict.fromkeys(each.__name__.replace("_", " ") for each in GRAPH_PASSES))
"""Passes of a file's graph, by name."""

LAYER_REWRITES = tuple(each.name.replace("-", " ") for each in REWRITES)
"""Passes over layers, by name."""

_ROW = 3
"""Layers one behind the other that a pass changed: it has met itself. Some change two at once."""


@dataclass
class Reached:
    """Counts of the networks in which rewrites changed something."""

    alone: Counter[str] = field(default_factory=Counter)  #: By rewrite.
    #: By pair, in their order: both changed something.
    together: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: By pair of the compiler's passes: the second one changed a layer that the first one had made.
    #: A pass with itself: it changed three layers in a row.
    met: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add_file(self, path: Path, config: Config, options: Options) -> None:
        """Count what a file goes through on its way to a program."""
        graph, names = load_graph(path), []
        for each in GRAPH_PASSES:
            after = each(graph)
            if _nodes(after) != _nodes(graph):
                names.append(each.__name__.replace("_", " "))
            graph = after
        model = Model.load(path, config=config, options=options)
        traced = [list(_trace(layers, config, options)) for layers in model.layers]
        self._count(names, traced)

    def add_layers(self, layers: LayerGraph, config: Config, options: Options) -> None:
        """Count what a graph of layers goes through."""
        self._count([], [list(_trace(layers, config, options))])

    def _count(self, names: list[str], traced: list[list["_Change"]]) -> None:
        """Count a network, of which the compiler gets parts."""
        alone, together, met = {*names}, set(), set()
        for part in traced:
            every = [*names, *(change.name for change in part)]
            alone |= {*every}
            together |= {(a, b) for i, a in enumerate(every) for b in every[i + 1 :]}
            met |= {(change.name, change.name) for change in part if change.in_a_row}
            for i, first in enumerate(part):
                met |= {(first.name, each.name) for each in part[i + 1 :] if first.meets(each)}
        self.alone.update(alone)
        self.together.update(together)
        self.met.update(met)


@dataclass(frozen=True)
class _Change:
    """What a pass of the compiler did: names of layers that it made, and of those it replaced."""

    name: str
    made: frozenset[str]
    replaced: frozenset[str]
    in_a_row: bool

    def meets(self, later: "_Change") -> bool:
        """Return whether a later change is of a layer that this one made."""
        return bool(self.made & later.replaced)


def _trace(layers: LayerGraph, config: Config, options: Options) -> Iterator[_Change]:
    state = State.of(layers, config, options)
    for name, each in zip(LAYER_REWRITES, REWRITES, strict=True):
        after = each.run(state) if each.runs(options) else state
        change = _change(name, state.layers, after.layers)
        if change is not None:
            yield change
        state = after


def _change(name: str, before: LayerGraph, after: LayerGraph) -> _Change | None:
    """Return what a pass did, if anything."""
    old, new = ({id(layer) for layer in each.layers} for each in (before, after))
    made = frozenset(layer.name for layer in after.layers if id(layer) not in old)
    replaced = frozenset(layer.name for layer in before.layers if id(layer) not in new)
    order = [[layer.name for layer in each.layers] for each in (before, after)]
    if not made | replaced and order[0] == order[1] and before.activations == after.activations:
        return None
    lengths: dict[str, int] = {}  # of rows of layers that were made, by their outputs
    for layer in after.layers:
        if layer.name in made:
            lengths[layer.output] = 1 + max((lengths.get(x, 0) for x in layer.inputs), default=0)
    return _Change(name, made, replaced, max(lengths.values(), default=0) >= _ROW)


def _nodes(graph: Graph) -> tuple[object, ...]:
    """Return what says whether two graphs are the same."""
    origins = None if graph.source is None else graph.source.origins
    nodes = [(node.op, node.inputs, node.outputs, len(node.attributes)) for node in graph.nodes]
    return nodes, origins
