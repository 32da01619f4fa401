"""What LOAD and STORE commands mean, in numpy, for the benches of the DMA."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from command_index import index_of

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import COMMANDS, Command, Opcode
from tpulite.arch.memory import ADDRESS_BITS, PAGE_BYTES, WindowBinding
from tpulite.arch.registers import Fault, Permission
from tpulite_tb.machines import SMALL

CONFIGS = {
    "4": Config(array_size=4, burst_beats=256, dma_bursts=1),
    "8": Config(array_size=8, ub_rows=1024, burst_beats=2, dma_bursts=32),
    "16": Config(),
    "32": Config(array_size=32, ub_rows=8192, dma_bursts=4, ram_registers=True),
    "small": SMALL,
}
"""A machine for each N, so that the other sizes vary too, and that of the benches of the chip."""

PERMITTED = {Opcode.LOAD: (1, 3), Opcode.STORE: (2, 3)}
"""Windows that each engine may use, of :func:`make_windows`."""

FAULT_KINDS = ("rows", "pitch", "end", "stride", "wrap", "offset", "permission", "closed")
"""What :func:`bad_command` can get wrong."""


@dataclass(frozen=True)
class Burst:
    """An AXI burst and the command that it belongs to."""

    address: int
    beats: int
    index: int


@dataclass(frozen=True)
class FaultSeen:
    """A fault as an engine shows it."""

    code: Fault
    index: int
    address: int


@dataclass(frozen=True)
class Line:
    """One line: row addresses, and its first byte in the window."""

    first_row: int
    rows: int
    offset: int


class Dram:
    """The bytes of every window, addressed as AXI does; any other address is an error."""

    def __init__(self, windows: Iterable[WindowBinding]) -> None:
        self.regions = [
            (window.base, np.frombuffer(random.randbytes(window.size), np.uint8).copy())
            for window in windows
            if window.size
        ]

    def view(self, address: int, size: int) -> np.ndarray:
        """Return the bytes themselves, not a copy."""
        for base, contents in self.regions:
            if base <= address and address + size <= base + len(contents):
                return contents[address - base :][:size]
        raise AssertionError(f"{size} bytes at {address:#x} are in no window")


def make_windows() -> tuple[WindowBinding, ...]:
    """Return one window without a permission, then read, write, and read and write."""
    bases = random.sample(range(1 << (ADDRESS_BITS - 16)), 4)
    return tuple(
        WindowBinding(
            base=(bases[i] << 16) + BEAT_BYTES * random.randrange(1024),
            size=BEAT_BYTES * random.randrange(1024, 3000),
            read=bool(i & 1),
            write=bool(i & 2),
        )
        for i in range(4)
    )


def pack_windows(windows: Iterable[WindowBinding]) -> int:
    """Return the value of the ``windows`` port."""
    width = ADDRESS_BITS + 32 + 2
    word = 0
    for i, window in enumerate(windows):
        permission = Permission.READ * window.read | Permission.WRITE * window.write
        word |= (window.base | window.size << ADDRESS_BITS | permission << width - 2) << width * i
    return word


def pack_commands(commands: Iterable[Command], *, start: int = 0) -> list[int]:
    """Return the payloads of a command stream, with the index of each."""
    return [
        COMMANDS[command.opcode].pack(opcode=command.opcode, **command.fields)
        | index_of(start + i) << COMMANDS[command.opcode].width
        for i, command in enumerate(commands)
    ]


def line_bytes(config: Config, rows: int) -> int:
    """Return the bytes that a line takes in DRAM, in whole beats."""
    return -(-rows * config.row_bytes // BEAT_BYTES) * BEAT_BYTES


def random_command(config: Config, windows: tuple[WindowBinding, ...], opcode: Opcode) -> Command:
    """Return a legal command: short and long lines, tails, overlaps, at the edges of everything."""
    window = random.choice(PERMITTED[opcode])
    lines = random.choice([1, 1, 2, random.randint(3, 6)])
    rows = random.choice([1, random.randint(1, 9), random.randint(1, 40), random.randint(60, 80)])
    size = line_bytes(config, rows)
    room = windows[window].size - size
    stride = random.choice([size, random.randrange(room // lines)]) // BEAT_BYTES * BEAT_BYTES
    last_offset = windows[window].size - (lines - 1) * stride - size
    pitch = random.choice([rows, random.randrange(config.ub_rows // 16)])
    last_row = config.ub_rows - (lines - 1) * pitch - rows
    if last_offset < 0 or last_row < 0:
        return random_command(config, windows, opcode)
    return Command.make(
        opcode,
        wait=random.choice([0, random.randrange(16)]),
        signal=random.choice([0, random.randrange(16)]),
        flip=random.getrandbits(1),
        window=window,
        offset=random.choice([0, random.randint(0, last_offset), last_offset])
        // BEAT_BYTES
        * BEAT_BYTES,
        stride=stride,
        lines=lines,
        rows=rows,
        row=random.choice([0, random.randint(0, last_row), last_row]),
        pitch=pitch,
    )


def bad_command(
    config: Config, windows: tuple[WindowBinding, ...], opcode: Opcode, kind: str
) -> Command:
    """Return a command that is illegal, often only from a later line on."""
    good = random_command(config, windows, opcode)
    size = line_bytes(config, good["rows"])
    window = windows[good["window"]]
    match kind:
        case "rows":
            row = config.ub_rows - random.randint(1, good["rows"] - 1 or 1)
            bad = good.replace(row=row, lines=2, pitch=random.randint(1, 99))
        case "pitch":
            bad = good.replace(row=0, lines=4095, pitch=config.ub_rows // random.randint(1, 3) - 1)
        case "end":  # the last beat is outside
            bad = good.replace(offset=window.size - size + BEAT_BYTES, lines=1)
        case "stride":
            bad = good.replace(offset=0, lines=9, stride=window.size // 32 * 16, pitch=0)
        case "wrap":  # 2**32 more is 0
            bad = good.replace(offset=64, lines=3, stride=(1 << 32) - 64, pitch=0)
        case "offset":
            bad = good.replace(offset=(1 << 32) - BEAT_BYTES)
        case "permission":
            bad = good.replace(window=PERMITTED[_other(opcode)][0])
        case "closed":  # nobody has a permission
            bad = good.replace(window=0)
        case _:
            raise ValueError(f"There is no kind of fault {kind!r}")
    return bad


def lines_of(command: Command) -> Iterator[Line]:
    """Yield the lines of a command, whether they are legal or not."""
    for i in range(command["lines"]):
        yield Line(
            command["row"] + i * command["pitch"],
            command["rows"],
            command["offset"] + i * command["stride"],
        )


def trace(
    config: Config, windows: tuple[WindowBinding, ...], commands: Iterable[Command]
) -> tuple[list[Burst], FaultSeen | None]:
    """Return the bursts of commands, up to the first illegal one, and that fault."""
    bursts = []
    for index, command in enumerate(commands):
        window = windows[command["window"]]
        allowed = window.read if command.opcode == Opcode.LOAD else window.write
        for line in lines_of(command):
            last_row = line.first_row + line.rows - 1
            if last_row >= config.ub_rows:
                return bursts, FaultSeen(Fault.BUFFER, index, last_row)
            offset, end = line.offset, line.offset + line_bytes(config, line.rows)
            while offset < end:
                address = window.base + offset
                size = min(
                    end - offset,
                    config.burst_beats * BEAT_BYTES,
                    PAGE_BYTES - address % PAGE_BYTES,
                )
                if not allowed or offset + size > window.size:
                    return bursts, FaultSeen(Fault.WINDOW, index, address % (1 << ADDRESS_BITS))
                bursts.append(Burst(address, size // BEAT_BYTES, index))
                offset += size
    return bursts, None


def legal_part(
    config: Config, windows: tuple[WindowBinding, ...], commands: list[Command]
) -> Iterator[Command]:
    """Yield the commands up to the first illegal burst: whole lines, then whole rows of a line."""
    for command in commands:
        lines = command["lines"]
        while lines and trace(config, windows, [command.replace(lines=lines)])[1]:
            lines -= 1
        if lines:
            yield command.replace(lines=lines)
        if lines < command["lines"]:
            whole, rest = (
                sum(burst.beats for burst in trace(config, windows, [command.replace(lines=i)])[0])
                for i in (lines, lines + 1)
            )
            rows = (rest - whole) * BEAT_BYTES // config.row_bytes
            if rows:
                line = list(lines_of(command))[lines]
                yield command.replace(lines=1, rows=rows, offset=line.offset, row=line.first_row)
            return


def rows_in_dram(
    config: Config, dram: Dram, windows: tuple[WindowBinding, ...], command: Command
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each row of a command and its bytes in DRAM, which may be written."""
    base = windows[command["window"]].base
    for line in lines_of(command):
        contents = dram.view(base + line.offset, line.rows * config.row_bytes)
        for i in range(line.rows):
            yield line.first_row + i, contents[i * config.row_bytes :][: config.row_bytes]


def flip_mask(command: Command) -> int:
    """Return what is exclusively or'ed to every byte."""
    return 0x80 if command["flip"] else 0


def _other(opcode: Opcode) -> Opcode:
    return Opcode.STORE if opcode == Opcode.LOAD else Opcode.LOAD
