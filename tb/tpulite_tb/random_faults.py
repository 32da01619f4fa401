"""Random commands and memory errors that must stop the machine, with the report to expect."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tpulite.arch.bitfield import Layout
from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES, RECORD_BYTES, Config
from tpulite.arch.isa import COMMANDS, RECORD, Command, Drain, Opcode, RecordForm
from tpulite.arch.memory import PAGE_BYTES, Window, WindowBinding
from tpulite.arch.registers import Fault
from tpulite_tb.random_commands import CommandDrawer, Drawn, mask

__all__ = [
    "BadCommands",
    "ExpectedFault",
    "draw_bad_record",
    "draw_bad_transfer",
    "draw_bad_word",
    "draw_out_of_buffer",
    "first_burst",
]


@dataclass(frozen=True)
class ExpectedFault:
    """What the machine must report."""

    code: Fault
    index: int
    address: int


@dataclass(frozen=True)
class BadCommands:
    """Commands of which the last one faults, with what each touches before that.

    ``address`` is what the fault reports, and ``case`` names it for coverage.
    """

    commands: list[Drawn]
    address: int
    case: str


def draw_out_of_buffer(
    rng: random.Random, drawer: CommandDrawer, config: Config
) -> BadCommands | None:
    """Draw a command that leaves the unified buffer or the accumulators; None if in vain."""
    drawn = rng.choice([drawer.load, drawer.store, drawer.copy, *[drawer.matmul] * 5])()
    if drawn is None:
        return None
    command = drawn.command
    if command.opcode == Opcode.MATMUL:
        return _matmul_out_of_buffer(rng, drawer, command, config)
    lines, rows = command["lines"], command["rows"]
    prefix = rng.choice(["src_", "dst_"]) if command.opcode == Opcode.COPY else ""
    row, pitch = f"{prefix}row", f"{prefix}pitch"
    if lines > 1 and rng.random() < 0.5:
        # The first line is legal and the second one is not.
        low = config.ub_rows - rows - command[row] + 1
        command = command.replace(**{pitch: rng.randint(low, (1 << 14) - 1)})
        address = command[row] + command[pitch] + rows - 1
        happens = command.replace(lines=1)
    else:
        low = config.ub_rows - rows + 1
        command = command.replace(**{row: rng.randint(low, (1 << 14) - 1)})
        address = command[row] + rows - 1
        happens = None
    case = row if happens is None else pitch
    return BadCommands([_partly(drawer, command, happens)], address, case)


def draw_bad_transfer(
    rng: random.Random, drawer: CommandDrawer, config: Config, windows: Sequence[WindowBinding]
) -> BadCommands | None:
    """Draw a LOAD or STORE that leaves its window or lacks the permission; None if in vain."""
    drawn = rng.choice([drawer.load, drawer.store])()
    if drawn is None:
        return None
    command = drawn.command
    load = command.opcode == Opcode.LOAD
    if rng.random() < 0.3:
        choices = [Window.OUTPUT] if load else [Window.CONSTANTS, Window.INPUT]
        command = command.replace(window=rng.choice(choices))
        address = windows[command["window"]].base + command["offset"]
        return BadCommands([_partly(drawer, command, None)], address, "permission")
    # Only into a window that no LOAD reads may a STORE write what the legal program does not.
    command = command.replace(window=Window.INPUT if load else Window.OUTPUT, lines=1)
    window = windows[command["window"]]
    beats = -(-command["rows"] * config.row_bytes // BEAT_BYTES)
    last = window.size // BEAT_BYTES
    offset = rng.randint(last, (1 << 28) - 1)
    if rng.random() < 0.7:
        offset = rng.randint(last - beats + 1, last)  # the line goes beyond the end
    command = command.replace(offset=offset * BEAT_BYTES)
    start = window.base + command["offset"]
    address = next(
        address
        for address, length in _bursts(start, beats, config.burst_beats)
        if address + length * BEAT_BYTES > window.base + window.size
    )
    happens = command if address > start else None
    case = "at once" if happens is None else "later burst"
    return BadCommands([_partly(drawer, command, happens)], address, case)


def draw_bad_record(
    rng: random.Random, drawer: CommandDrawer, config: Config
) -> BadCommands | None:
    """Draw a MATMUL whose channel records have a rounding that is not there; None if in vain."""
    matmul = drawer.matmul()
    if matmul is None or matmul.command["drain"] != Drain.REQUANTIZE:
        return None
    block = rng.choice([block for block in drawer.records if not block.usable])
    load = drawer.load_block(block)
    row = load.command["row"]
    command = matmul.command.replace(record_form=block.form, record_row=row)
    early = mask(drawer.early_rows(command))
    bad = Drawn(command, early=early, reads=matmul.reads, writes=matmul.writes)
    # The row with the rounding of the last record.
    channel = config.array_size - 1 if block.form == RecordForm.FULL else 0
    bit = 8 * RECORD_BYTES * channel + RECORD.offsets()["rounding"]
    address = row + bit // (8 * config.row_bytes)
    return BadCommands([load, bad], address, block.form.name.lower())


def draw_bad_word(rng: random.Random, command: Command) -> tuple[bytes, Fault]:
    """Damage the encoding of a legal command: an unknown opcode or an illegal field."""
    layout = COMMANDS[command.opcode]
    word = int.from_bytes(command.encode(), "little")
    illegal: list[tuple[str, int]] = []
    for field in layout.fields[1:]:
        if field.minimum == 1:
            illegal.append((field.name, 0))
        if field.multiple > 1:
            illegal.append((field.name, command[field.name] | rng.randrange(1, field.multiple)))
        if field.name == "drain":
            illegal.append((field.name, 3))
    if rng.random() < 0.3:
        opcode = rng.choice([i for i in range(16) if i not in list(Opcode)])
        word, code = word & ~0xF | opcode, Fault.OPCODE
    elif not illegal or rng.random() < 0.3:
        word, code = word | 1 << rng.randrange(layout.width, 8 * COMMAND_BYTES), Fault.FIELD
    else:
        word, code = _patched(layout, word, *rng.choice(illegal)), Fault.FIELD
    return word.to_bytes(COMMAND_BYTES, "little"), code


def first_burst(
    commands: Sequence[Command],
    opcode: Opcode,
    address: int,
    config: Config,
    windows: Sequence[WindowBinding],
) -> tuple[int, int]:
    """Return the command and the address of the first burst that touches the beat ``address``."""
    for i, command in enumerate(commands):
        if command.opcode == opcode:
            beats = -(-command["rows"] * config.row_bytes // BEAT_BYTES)
            base = windows[command["window"]].base + command["offset"]
            for line in range(command["lines"]):
                start = base + line * command["stride"]
                for burst, length in _bursts(start, beats, config.burst_beats):
                    if burst <= address < burst + length * BEAT_BYTES:
                        return i, burst
    raise ValueError(f"No {opcode.name} touches address {address:#x}")


def _matmul_out_of_buffer(
    rng: random.Random, drawer: CommandDrawer, command: Command, config: Config
) -> BadCommands | None:
    drain = Drain(command["drain"])
    cases = [
        ("acc_row", command["m"], config.acc_rows, 1 << 10),
        ("weight_row", command["k_tiles"] * config.array_size, config.ub_rows, 1 << 14),
        ("act_row", command["m"], config.ub_rows, 1 << 14),
    ]
    if drain == Drain.REQUANTIZE:
        rows = drawer.record_rows(RecordForm(command["record_form"]))
        cases.append(("record_row", rows, config.ub_rows, 1 << 14))
    if drain != Drain.KEEP:
        rows = command["m"] * (4 if drain == Drain.RAW else 1)
        cases.append(("out_row", rows, config.ub_rows, 1 << 14))
    name, rows, limit, fields = rng.choice(cases)
    happens = None
    if name == "act_row" and command["k_tiles"] > 1 and rng.random() < 0.5:
        # The first k-tile is legal and the second one is not.
        name, low = "act_pitch", limit - rows - command["act_row"] + 1
        happens = command.replace(k_tiles=1)
    else:
        low = limit - rows + 1
    if low >= fields:
        return None
    command = command.replace(**{name: rng.randint(low, fields - 1)})
    address = command[name] + rows - 1 + (command["act_row"] if name == "act_pitch" else 0)
    drawn = drawer.drawn(command)
    if happens is not None or name == "act_row":
        reads = range(command["act_row"], command["act_row"] + rows) if happens else ()
        drawn = drawer.drawn(command, early=drawer.early_rows(command), reads=reads)
    return BadCommands([drawn], address, name)


def _partly(drawer: CommandDrawer, command: Command, happens: Command | None) -> Drawn:
    """Describe a command of which only ``happens`` can happen."""
    if happens is None:
        return Drawn(command)
    rows = range(happens["rows"])
    if happens.opcode == Opcode.COPY:
        sources = [happens["src_row"] + i for i in rows]
        targets = [happens["dst_row"] + i for i in rows]
        touched = drawer.drawn(happens, reads=sources, writes=targets)
    else:
        lines = [happens["row"] + i for i in rows]
        load = happens.opcode == Opcode.LOAD
        touched = drawer.drawn(happens, reads=() if load else lines, writes=lines if load else ())
    return Drawn(command, 0, touched.reads, touched.writes, touched.dram_reads, touched.dram_writes)


def _bursts(address: int, beats: int, burst_beats: int) -> Iterator[tuple[int, int]]:
    """Cut a line where a burst is full or a page ends, beat by beat."""
    start, length = address, 0
    for beat in range(beats):
        here = address + beat * BEAT_BYTES
        if length and (length == burst_beats or here % PAGE_BYTES == 0):
            yield start, length
            start, length = here, 0
        length += 1
    yield start, length


def _patched(layout: Layout, word: int, name: str, value: int) -> int:
    width = next(field.width for field in layout.fields if field.name == name)
    offset = layout.offsets()[name]
    return word & ~(((1 << width) - 1) << offset) | value << offset
