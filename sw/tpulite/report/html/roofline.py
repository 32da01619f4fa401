"""Figure: how near each layer comes to what the machine can do."""

import math
from typing import Any

from tpulite.arch.timing import row_cycles
from tpulite.report.html.items import owners
from tpulite.report.network_graph import NetworkGraph
from tpulite.report.profile import LayerProfile, Profile

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
