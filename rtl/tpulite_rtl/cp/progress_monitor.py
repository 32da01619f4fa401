"""Progress monitor: whether anything still moves, and which command is the oldest."""

from typing import NamedTuple

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.isa import Engine
from tpulite_rtl.lib.layout import INDEX_BITS

__all__ = ["ProgressMonitor"]


class ProgressMonitor(wiring.Component):
    """Watch the engines for the watchdog.

    Diagnostics must not be the longest path of the chip: what is seen in a cycle is registered at
    once, and the indices are compared in the two cycles after it. What an engine says that it does
    comes late and is no progress: it may wait for a result that is lost.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                # Engines that hold a command, or are offered one.
                "held": In(len(Engine)),
                # Their commands.
                "indices": In(INDEX_BITS).array(len(Engine)),
                # Something moved in this cycle: a command to its queue, a beat or response on AXI,
                # a row of the unified buffer, a vector into the array. Engines take less than a
                # hundred cycles from one such step to the next.
                "moved": In(1),
                # Next command to be dispatched, the oldest if no engine holds one.
                "next_index": In(INDEX_BITS),
                # Something moved in the cycle before.
                "progress": Out(1),
                # The oldest command three cycles ago.
                "oldest": Out(INDEX_BITS),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.sync += self.progress.eq(self.moved)
        held = []
        for engine, index in zip(Engine, self.indices, strict=True):
            name = engine.name.lower()
            one = _Held(Signal(name=f"{name}_held"), Signal(INDEX_BITS, name=f"{name}_index"))
            m.d.sync += [one.valid.eq(self.held[engine]), one.command.eq(index)]
            held.append(one)
        pairs = []
        for number, (one, other) in enumerate(zip(held[::2], held[1::2], strict=True)):
            older = _older(one, other)
            valid, index = Signal(name=f"held_{number}"), Signal(INDEX_BITS, name=f"older_{number}")
            m.d.sync += [valid.eq(older.valid), index.eq(older.command)]
            pairs.append(_Held(valid, index))
        oldest = _older(*pairs)
        next_index, next_older = Signal(INDEX_BITS), Signal(INDEX_BITS)
        m.d.sync += [
            next_index.eq(self.next_index),
            next_older.eq(next_index),
            # The next command is younger than those of the engines.
            self.oldest.eq(Mux(oldest.valid, oldest.command, next_older)),
        ]
        return m


class _Held(NamedTuple):
    """Command of one or several engines, if they hold one."""

    valid: Value
    command: Value


def _older(one: _Held, other: _Held) -> _Held:
    keep = one.valid & (~other.valid | (one.command < other.command))
    return _Held(one.valid | other.valid, Mux(keep, one.command, other.command))
