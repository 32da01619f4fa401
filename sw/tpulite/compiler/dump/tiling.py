"""Readable text of commands that have no addresses yet."""

from tpulite.arch.isa import Command, disassemble
from tpulite.compiler.dump.text import columns
from tpulite.compiler.ops import Buffer, Op, Tiling
from tpulite.graph.layers import LayerGraph


class Numbers:
    """Numbers of buffers, in the order in which commands name them first."""

    def __init__(self) -> None:
        self._numbers: dict[Buffer, int] = {}

    def __call__(self, buffer: Buffer) -> str:
        """Return what a buffer is called."""
        return f"#{self._numbers.setdefault(buffer, len(self._numbers))}"

    def buffers(self) -> tuple[Buffer, ...]:
        """Return all buffers that were called."""
        return tuple(self._numbers)


def op_text(op: Op, numbers: Numbers) -> str:
    """Return a command: its fields, then its places as rows of buffers."""
    places = [f"{name}={numbers(place.buffer)}+{place.row}" for name, place in op.rows.items()]
    reserved = [f"reserves {numbers(buffer)}" for buffer in op.reserve]
    text = disassemble(Command.make(op.opcode, **op.fields))
    return " ".join((text, *places, *reserved, *["barrier"] * op.barrier))


def tiling_text(tiling: Tiling, layers: LayerGraph) -> str:
    """Return all commands with the layers that they belong to, then all buffers."""
    numbers = Numbers()
    names = [layer.name for layer in layers.layers]
    rows = [(str(i), names[op.layer], op_text(op, numbers)) for i, op in enumerate(tiling.ops)]
    text = columns(("#", "layer", "command"), rows, right=(0,))
    heads = ("buffer", "rows", "bank", "what")
    buffers = [
        (
            numbers(buffer),
            str(buffer.rows),
            "" if buffer.bank is None else str(buffer.bank),
            buffer.name if buffer.row is None else f"{buffer.name}, at row {buffer.row}",
        )
        for buffer in numbers.buffers()
    ]
    return f"{text}\n{columns(heads, buffers, right=(1, 2))}"
