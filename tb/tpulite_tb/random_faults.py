"""Random transfers, words and memory errors that must stop the machine, and what to expect."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tpulite.arch.bitfield import Layout
from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES, Config
from tpulite.arch.isa import BYTE_STEPS, COMMANDS, Command, Opcode
from tpulite.arch.memory import PAGE_BYTES, Window, WindowBinding
from tpulite.arch.registers import Fault
from tpulite_tb.random_state import Drawn, State
from tpulite_tb.random_transfers import draw_load, draw_store

__all__ = [
    "ROW_LIMIT",
    "BadCommands",
    "ExpectedFault",
    "draw_bad_transfer",
    "draw_bad_word",
    "draw_transfer_out_of_buffer",
    "first_burst",
]

ROW_LIMIT = 1 << 14
"""Rows that a field of a command can name, as many as the largest buffer has."""


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


def draw_transfer_out_of_buffer(state: State) -> BadCommands | None:
    """Draw a LOAD or STORE that leaves the unified buffer; None if in vain."""
    rng, limit = state.rng, state.config.ub_rows
    drawn = rng.choice([draw_load, draw_store])(state)
    if drawn is None:
        return None
    command = drawn.command
    rows = command["rows"]
    if command["lines"] > 1 and rng.random() < 0.5:
        # The first line is legal and the second one is not.
        low = limit - rows - command["row"] + 1
        if low == ROW_LIMIT:
            return None
        command = command.replace(pitch=rng.randrange(low, ROW_LIMIT))
        address = command["row"] + command["pitch"] + rows - 1
        return BadCommands([_partly(state, command, command.replace(lines=1))], address, "pitch")
    low = limit - rows + 1
    if low == ROW_LIMIT:
        return None
    command = command.replace(row=rng.randrange(low, ROW_LIMIT))
    return BadCommands([Drawn(command)], command["row"] + rows - 1, "row")


def draw_bad_transfer(state: State, windows: Sequence[WindowBinding]) -> BadCommands | None:
    """Draw a LOAD or STORE that leaves its window or lacks the permission; None if in vain."""
    rng, config = state.rng, state.config
    drawn = rng.choice([draw_load, draw_store])(state)
    if drawn is None:
        return None
    command = drawn.command
    load = command.opcode == Opcode.LOAD
    if rng.random() < 0.3:
        choices = [Window.OUTPUT] if load else [Window.CONSTANTS, Window.INPUT]
        command = command.replace(window=rng.choice(choices))
        address = windows[command["window"]].base + command["offset"]
        return BadCommands([Drawn(command)], address, "permission")
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
    if address == start:
        return BadCommands([Drawn(command)], address, "at once")
    return BadCommands([_partly(state, command, command)], address, "later burst")


def draw_bad_word(rng: random.Random, command: Command, config: Config) -> tuple[bytes, Fault]:
    """Damage a legal command: an unknown opcode, an illegal field, or fields that do not match."""
    layout = COMMANDS[command.opcode]
    word = int.from_bytes(command.encode(), "little")
    unused = range(layout.width, 8 * COMMAND_BYTES)  # CONV has none
    illegal: list[dict[str, int]] = []
    for field in layout.fields[1:]:
        if field.minimum == 1:
            illegal.append({field.name: 0})
        if field.multiple > 1:
            value = command[field.name] | rng.randrange(1, field.multiple)
            illegal.append({field.name: value})
        if field.name == "drain":
            illegal.append({field.name: 3})
    if command.opcode == Opcode.CONV:
        illegal += 2 * _mismatches(rng, config)
    if rng.random() < 0.3:
        opcode = rng.choice([i for i in range(16) if i not in list(Opcode)])
        word, code = word & ~0xF | opcode, Fault.OPCODE
    elif unused and (not illegal or rng.random() < 0.3):
        word, code = word | 1 << rng.choice(unused), Fault.FIELD
    else:
        for name, value in rng.choice(illegal).items():
            word = _patched(layout, word, name, value)
        code = Fault.FIELD
    return word.to_bytes(COMMAND_BYTES, "little"), code


def _mismatches(rng: random.Random, config: Config) -> list[dict[str, int]]:
    """Return fields of a CONV that are legal each and illegal together."""
    depthwise = {"depthwise": 1, "byte_step": 0, "blocks": 1}
    most = min(config.array_size, BYTE_STEPS - 1)
    cases = [
        {"depthwise": 1, "inner": 0, "byte_step": rng.randint(1, most)},
        {"depthwise": 0, "inner": 1, "byte_step": rng.randint(1, most)},
        depthwise | {"drain": 0, "blocks": rng.randint(2, 2047)},
        depthwise | {"drain": 2},
    ]
    if most < BYTE_STEPS - 1:
        step = rng.randint(most + 1, BYTE_STEPS - 1)
        cases.append({"depthwise": 0, "inner": 0, "byte_step": step})
    if config.lanes < config.array_size:
        cases.append(depthwise | {"drain": 1})
    if config.has_transposed_tiles:
        cases += [depthwise | {"drain": 0, "transposed": 1}, {"byte_step": 1, "transposed": 1}]
    other = {"depthwise": 0, "byte_step": 0, "transposed": 0, "weight_zero_point": 0}
    if not config.int4:
        cases.append(other | {"int4": 1})
    else:
        cases.append(other | {"int4": 1, "weight_zero_point": rng.choice([-128, -1, 1, 127])})
        cases += [{"int4": 1, "byte_step": 1}, depthwise | {"drain": 0, "int4": 1}]
    return cases


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


def _partly(state: State, command: Command, happens: Command) -> Drawn:
    """Describe a transfer of which only ``happens`` can happen."""
    touched = state.drawn(happens)
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
