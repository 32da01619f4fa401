"""The page about a network before it is compiled: what runs where, and why."""

from collections.abc import Mapping
from typing import Any

from tpulite.report.html.items import make_items
from tpulite.report.html.network import Note, draw_network
from tpulite.report.html.shell import Head, Section, whole_page
from tpulite.report.network_graph import NetworkGraph
from tpulite.report.operator_details import OperatorDetails

_COLUMNS = (
    *(("", "count"), ("operator", "name"), ("runs on", "badge"), ("type", "text")),
    *(("input", "text"), ("output", "text"), ("MACs", "count"), ("because", "text")),
)


def make_inspection(
    network: NetworkGraph, details: Mapping[str, OperatorDetails], head: Head
) -> str:
    """Return the page as HTML; see :func:`tpulite.report.html.write_inspection`."""
    most = max((box.macs for box in network.operators), default=0) or 1
    notes = {
        box.name: Note(f"{box.macs:,} MACs" if box.macs else "", part=box.macs / most)
        for box in network.operators
    }
    sections = [
        Section(
            "Network",
            "What computes each operator; a bar compares its MACs with the largest. A click shows "
            "the details of an operator.",
            [("network", draw_network(network, notes))],
        ),
        Section("Operators", "In the order of execution.", [("table", _table(network))]),
    ]
    return whole_page(head, sections, make_items(network, details))


def _table(network: NetworkGraph) -> dict[str, Any]:
    where = {"host": "CPU", "none": ""}
    rows = [
        [
            *(number, box.name, where.get(box.where, box.where), box.operator),
            *(box.takes, box.shape, box.macs or None, box.why),
        ]
        for number, box in enumerate(network.operators, start=1)
    ]
    return {
        "columns": [{"title": title, "kind": kind} for title, kind in _COLUMNS],
        "rows": rows,
        "keys": [box.name for box in network.operators],
    }
