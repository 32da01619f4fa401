"""What an exported network takes in memory."""

from dataclasses import asdict, dataclass

from rich import box
from rich.markup import escape
from rich.table import Table

from tpulite.arch.config import COMMAND_BYTES
from tpulite.arch.memory import PAGE_BYTES, Window
from tpulite.export.host_steps import HostCall
from tpulite.export.network import ExportedNetwork, ExportedProgram, HostStep


@dataclass(frozen=True)
class Sizes:
    """Bytes of an exported network."""

    #: Weights and channel records, and commands, in the image.
    constants: int
    commands: int
    image: int  #: Both, each from a page on.
    #: Windows of the program that takes the most memory; others use the same bytes.
    input: int
    output: int
    scratch: int
    host: int  #: Tensors between steps of the host.
    memory: int  #: Everything that is written, from page to page; programs share it.
    tables: int  #: Constant tables of what the CPU computes.

    @classmethod
    def of(cls, network: ExportedNetwork) -> "Sizes":
        """Count the bytes of a network."""
        programs = [each.program for each in network.programs]
        windows = max(network.programs, key=_end).program.window_bytes
        between = [each.nbytes for each in network.tensors if each.place == "MEMORY"]
        calls = [step.call for step in network.steps if isinstance(step, HostStep)]
        return cls(
            constants=sum(len(program.constants) for program in programs),
            commands=sum(COMMAND_BYTES * len(program.commands) for program in programs),
            image=len(network.image),
            input=windows[Window.INPUT],
            output=windows[Window.OUTPUT],
            scratch=windows[Window.SCRATCH],
            host=network.batch * sum(between),
            memory=network.memory_bytes,
            tables=sum(map(_table_bytes, calls)),
        )

    @property
    def image_padding(self) -> int:
        """Bytes of the image that hold nothing."""
        return self.image - self.constants - self.commands

    @property
    def memory_padding(self) -> int:
        """Bytes of the memory that hold nothing."""
        return self.memory - self.input - self.output - self.scratch - self.host

    def as_dict(self) -> dict[str, int]:
        """Return plain values that JSON can hold."""
        return asdict(self)

    def table(self, title: str) -> Table:
        """Return the sizes with what each is and where it lies."""
        table = Table(title=escape(title), box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        table.add_column("what", no_wrap=True)
        table.add_column("bytes", justify="right", no_wrap=True)
        table.add_column("where")
        for name, (what, where) in _ROWS.items():
            table.add_row(what, f"{getattr(self, name):,}", where)
        return table


_ROWS = {
    "image": ("image", "read by the chip: RAM or mapped flash"),
    "constants": ("  weights and records", ""),
    "commands": ("  commands", ""),
    "image_padding": ("  padding", f"every part begins at a multiple of {PAGE_BYTES:,}"),
    "memory": ("memory", "written by chip and CPU: RAM that both can access"),
    "input": ("  inputs", "in the chip's layout"),
    "output": ("  outputs", "in the chip's layout"),
    "scratch": ("  scratch", "activations that leave the chip"),
    "host": ("  between CPU steps", ""),
    "memory_padding": ("  padding", f"every part begins at a multiple of {PAGE_BYTES:,}"),
    "tables": ("CPU tables", "constants in the program"),
}


def _end(step: ExportedProgram) -> int:
    """Return the end of a program's windows in the memory."""
    return max(first + step.program.window_bytes[each] for each, first in step.windows.items())


def _table_bytes(call: HostCall) -> int:
    words = {
        "tpulite_quantization": 4 * 259,
        "tpulite_dequantization": 4 * 259,
        "tpulite_table": 4 + 256,
        "tpulite_softmax_integers": 4 * 260,
        "tpulite_softmax_floats": 4 * 260,
        "tpulite_softmax_quotients": 4 * 262,
        "tpulite_window_sums": 4 * 19,
        "tpulite_axis_sums": 4 * 8,
        "tpulite_pair_tables": 4 * (10 + 512),
        "tpulite_average_sums": 4 * 258,
        "tpulite_lstm_sums": 4 * 22,
        "tpulite_lstm_state": 4 * 15,
    }
    return words.get(call.arguments, 0) + sum(x.nbytes for x in call.pointers.values())
