"""The page about a comparison: which tensors have the same bits, drawn and as a table."""

from collections.abc import Mapping

from bokeh.models import DataTable, NumberFormatter, StringFormatter

from tpulite.report.html.graph import make_graph
from tpulite.report.html.graph_boxes import Note, make_legend
from tpulite.report.html.head import table_of_facts
from tpulite.report.html.style import heading, source, whole_page
from tpulite.report.html.table import make_table
from tpulite.report.network_graph import NetworkGraph
from tpulite.runtime.comparison import TensorDifference
from tpulite.runtime.model_compare import Comparison

__all__ = ["make_comparison"]

_SAME = ("every bit the same", "#2e9e5b")
_NARROW = ("the same where it is computed", "#45b8c4")
_DIFFERS = ("differs", "#d62728")
_UNKNOWN = ("not compared", "#9a9a9a")


def make_comparison(comparison: Comparison, network: NetworkGraph, facts: Mapping[str, str]) -> str:
    """Return the page as HTML; see :func:`tpulite.report.html.write_comparison`."""
    notes = _notes(comparison, network)
    parts = [
        table_of_facts(comparison.network, {"result": _verdict(comparison), **facts}),
        heading(
            "Network",
            "Which operators give the same bits; the first one that does not has a thick frame. "
            "The mouse wheel zooms, dragging moves, on the left, too.",
        ),
        make_legend(network, notes),
        make_graph(network, notes),
        heading("All tensors", "In the order in which they are computed; a click sorts."),
        _table(comparison),
    ]
    return whole_page(f"{comparison.network} compared", parts)


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


def _notes(comparison: Comparison, network: NetworkGraph) -> dict[str, Note]:
    """Return what is said of each operator: the worst of its tensors."""
    tensors = (*comparison.layers, *comparison.tensors)
    different = comparison.different_layers or comparison.different
    first = different[0].node if different else None
    unknown = Note("", "one of the two does not show what it computes", meaning=_UNKNOWN)
    notes = {box.name: unknown for box in network.boxes if box.by is not None}
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
        notes[tensor.node] = Note(line, text, part, tensor.node == first, meaning)
    return notes


def _table(comparison: Comparison) -> DataTable:
    """Return a row for each tensor of the program, and for each one by definition."""
    tensors = (*comparison.tensors, *comparison.layers)
    sides = ["program"] * len(comparison.tensors) + ["definition"] * len(comparison.layers)
    data = source(
        "tensors",
        {
            "side": sides,
            "name": [x.name for x in tensors],
            "node": [x.node for x in tensors],
            "elements": [x.elements for x in tensors],
            "different": [x.different for x in tensors],
            "largest": [x.largest for x in tensors],
            "mean": [x.figures.mean for x in tensors],
            "rmse": [x.figures.rmse for x in tensors],
            "cosine": [x.figures.cosine for x in tensors],
            "snr": [x.as_dict()["snr"] for x in tensors],
            "first": ["" if x.first is None else str(list(x.first)) for x in tensors],
            "left_out": [x.left_out or None for x in tensors],
        },
    )
    count = NumberFormatter(format="0,0", text_align="right", null_format="")
    real = NumberFormatter(format="0,0.[000000]", text_align="right", null_format="")
    text = StringFormatter()
    columns = [
        *(("side", "of", 80, text), ("name", "tensor", 240, text), ("node", "operator", 200, text)),
        *(("elements", "compared", 90, count), ("different", "different", 80, count)),
        *(("largest", "largest difference", 110, real), ("mean", "mean", 80, real)),
        *(("rmse", "RMSE", 80, real), ("cosine", "cosine", 80, real), ("snr", "SNR, dB", 70, real)),
        *(("first", "first at", 110, text), ("left_out", "not computed", 100, count)),
    ]
    return make_table(data, len(tensors), columns)
