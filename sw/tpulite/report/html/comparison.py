"""The page about a comparison: which tensors have the same bits, drawn and as a table."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tpulite.report.html.items import make_items
from tpulite.report.html.network import Note, draw_network
from tpulite.report.html.shell import Head, Section, as_json, whole_page
from tpulite.report.network_graph import NetworkGraph
from tpulite.report.operator_details import OperatorDetails
from tpulite.runtime.comparison import TensorDifference
from tpulite.runtime.model_compare import Comparison

_SAME = "every bit the same"
_NARROW = "the same where it is computed"
_DIFFERS = "differs"
_UNKNOWN = "not compared"

_COLUMNS = (
    *(("of", "text"), ("tensor", "name"), ("operator", "text"), ("compared", "count")),
    *(("different", "count"), ("largest difference", "real"), ("mean", "real"), ("RMSE", "real")),
    *(("cosine", "real"), ("SNR, dB", "real"), ("first at", "text"), ("not computed", "count")),
)


def make_comparison(
    comparison: Comparison,
    network: NetworkGraph,
    details: Mapping[str, OperatorDetails],
    head: Head,
) -> str:
    """Return the page as HTML; see :func:`tpulite.report.html.write_comparison`."""
    notes, texts = _notes(comparison, network)
    sections = [
        Section(
            "Network",
            "Which operators give the same bits; the first one that does not has a thick frame.",
            [("network", draw_network(network, notes))],
        ),
        Section(
            "Tensors",
            "In the order in which they are computed. Differences are in steps of integer tensors.",
            [("table", _table(comparison))],
        ),
    ]
    tiles = {
        "elements compared": f"{comparison.elements:,}",
        "tensors compared": f"{len(comparison.tensors):,}",
        "tensors that differ": f"{len(comparison.different):,}",
    }
    facts = {"result": _verdict(comparison), **head.facts}
    head = replace(head, tiles=tiles, facts=facts)
    return whole_page(head, sections, make_items(network, details, notes=texts))


def _verdict(comparison: Comparison) -> str:
    """Return in words what came of it, the first tensor that differs included."""
    if comparison.same:
        return f"every bit of {comparison.elements:,} elements is the same"
    sides = (
        ("tensors", comparison.tensors, comparison.different),
        ("layers by definition", comparison.layers, comparison.different_layers),
    )
    return ". ".join(
        f"{len(different)} of {len(every)} {what} differ; first "
        f"{different[0].name} of {different[0].node}: {_words(different[0])}"
        for what, every, different in sides
        if different
    )


def _words(tensor: TensorDifference) -> str:
    if not tensor.different:
        return "every bit the same"
    return (
        f"{tensor.different:,} of {tensor.elements:,} elements differ, by {tensor.largest:g} at "
        f"most, first at {list(tensor.first or ())}"
    )


def _notes(comparison: Comparison, network: NetworkGraph) -> tuple[dict[str, Note], dict[str, str]]:
    """Return what its box and the panel say of each operator: the worst of its tensors."""
    tensors = (*comparison.layers, *comparison.tensors)
    different = comparison.different_layers or comparison.different
    first = different[0].node if different else None
    names = [box.name for box in network.operators]
    notes = dict.fromkeys(names, Note("", meaning=_UNKNOWN))
    texts = dict.fromkeys(names, "Not compared: one of the two does not show what it computes.")
    # The worst one last, so that it stays.
    for tensor in sorted(tensors, key=lambda x: (x.different > 0, x.left_out > 0)):
        text, line, meaning = _words(tensor), "same", _SAME
        if tensor.left_out:
            total = tensor.elements + tensor.left_out
            text += f"; {tensor.left_out:,} of {total:,} not computed: no result needs them"
            line, meaning = "same, narrowed", _NARROW
        if tensor.different:
            line, meaning = f"{tensor.different:,} differ", _DIFFERS
        part = tensor.different / max(1, tensor.elements)
        notes[tensor.node] = Note(line, 0, part, tensor.node == first, meaning)
        texts[tensor.node] = f"Compared: {text}."
    return notes, {name: texts[name] for name in names}


def _table(comparison: Comparison) -> dict[str, Any]:
    """Return a row for each tensor of the program, and for each one by definition."""
    sides = (("program", comparison.tensors), ("definition", comparison.layers))
    rows = [
        [
            *(side, x.name, x.node, x.elements, x.different, as_json(x.largest)),
            *map(as_json, (x.figures.mean, x.figures.rmse, x.figures.cosine, x.figures.snr)),
            *("" if x.first is None else str(list(x.first)), x.left_out or None),
        ]
        for side, tensors in sides
        for x in tensors
    ]
    return {
        "columns": [{"title": title, "kind": kind} for title, kind in _COLUMNS],
        "rows": rows,
        "keys": [row[2] for row in rows],
    }
