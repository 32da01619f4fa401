"""Layers of a run: the table of what their cycles go to, and how near each comes to the limits."""

import math
from collections.abc import Iterator
from typing import Any

from tpulite.arch.timing import row_cycles
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


_LEAST, _MORE = 4, 20
"""Radius in pixels of a layer that takes hardly any cycles, and how much more of all of them."""


def make_roofline(profile: Profile, network: NetworkGraph | None = None) -> dict[str, Any]:
    """Return a point for each layer that multiplies, and the two roofs over them."""
    layers = [layer for layer in profile.layers if layer.macs and layer.cycles]
    layers.sort(key=lambda layer: -layer.cycles)  # small points in front of large ones
    owner = owners(network, layers)
    points = [
        {
            "x": _intensity(layer),
            "y": layer.macs / layer.cycles,
            "name": layer.name,
            "kind": str(layer.bound),
            "size": _LEAST + _MORE * math.sqrt(layer.cycles / profile.cycles),
            "key": owner.get(layer.name, layer.name),
            "tip": [
                f"{layer.cycles:,} cycles ({layer.cycles / profile.cycles:.1%} of all)",
                f"limited by {layer.bound}",
            ],
        }
        for layer in layers
    ]
    config = profile.config
    peak, moved = config.array_size**2, config.row_bytes / row_cycles(config)
    ridge = peak / moved
    reach = [ridge, *(point["x"] for point in points)]
    low, high = min(reach) / 2, max(reach) * 2
    return {
        "axes": [
            {"title": "operational intensity, MAC/byte", "unit": "MAC/byte", "log": True},
            {"title": "throughput, MAC/cycle", "unit": "MAC/cycle", "log": True},
        ],
        "lines": [
            {
                "name": f"roof: {peak:,} MAC/cycle, {moved:g} byte/cycle",
                "points": [[low, low * moved], [ridge, peak], [high, peak]],
            }
        ],
        "legend": "limited by",
        "points": points,
    }


def _intensity(layer: LayerProfile) -> float:
    """Return MAC/byte of that direction which moves more: the bus has one of each."""
    return layer.macs / max(layer.traffic.read_bytes, layer.traffic.written_bytes)
