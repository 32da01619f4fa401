"""Figure of live ranges: rows of the unified buffer to the right, time steps downward."""

from collections.abc import Callable
from typing import Any

from tpulite.arch.config import Config
from tpulite.compiler.geometry.slices import plan_steps
from tpulite.compiler.schedule.live_tensors import (
    Grouped,
    LiveBuffer,
    Moment,
    Section,
    StepNumbers,
)

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
