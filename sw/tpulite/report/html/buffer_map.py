"""Figure over time: what lies in which rows of the unified buffer."""

from collections.abc import Mapping, Sequence
from typing import Any

from tpulite.report.buffer_map import map_buffer
from tpulite.report.html.timeline import in_turn
from tpulite.report.traced_run import TracedRun


def make_buffer_map(runs: Sequence[TracedRun], owner: Mapping[str, str]) -> dict[str, Any]:
    """Return rows of the unified buffer over the cycles of a timeline."""
    rects, names = [], {}
    for begin, before, run in in_turn(runs):
        for block in map_buffer(run):
            layer = run.program.layers[block.layer].name if block.layer >= 0 else ""
            label = f"{layer}: {block.kind}" if layer else block.kind
            color = before + block.layer if layer else -1
            key = layer and owner.get(layer, layer)
            name = names.setdefault((label, color, key, block.kind != "activations"), len(names))
            rects.append([begin + block.start, begin + block.stop, block.row, block.end, name])
    return {
        "time": True,
        "end": [sum(run.cycles for run in runs), max(run.program.config.ub_rows for run in runs)],
        "axes": ["", "rows"],
        "height": 360,
        "kinds": [
            {"label": label, "layer": color, "key": key, "light": light}
            for label, color, key, light in names
        ],
        "rects": rects,
    }
