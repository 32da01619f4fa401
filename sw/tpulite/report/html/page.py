"""The whole page: its head, and the figures below each other."""

from collections.abc import Mapping

from bokeh.models import UIElement

from tpulite.report.html.buffer_map import make_buffer_map
from tpulite.report.html.graph import make_graph
from tpulite.report.html.graph_boxes import make_legend
from tpulite.report.html.head import make_head
from tpulite.report.html.layer_bars import make_layer_bars
from tpulite.report.html.layer_table import make_layer_table
from tpulite.report.html.notes import cycle_notes
from tpulite.report.html.roofline import make_roofline
from tpulite.report.html.style import heading, whole_page
from tpulite.report.html.timeline import make_bandwidth, make_timeline
from tpulite.report.network_graph import NetworkGraph
from tpulite.report.profile import Profile
from tpulite.report.speed import Speed

__all__ = ["make_page"]


def make_page(
    profile: Profile, speed: Speed, network: NetworkGraph | None, facts: Mapping[str, str]
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
    parts += [
        heading("All layers", "A click on the head of a column sorts."),
        make_layer_table(profile),
    ]
    return whole_page(profile.network, parts)
