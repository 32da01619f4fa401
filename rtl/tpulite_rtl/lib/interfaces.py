"""Signatures between components: buffer ports, engine control, faults."""

from amaranth.hdl import unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch import isa
from tpulite.arch.config import Config
from tpulite.arch.memory import ADDRESS_BITS
from tpulite.arch.registers import EngineState
from tpulite_rtl.lib.layout import INDEX_BITS

__all__ = [
    "FAULT",
    "ROW_BITS",
    "STATE_BITS",
    "EngineSignature",
    "ReadPortSignature",
    "WritePortSignature",
    "write_layout",
]

ROW_BITS = 14
"""Width of a row address of the unified buffer, whatever its size."""

STATE_BITS = 3
"""Width of an :class:`~tpulite.arch.registers.EngineState`."""

FAULT = data.StructLayout(
    {
        "valid": 1,  # high for at least a cycle; the first one that the chip sees counts
        "code": 4,
        "index": INDEX_BITS,
        "address": ADDRESS_BITS,
    }
)


class ReadPortSignature(wiring.Signature):
    """Client's side of a read port of the unified buffer."""

    def __init__(self, config: Config) -> None:
        super().__init__(
            {
                # Row to read. Accepted in order.
                "request": Out(stream.Signature(unsigned(ROW_BITS))),
                # The row, valid :func:`tpulite.arch.timing.row_read` cycles after its request was
                # accepted: a client asks only for what it can take.
                "response": In(stream.Signature(unsigned(8 * config.row_bytes), always_ready=True)),
            }
        )


def write_layout(config: Config) -> data.StructLayout:
    """Return the payload of a write port: a row address and its bytes."""
    return data.StructLayout({"row": ROW_BITS, "data": 8 * config.row_bytes})


class WritePortSignature(wiring.Signature):
    """Client's side of a write port of the unified buffer."""

    def __init__(self, config: Config) -> None:
        super().__init__(
            {
                # A row and its address; reads accepted in the next cycle see it.
                "request": Out(stream.Signature(write_layout(config))),
            }
        )


class EngineSignature(wiring.Signature):
    """What every engine shows to the command processor, seen from the engine."""

    def __init__(self, command: data.StructLayout) -> None:
        super().__init__(
            {
                # Commands from the engine's queue, in order.
                "command": In(stream.Signature(command)),
                # Wait mask of the command that wants to start; accepted when every named engine's
                # token is there (at once if the mask is zero).
                "take": Out(stream.Signature(unsigned(len(isa.Engine)))),
                # Signal mask of a command whose effects are all visible; in order.
                "give": Out(stream.Signature(unsigned(len(isa.Engine)))),
                # High from a fault on: start no command, make no AXI request, finish what was
                # issued.
                "stop": In(1),
                # No command in the engine (the queue not counted).
                "idle": Out(1),
                # Nothing outstanding on AXI.
                "quiet": Out(1),
                # What the engine does in this cycle.
                "state": Out(STATE_BITS),
                # Command that this counts for.
                "index": Out(INDEX_BITS),
                # A fault of this engine.
                "fault": Out(FAULT),
            }
        )


assert max(EngineState) < 1 << STATE_BITS
