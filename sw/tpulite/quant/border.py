"""Where the border between CPU and machine lies, beyond what each of them must run.

The reasons are in docs/decisions/0026-the-border.md.
"""

from collections import Counter
from math import prod

from tpulite.graph.graph import Node
from tpulite.graph.layers import Reshape
from tpulite.graph.macs import macs_of
from tpulite.quant.own import is_own
from tpulite.quant.placed import Placed

_FEW = 100
"""Part of the machine's MACs that may run on the CPU to save crossings."""

_ENLARGED = 4
"""Times that a result must be larger than what it is made of to be cheaper to make than to move."""

_RESIZES = ("resize_bilinear", "resize_nearest")

_MOVES = ("reshape", "transpose", "requantize")
"""Operators that the CPU does while it hands a tensor over."""

_PRODUCTS = ("conv", "depthwise", "dense", "transposed_conv", "matmul")

_TINY = 1 << 12
"""MACs that cost no more than to start a program: not worth two crossings."""


def taken_along(placed: Placed, *, strict: bool) -> dict[str, str]:
    """Return the nodes of the machine that the CPU should run, and why.

    - A transpose of the matrix unit whose result only the CPU or the user reads: whoever hands the
      tensor over orders its elements as well.
    - A reshape that parts the channels of a vector, which only some dense layers can do without, if
      another node reads it.
    - A resize that makes a tensor at least four times larger for nobody but the CPU, unless that
      may do only what it must: the small one crosses.
    - A softmax that no product depends on, unless the CPU may do only what it must: whoever reads
      the result reads each of its elements anyway.
    - Beside segments that a library runs, what saves crossings and costs little: segments of the
      machine, as long as they have a hundredth of its MACs together, and any of at most 4,096 MACs
      between two of a library's. If the library has other numerics than the network, they are
      those that numpy runs. Segments with sums of int32 as results stay: they are steps of a
      recurrence, which share one program.
    - What stands between a library and the machine where the file has no tensor.

    Parameters
    ----------
    placed : Placed
        The network so far.
    strict : bool
        Whether the CPU may do only what it must.
    """
    taken = _reordered(placed) | _parted(placed) | ({} if strict else _last_softmax(placed))
    if placed.graph.source is None:
        return taken
    if not strict:
        taken |= _enlarged(placed)
    if not placed.libraries:
        return taken
    return taken | _cheap(placed) | _without_tensor(placed)


def _reordered(placed: Placed) -> dict[str, str]:
    """Return transposes of the matrix unit whose result, moved, only the CPU or the user reads."""
    graph, levels = placed.graph, placed.levels
    machine = {node.name for node in graph.nodes if levels[node.name] % 2}
    wanted: set[str] = set()  # by the machine
    taken = {}
    for node in reversed(graph.nodes):
        if node.name not in machine:
            continue
        if node.op not in _MOVES or wanted & set(node.outputs):
            wanted.update(node.inputs)
        elif node.op == "transpose" and placed.placements[node.name].engine == "MXU":
            taken[node.name] = "only CPU operators read its output"
    return taken


def _last_softmax(placed: Placed) -> dict[str, str]:
    """Return the softmaxes of the machine that no product depends on."""
    wanted: set[str] = set()  # by a product
    taken = {}
    for node in reversed(placed.graph.nodes):
        if node.op in _PRODUCTS or wanted.intersection(node.outputs):
            wanted.update(node.inputs)
        elif node.op == "softmax" and placed.levels[node.name] % 2:
            taken[node.name] = "it is at the end of the network; --strict runs it on the machine"
    return taken


def _parted(placed: Placed) -> dict[str, str]:
    """Return reshapes that no command can do and that not only dense layers beside them read."""
    graph, levels, taken = placed.graph, placed.levels, {}
    for level, context in placed.contexts.items():
        elsewhere = {x for node in graph.nodes if levels[node.name] != level for x in node.inputs}
        for layer in context.layers:
            parted = layer.output in context.parted and isinstance(layer, Reshape)
            if parted and layer.output in elsewhere:
                taken[layer.name] = "it splits the channels of a vector"
    return taken


def _enlarged(placed: Placed) -> dict[str, str]:
    """Return the resizes of the machine whose results only the CPU reads, and are much larger."""
    graph, levels = placed.graph, placed.levels
    wanted = set(graph.wanted)  # by the user, or by the machine
    wanted |= {name for node in graph.nodes if levels[node.name] % 2 for name in node.inputs}
    taken = {}
    for node in graph.nodes:
        if node.op not in _RESIZES or levels[node.name] % 2 == 0 or wanted & set(node.outputs):
            continue
        small, large = (
            prod(graph.tensors[name].shape) for name in (node.inputs[0], node.outputs[0])
        )
        if large >= _ENLARGED * small:
            times = f"{large / small:.0f} times the size of its input"
            taken[node.name] = f"only CPU operators read its output, {times}"
    return taken


def _cheap(placed: Placed) -> dict[str, str]:
    """Return the nodes of small segments beside a library's."""
    graph, levels, placements = placed.graph, placed.levels, placed.placements
    macs, total, spent = Counter[int](), 0, 0
    sums = {levels[node.name] for node in graph.nodes if node.attributes.get("raw")}
    for node in graph.nodes:
        count = macs_of(node, graph)
        if levels[node.name] % 2:
            macs[levels[node.name]] += count
            total += count
        elif placements[node.name].follows:
            total += count
            spent += count
    taken, stay = set(), sums | _foreign(placed)
    for level in sorted(set(levels.values()), key=lambda level: macs[level]):
        if level % 2 == 0 or level in stay:
            continue
        beside = placed.libraries.intersection((level - 1, level + 1))
        if beside and total and (spent + macs[level]) * _FEW <= total:
            spent += macs[level]
            taken.add(level)
        elif len(beside) == 2 and macs[level] <= _TINY:
            taken.add(level)
    reason = "it has few MACs: on the CPU it saves transfers"
    return {node.name: reason for node in graph.nodes if levels[node.name] in taken}


def _foreign(placed: Placed) -> set[int]:
    """Return the segments of the machine that only a library of other numerics could run.

    Numpy runs the others, between tensors of the file.
    """
    graph, exactness = placed.graph, placed.exactness
    if exactness.is_of_format(graph.format):
        return set()
    origins = {} if graph.source is None else graph.source.origins
    found = set()
    for node in graph.nodes:
        ends = (x for x in (*node.inputs, *node.outputs) if x and graph.tensors[x].data is None)
        if not (is_own(node, graph, exactness) and all(x in origins for x in ends)):
            found.add(placed.levels[node.name])
    return found


def _without_tensor(placed: Placed) -> dict[str, str]:
    """Return the nodes of the machine at a library's border where the file has no tensor."""
    graph, levels = placed.graph, placed.levels
    origins = {} if graph.source is None else graph.source.origins
    producer: dict[str, Node] = {name: node for node in graph.nodes for name in node.outputs}
    taken = {}
    for node in graph.nodes:
        for name in node.inputs:
            if name not in producer or name in origins:
                continue
            for mine, other in ((node, producer[name]), (producer[name], node)):
                if levels[mine.name] % 2 and placed.runners.get(other.name) == graph.format:
                    taken[mine.name] = f"the file has no tensor between it and {other.name!r}"
    return taken
