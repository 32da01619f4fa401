"""The whole page: its head, and the figures below each other."""

from collections.abc import Mapping, Sequence

from bokeh.models import UIElement

from tpulite.arch.config import Config
from tpulite.compiler.geometry.slices import plan_steps
from tpulite.compiler.schedule.live_tensors import Grouped
from tpulite.report.html.buffer_map import make_buffer_map
from tpulite.report.html.graph import make_graph
from tpulite.report.html.graph_boxes import make_legend
from tpulite.report.html.head import make_head
from tpulite.report.html.layer_bars import make_layer_bars
from tpulite.report.html.layer_table import make_layer_table
from tpulite.report.html.live_ranges import make_live_ranges
from tpulite.report.html.notes import cycle_notes
from tpulite.report.html.roofline import make_roofline
from tpulite.report.html.slice_rows import make_slice_rows
from tpulite.report.html.style import heading, whole_page
from tpulite.report.html.timeline import make_bandwidth, make_timeline
from tpulite.report.network_graph import NetworkGraph
from tpulite.report.profile import Profile
from tpulite.report.speed import Speed

__all__ = ["make_page"]


def make_page(
    profile: Profile,
    speed: Speed,
    network: NetworkGraph | None,
    facts: Mapping[str, str],
    grouped: Sequence[Grouped] = (),
) -> str:
    """Return the page as HTML; see :func:`tpulite.report.html.write_page`."""
    parts: list[UIElement] = [make_head(profile, speed, facts)]
    if network is not None:
        notes = cycle_notes(profile, network)
        parts += [
            heading(
                "Network",
                "Who computes each operator, and in how many cycles; a bar says how many beside "
                "the slowest. The mouse wheel zooms, dragging moves, on the left, too.",
            ),
            make_legend(network, notes),
            make_graph(network, notes),
        ]
    if profile.runs:
        timeline = make_timeline(profile.runs)
        parts += [
            heading(
                "Layers",
                "What the cycles of each layer are spent on; every cycle of the run counts once.",
            ),
            make_layer_bars(profile),
            heading(
                "Time",
                "Each command in the color of its layer; gray: it waits for a token. The mouse "
                "wheel zooms, dragging moves both figures. What the host computes takes no time "
                "here.",
            ),
            timeline,
            make_bandwidth(profile.runs, timeline),
            heading(
                "Unified buffer",
                "What lies where, in the color of the layer that it is written for; weights and "
                "inputs are light. From the start of its first writer until its last reader is "
                "done; what lies side by side or follows within a small part of the run is one "
                "block.",
            ),
            make_buffer_map(profile.runs, timeline),
            heading(
                "Roofline",
                "Layers by what they multiply for each byte that DRAM moves in its busier "
                "direction. A layer below the level roof leaves multipliers idle; one above the "
                "slope has its data loaded while others work. The larger, the more cycles.",
            ),
            make_roofline(profile),
        ]
    for each in grouped:
        parts += _groups(each, profile.config)
    parts += [
        heading("All layers", "A click on the head of a column sorts."),
        make_layer_table(profile),
    ]
    return whole_page(profile.network, parts)


def _groups(network: Grouped, config: Config) -> list[UIElement]:
    """Return the figures of layer groups."""
    parts: list[UIElement] = [
        heading(
            "Live ranges",
            "What the allocator has placed: time steps downward, rows of the unified buffer to the "
            "right, so rectangles can move sideways only; where one is made in place of another "
            "they lie on each other. T5 is the step of the layer with the id 5 in --dump group. "
            f"Row r lies in bank r mod {config.ub_banks}, so all but the smallest buffers lie in "
            "all banks, and a rule not to cross them does not apply.",
        ),
        make_live_ranges(network, config),
    ]
    for section in network.sections:
        (group, *others) = section.groups
        if others or not group.slices or len(plan_steps(network.layers, group)) == 1:
            continue
        first, last = (network.layers.layers[i].name for i in (group.layers[0], group.layers[-1]))
        shared = (
            "pale ones are kept from the slice before"
            if group.rolling
            else "those that several slices need are loaded or computed again"
        )
        parts += [
            heading(
                f"Slices of {first} to {last}" if len(group.layers) > 1 else f"Slices of {last}",
                "Which rows each slice needs, from the inputs of the group down to its output; "
                f"{shared}. Rows below each other are shared.",
            ),
            make_slice_rows(network.layers, group),
        ]
    return parts
