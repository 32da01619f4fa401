"""docs/reached.md: rewrites, and pairs of them, that the draws reach."""

import tempfile
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from tpulite.compiler.options import Options
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import random_compilation
from tpulite_testing.files.tflite_graph import write_tflite
from tpulite_testing.jobs import plain
from tpulite_testing.jobs.networks import operators_graph
from tpulite_testing.plain.draw import FAMILIES, draw_network
from tpulite_testing.reached.trace import GRAPH_REWRITES, LAYER_REWRITES, Reached

__all__ = ["REASONS", "SOURCES", "draw_all", "page", "unreached"]

REASONS = {
    "fold constants": "the readers of files work out constants before; cases are in "
    "`test_passes_fold.py`",
    "fold batch norm": "it is for float networks, which nothing compiles; cases are in "
    "`test_passes_fold.py`",
    "stack images": "the images of a batch become one where every layer sees single pixels: dense "
    "layers and functions, which few other rewrites touch; dense mode is not for tall images; "
    "`test_batch.py` has cases",
    "substitute layers": "it is for depthwise convolutions with dilations above 15, which few "
    "files have, and dilated convolutions are not joined",
    "fuse crops": "it is for convolutions whose ends are cut off, which are those of TCN: rows, "
    "without strides and without more inputs",
    "fold space to batch": "it is for dilated convolutions of files with an open batch",
    "trace origins": "it is for ONNX files that move axes themselves: heads of boxes and rows",
    "remove dead nodes": "converters leave no dead nodes; two families of plain networks have some",
    "tabulate chains": "drawn TFLite networks have no chain left when they come to the compiler, "
    "and ONNX networks are padded and clipped by their library",
    "remove identities": "what it removes is at the ends of files, or doubled reshapes of heads",
    "join moves": "it is for moves of elements one behind the other, which are at heads and frames",
}
"""Why rewrites are in pairs that no draw reaches, the rarest first."""

_EACH = 8
"""Networks of each family, which have all forms."""

_PATCHWORKS, _OPERATORS, _GRAPHS = 60, 300, 2000

SOURCES = ("TFLite", "ONNX", "operators", "layers")
"""Plain networks in two formats, TFLite networks of any operators, and graphs of layers."""

_TEXT = """# Rewrites that the tests reach

Written by `python scripts/reached_page.py`. A network is rewritten on its way to a program: first
the graph of the file (`tpulite.graph.passes`), then the layers of the machine
(`tpulite.compiler.rewritten.PASSES`). Errors hide where two rewrites meet, so it is counted which
ones drawn networks reach: {plain} plain networks in each format, as people build them
(`tpulite_testing.plain`), {operators} TFLite networks of any operators one behind the other, and
{graphs} graphs of layers, which have what files rarely have. `tpulite regress --jobs
plain-tflite,plain-onnx,litert-networks,random-graphs` compares their results with a library or with
the definition of the layers, bit by bit; `make test` does it with some of them.

## Rewrites

Networks in which a rewrite changed something.

{alone}

## Pairs

Networks in which both changed something; of two passes of the compiler also, behind the stroke, in
which the second one changed a layer that the first one had made, or where a pass changed three
layers in a row. The rewrite of the row runs first.

{graph_pairs}

{layer_pairs}

## Pairs that no draw reaches

{left}
"""


def draw_all() -> dict[str, Reached]:
    """Return what the draws reach, by source."""
    found = {name: Reached() for name in SOURCES}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("ONNX", "TFLite"):
            path = Path(folder) / f"net.{name.lower()}"
            for seed in (*range(_EACH * len(FAMILIES)), *_of("patchwork", _PATCHWORKS)):
                plain.write_plain_file(seed, draw_network(seed), path)
                options = Options(batch=plain.batch(seed))
                found[name].add_file(path, plain.machine(seed), options)
        for seed in range(_OPERATORS):
            path.write_bytes(write_tflite(operators_graph(seed)))
            found["operators"].add_file(path, plain.machine(seed), Options())
    for seed in range(_GRAPHS):
        case = random_compilation(Seeded(seed))
        found["layers"].add_layers(case.graph, case.config, case.options)
    return found


def _of(family: str, count: int) -> list[int]:
    """Return seeds of more networks of a family."""
    first = list(FAMILIES).index(family)
    return [first + len(FAMILIES) * n for n in range(_EACH, _EACH + count)]


def unreached(found: dict[str, Reached]) -> list[tuple[str, str]]:
    """Return the pairs of rewrites that no draw reaches together, in their order."""
    together = sum((each.together for each in found.values()), start=Reached().together)
    return [pair for pair in combinations((*GRAPH_REWRITES, *LAYER_REWRITES), 2)
            if not together[pair] and not together[pair[::-1]]]  # fmt: skip


def page(found: dict[str, Reached]) -> str:
    """Return the text of the page.

    Parameters
    ----------
    found : dict of str to Reached
        By source.
    """
    every = (*GRAPH_REWRITES, *LAYER_REWRITES)
    rows = [[name, *(str(found[source].alone[name]) for source in SOURCES)] for name in every]
    return _TEXT.format(
        plain=_EACH * len(FAMILIES) + _PATCHWORKS,
        operators=_OPERATORS,
        graphs=_GRAPHS,
        alone=_table(["rewrite", *SOURCES], rows),
        graph_pairs=_pairs(found, GRAPH_REWRITES, every),
        layer_pairs=_pairs(found, LAYER_REWRITES, LAYER_REWRITES),
        left=_left(unreached(found)),
    )


def _left(pairs: list[tuple[str, str]]) -> str:
    """Return the pairs that no draw reaches, by the rarer rewrite of each."""
    rarer = {name: [] for name in (*REASONS, "")}
    for pair in pairs:
        name = next((name for name in REASONS if name in pair), "")
        rarer[name].append(" and ".join(pair) if not name else pair[pair[0] == name])
    lines = [f"- **{name}** and {', '.join(others)}: {REASONS[name]}."
             for name, others in rarer.items() if name and others]  # fmt: skip
    return "\n".join([*lines, *(f"- {pair}: a case is missing." for pair in rarer[""])])


def _pairs(found: dict[str, Reached], rows: Sequence[str], columns: Sequence[str]) -> str:
    both = sum((each.together for each in found.values()), start=Reached().together)
    met = sum((each.met for each in found.values()), start=Reached().met)

    def cell(a: str, b: str) -> str:
        if a == b:
            return f"/ {met[a, a]}" if a in LAYER_REWRITES else ""
        layers = {a, b} <= set(LAYER_REWRITES)
        return f"{both[a, b]} / {met[a, b]}" if layers else f"{both[a, b] + both[b, a]}"

    numbers = [[a, *(cell(a, b) if columns.index(b) >= columns.index(a) else "" for b in columns)]
               for a in rows]  # fmt: skip
    return _table(["", *columns], numbers)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
