"""Figures of layer groups: live ranges of buffers, and the rows that each slice needs."""

from collections.abc import Callable
from typing import Any

from tpulite.arch.config import Config
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.geometry.slices import plan_steps
from tpulite.compiler.schedule.live_tensors import (
    Grouped,
    LiveBuffer,
    Moment,
    Section,
    StepNumbers,
)
from tpulite.graph.layers import LayerGraph

_COLORS = {"activation": "activation", "weight": "weight", "buffer": "scratch"}
"""What the legend calls each kind of buffer."""

_STEP, _AXIS = 16, 60
"""Pixels of a time step, and of the axis."""

_LEAST, _MOST = 240, 2400
"""Pixels of the figure."""

_LABELS = 80
"""Buffers that say in the figure what they hold, the largest; others do so below the mouse."""

_TICKS = (_MOST - _AXIS) // _STEP
"""Time steps that have a label, at most."""


def make_live_ranges(network: Grouped, config: Config) -> dict[str, Any]:
    """Return what has which rows from when to when: rectangles that can move sideways only."""
    numbers = StepNumbers.of(network.layers)
    moments = [each for section in network.sections for each in section.moments]
    cut = {i: _slices(network, each) for each in network.sections if each.cut for i in each.layers}
    buffers = list(dict.fromkeys(x for section in network.sections for x in section.buffers))
    labeled = set(sorted(buffers, key=_area, reverse=True)[:_LABELS])

    def name(moment: Moment) -> str:
        images, slices = cut.get(moment.layer, (1, 1))
        image, index = divmod(moment.slice, slices)
        texts = [f"input {image}"] * (images > 1) + [f"slice {index}"] * (slices > 1)
        return ", ".join((f"T{numbers.layers[moment.layer]}", *texts))

    step = -(-len(moments) // _TICKS)
    return {
        "end": [config.ub_rows, len(moments)],
        "axes": ["rows of the unified buffer", ""],
        "height": min(max(_AXIS + _STEP * len(moments), _LEAST), _MOST),
        "ticks": [[i + 0.5, name(moments[i])] for i in range(0, len(moments), step)],
        "kinds": [
            {
                "label": f"{each.label}: {each.name}",
                "tip": _span(each, name),
                "color": _COLORS[each.kind],
            }
            | ({"text": each.label} if each in labeled else {})
            for each in buffers
        ],
        "rects": [
            [each.row, each.row + each.rows, *each.time, number]
            for number, each in enumerate(buffers)
        ],
    }


def _slices(network: Grouped, section: Section) -> tuple[int, int]:
    """Return the inputs that a section goes through, and the slices of each."""
    steps = 1 + max((each.slice for each in section.moments), default=0)
    group = section.groups[0]
    parts = len(plan_steps(network.layers, group)) * group.columns if group.slices else steps
    return (steps // parts, parts) if steps % parts == 0 else (1, steps)


def _area(each: LiveBuffer) -> float:
    """Return rows times time steps."""
    return each.rows * (each.time[1] - each.time[0])


def _span(each: LiveBuffer, name: Callable[[Moment], str]) -> str:
    first, last = (name(moment) for moment in each.lives)
    return f"live from {first} to {'the end of the group' if each.stays else last}"


_LANE = 44
"""Pixels of a tensor."""

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
