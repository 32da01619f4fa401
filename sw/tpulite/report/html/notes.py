"""What the boxes of a drawn network say: cycles, or bits that differ."""

from tpulite.report.html.graph_boxes import Note
from tpulite.report.network_graph import NetworkGraph
from tpulite.report.profile import Profile

__all__ = ["cycle_notes"]


def cycle_notes(profile: Profile, network: NetworkGraph) -> dict[str, Note]:
    """Return the cycles of each operator; the bar of the slowest one is full."""
    layers = [layer for layer in profile.layers if layer.n]
    most = max((layer.cycles for layer in layers), default=0) or 1
    joined = Note("", "the compiler has made it a part of another layer")
    notes = {box.name: joined for box in network.boxes if box.where in ("MXU", "VPU")}
    for layer in layers:
        if not layer.cycles:
            notes[layer.name] = Note("hidden", "it works only while others do")
            continue
        share = layer.cycles / profile.cycles
        text = f"{layer.cycles:,} cycles ({share:.1%} of all): {layer.spending()}"
        notes[layer.name] = Note(f"{layer.cycles:,} cycles", text, layer.cycles / most)
    return notes
