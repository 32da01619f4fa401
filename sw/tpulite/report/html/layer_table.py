"""Table: every layer and CPU operator in the order of execution, and what its cycles go to."""

from collections.abc import Iterator
from typing import Any

from tpulite.report.html.items import owners
from tpulite.report.network_graph import NetworkGraph
from tpulite.report.profile import LayerProfile, Profile

_COLUMNS = (
    *(("", "count"), ("layer", "name"), ("runs on", "badge"), ("cycles", "time")),
    *(("share", "percent"), ("spent on", "spent"), ("limited by", "text"), ("operator", "text")),
    *(("MACs", "count"), ("utilization", "percent")),
    *(("DRAM read", "bytes"), ("DRAM written", "bytes")),
)
"""Headings, and how each column is shown."""


def make_layer_table(profile: Profile, network: NetworkGraph | None) -> dict[str, Any]:
    """Return a row for each layer of the accelerator, and for each operator on the CPU."""
    rows, keys = [], []
    for number, (key, row) in enumerate(_rows(profile, network), start=1):
        keys.append(key)
        rows.append([number, *row])
    # A program has no operators, and a network on the CPU no cycles.
    told = [i for i in range(len(_COLUMNS)) if any(row[i] not in (None, "", []) for row in rows)]
    return {
        "columns": [{"title": _COLUMNS[i][0], "kind": _COLUMNS[i][1]} for i in told],
        "rows": [[row[i] for i in told] for row in rows],
        "keys": keys,
    }


def _rows(
    profile: Profile, network: NetworkGraph | None
) -> Iterator[tuple[str | None, tuple[object, ...]]]:
    """Yield rows, each with the name of the item that it belongs to."""
    boxes = {box.name: box for box in network.operators} if network is not None else {}
    owner = owners(network, profile.layers)
    for layer in profile.layers:
        if layer.where == "machine":
            key = owner.get(layer.name, layer.name)
            operator = boxes[key].operator if key in boxes else ""
            yield key if layer.n else None, _layer(layer, operator, profile)
            continue
        for name in layer.nodes:
            if (box := boxes[name]).where == "host":
                cost = "not simulated", None, None, ""
                yield name, (name, "CPU", *cost, box.operator, box.macs or None, None, None, None)


def _layer(layer: LayerProfile, operator: str, profile: Profile) -> tuple[object, ...]:
    spent = [[str(cause), cycles] for cause, cycles in layer.spent.items()]
    where = ("MXU" if layer.macs else "VPU") if layer.n else ""
    share = layer.cycles / max(1, profile.cycles)
    moved = layer.traffic.read_bytes or None, layer.traffic.written_bytes or None
    rate = layer.utilization if layer.macs else None
    return (
        *(layer.name, where, layer.cycles or None, share or None, spent),
        *(str(layer.bound or "hidden"), operator, layer.macs or None, rate, *moved),
    )
