"""Figure of a group that is cut: which rows of which tensor each slice needs."""

from typing import Any

from tpulite.compiler.geometry.group import Group
from tpulite.compiler.geometry.slices import plan_steps
from tpulite.graph.layers import LayerGraph

_LANE, _AXIS = 44, 60
"""Pixels of a tensor, and of the axis."""

_STAGGERED = 3
"""Slices below each other: then those that share rows do not hide each other."""


def make_slice_rows(layers: LayerGraph, group: Group) -> dict[str, Any]:
    """Return the rows of each slice, the inputs of the group on top and its last output below."""
    steps = plan_steps(layers, group)
    members = [layers.layers[i] for i in group.layers]
    made = [layer.output for layer in members]
    names = [*dict.fromkeys(x for each in members for x in each.inputs if x not in made), *made]
    heights = {name: layers.activations[name].shape[0] for name in names}
    lanes = min(_STAGGERED, len(steps))
    rects, kinds = [], []
    for lane, name in enumerate(names):
        for number, step in enumerate(steps):
            top = lane + 0.1 + 0.8 * (number % lanes) / lanes
            for rows, kept in (
                (step[name].new, False),
                (range(step[name].live.start, step[name].new.start), True),
            ):
                if not rows:
                    continue
                rects.append([rows.start, rows.stop, top, top + 0.8 / lanes, len(kinds)])
                tip = "kept from the slice before" if kept else "computed or loaded"
                label = f"{name}, slice {number}"
                kinds.append({"label": label, "tip": tip, "layer": 2 * number, "light": kept})
    return {
        "end": [max(heights.values()), len(names)],
        "axes": ["rows of the tensor", ""],
        "height": _AXIS + _LANE * len(names),
        "ticks": [[lane + 0.5, f"{name} ({heights[name]})"] for lane, name in enumerate(names)],
        "kinds": kinds,
        "rects": rects,
    }
