"""What a command touches: rows of the unified buffer, accumulators, bytes of DRAM."""

from collections.abc import Sequence

from tpulite.arch import isa
from tpulite.arch.config import COMMAND_BYTES, Config
from tpulite.arch.isa import Command, Opcode
from tpulite.arch.memory import WindowBinding
from tpulite.arch.registers import Fault
from tpulite.golden.effects.access import FaultSite, Footprint, Span
from tpulite.golden.effects.convolution import conv_footprint
from tpulite.golden.effects.transfers import transfer_footprint
from tpulite.golden.effects.vectors import vector_footprint

__all__ = ["FaultSite", "Footprint", "Span", "decode_commands", "footprint"]


def footprint(command: Command, config: Config, windows: Sequence[WindowBinding]) -> Footprint:
    """Return what a command touches, in the order in which the hardware checks and does it.

    Parameters
    ----------
    command : Command
        A command whose fields are legal.
    windows : sequence of WindowBinding
        The DRAM windows; spans and fault addresses are absolute.
    """
    match command.opcode:
        case Opcode.LOAD | Opcode.STORE:
            return transfer_footprint(command, config, windows[command["window"]])
        case Opcode.CONV:
            return conv_footprint(command, config)
        case Opcode.VECTOR:
            return vector_footprint(command, config)
        case _:
            return Footprint()


def decode_commands(data: bytes) -> tuple[Command | Fault, ...]:
    """Decode a command stream; what does not decode becomes the fault that its dispatch raises."""
    commands: list[Command | Fault] = []
    for start in range(0, len(data), COMMAND_BYTES):
        word = data[start : start + COMMAND_BYTES]
        try:
            commands.append(isa.decode(word))
        except ValueError:
            known = word[0] & 0xF in list(Opcode)
            commands.append(Fault.FIELD if known else Fault.OPCODE)
    return tuple(commands)
