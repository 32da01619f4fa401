"""AXI channels of a component become ports of the chip, on wires or through register slices."""

from collections import defaultdict

from amaranth.hdl import Cat, DomainRenamer, Module, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from tpulite_rtl.lib.fifo import StreamFifo

__all__ = ["connect_channels"]

_CHANNELS = ("ar", "aw", "r", "w", "b")  # none begins like a later one
_PLACES = 2
"""Of a slice: with two a transfer comes in each cycle although ``ready`` is a register."""


def connect_channels(
    m: Module, inside: wiring.Component, outside: wiring.Component, *, slices: bool
) -> None:
    """Connect all AXI members of a component to those of the chip that have the same names.

    With a slice a transfer takes a cycle more, in either direction, and both sides of all channels
    are registers. During reset a slice accepts nothing, as the component itself.

    Parameters
    ----------
    m : Module
        The chip. Its domain ``core`` clocks the slices.
    inside, outside : Component
        Whose members are ``s_axil_*`` or ``m_axi_*``, as :mod:`tpulite_rtl.bus.axi` names them.
    slices : bool
        Whether to put register slices between them.
    """
    channels: dict[str, dict[str, bool]] = defaultdict(dict)  # fields, and whether they go out
    for path, member, value in inside.signature.flatten(inside):
        prefix, found, name = path[0].partition("_axil_" if "_axil_" in path[0] else "_axi_")
        if not found:
            continue
        port = getattr(outside, path[0])
        if slices:
            channel = next(channel for channel in _CHANNELS if name.startswith(channel))
            fields = channels[prefix + found + channel]
            fields[name.removeprefix(channel)] = member.flow == Out
        else:
            m.d.comb += port.eq(value) if member.flow == Out else value.eq(port)
    awake = Signal(name="axi_awake")
    if slices:
        m.d.core += awake.eq(1)
    for channel, fields in channels.items():
        ends = (inside, outside) if fields["valid"] else (outside, inside)
        source, sink = ({f: getattr(end, channel + f) for f in fields} for end in ends)
        payload = [field for field in fields if field not in ("valid", "ready")]
        came, leaves = (Cat(end[field] for field in payload) for end in (source, sink))
        fifo = StreamFifo(unsigned(len(came)), _PLACES)
        m.submodules[f"slice_{channel}"] = DomainRenamer("core")(fifo)
        m.d.comb += [
            fifo.i.payload.eq(came),
            fifo.i.valid.eq(source["valid"] & awake),
            source["ready"].eq(fifo.i.ready & awake),
            leaves.eq(fifo.o.payload),
            sink["valid"].eq(fifo.o.valid),
            fifo.o.ready.eq(sink["ready"]),
        ]
