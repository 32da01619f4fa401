"""docs/reached.md: rewrites, and pairs of them, that the draws reach."""

import tempfile
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from tpulite.compiler.options import Options
from tpulite.frontend.tflite.writer import write_tflite
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import random_compilation
from tpulite_testing.drawn.layer_graphs import KINDS
from tpulite_testing.jobs import plain
from tpulite_testing.jobs.networks import operators_graph
from tpulite_testing.plain.draw import FAMILIES, draw_network
from tpulite_testing.reached.trace import GRAPH_REWRITES, LAYER_REWRITES, Reached

__all__ = ["REASONS", "SOURCES", "draw_all", "page", "unreached"]

REASONS = {
    "fold constants": "importers evaluate constants before this pass; `test_passes_fold.py` has "
    "cases",
    "fold batch norm": "it applies to float networks, which are not compiled; "
    "`test_passes_fold.py` has cases",
    "split lstm": "no draw is recurrent; `test_recurrent.py` has cases",
    "stack images": "it joins the inputs of a batch if all layers work on single pixels (dense "
    "layers and "
    "functions), which few other rewrites change; dense mode excludes tall feature maps; "
    "`test_batch.py` has cases",
    "substitute layers": "it applies to depthwise convolutions with dilations above 15 along x, "
    "which are rare, and "
    "dilated convolutions are not joined",
    "fuse crops": "it applies to convolutions whose ends are cropped, as in TCNs, with unit "
    "strides and one "
    "input",
    "fold space to batch": "it applies to dilated convolutions in files with an open batch",
    "trace origins": "it applies to ONNX files with explicit transposes, such as detection heads",
    "remove dead nodes": "converters leave no dead nodes; two families of typical networks have "
    "some",
    "tabulate chains": "random TFLite networks reach the compiler without chains, and in ONNX "
    "networks the "
    "library pads and clips",
    "remove identities": "it removes nodes at the ends of files, and duplicate reshapes in heads",
    "join moves": "it applies to consecutive data movement operators, which occur in heads and "
    "framing",
}
"""Why rewrites are in pairs that no draw reaches, the rarest first."""

_EACH = 8
"""Networks of each family, which have all forms."""

_PATCHWORKS, _OPERATORS, _GRAPHS, _PARAMETRIC = 60, 300, 2000, 150

SOURCES = ("TFLite", "ONNX", "operators", "layers")
"""Plain networks in two formats, TFLite networks of any operators, and graphs of layers."""

_TEXT = """# Coverage of compiler rewrites

The compiler rewrites a network twice: first the graph of the file (`tpulite.graph.passes`), then
the layers of the machine (`tpulite.compiler.passes.REWRITES`). Rewrites that interact are prone to
errors, so this page counts the rewrites, and pairs of rewrites, that random test networks trigger.
There are three kinds of networks: {plain} typical networks in each format
(`tpulite_testing.plain`), {operators} TFLite networks of random operators in sequence, and
{graphs} graphs of layers, with forms that are rare in files, {parametric} with more slopes by
channel, and as many each with products by transposed images, with squares of pixels as channels,
with reductions of channels and averages of clipped windows, and of layers of single elements.
`tpulite regress --jobs
plain-tflite,plain-onnx,litert-networks,random-graphs` compares their results bit by bit with a
library or with the definition of the layers, and `make test` does so for some of them. `python
scripts/reached_page.py` writes this page.

## Rewrites

Number of networks that a rewrite changed.

{alone}

## Pairs

Number of networks that both rewrites changed. For two passes over layers, the figure after the
slash counts networks in which the second pass changed a layer that the first one had made, or in
which one pass changed three consecutive layers. The rewrite of the row runs first.

{graph_pairs}

{layer_pairs}

## Pairs that no network reaches

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
    for more in KINDS:
        for seed in range(_PARAMETRIC):
            case = random_compilation(Seeded(seed), more=more)
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
    rows = [
        [_code(name), *(str(found[source].alone[name]) for source in SOURCES)] for name in every
    ]
    return _TEXT.format(
        plain=_EACH * len(FAMILIES) + _PATCHWORKS,
        operators=_OPERATORS,
        graphs=_GRAPHS,
        parametric=_PARAMETRIC,
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
        codes = [_code(each) for each in pair]
        rarer[name].append(" and ".join(codes) if not name else codes[pair[0] == name])
    lines = [f"- {_code(name)} and {', '.join(others)}: {REASONS[name]}."
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

    numbers = [
        [_code(a), *(cell(a, b) if columns.index(b) >= columns.index(a) else "" for b in columns)]
        for a in rows
    ]
    return _table(["", *map(_code, columns)], numbers)


def _code(name: str) -> str:
    """Return the name of a rewrite as options have it: names are no prose."""
    return f"`{name.replace(' ', '-')}`"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
