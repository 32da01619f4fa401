"""What surrounds the command fetch in its bench, and the commands that it fetches."""

import os
import random

from cocotb.triggers import RisingEdge
from fetch_memory import FetchMemory

from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES, Config
from tpulite.arch.isa import COMMANDS, Opcode, decode, illegal_combination
from tpulite.arch.memory import PAGE_BYTES
from tpulite_rtl.bus.axi import BURST
from tpulite_rtl.bus.registers import PROGRAM
from tpulite_rtl.cp.command_fetch import FETCHED
from tpulite_rtl.lib.interfaces import FAULT
from tpulite_tb.commands import illegal_values, random_command, raw_word
from tpulite_tb.stream import StreamMonitor, StreamSink

__all__ = ["BUFFER_BEATS", "BURST_BEATS", "CONFIG", "FetchBench", "config_of"]


def config_of(burst_beats: int) -> Config:
    """Return the machine of these bursts: with short ones it has softmax, whose fields differ."""
    return Config(burst_beats=burst_beats, softmax=burst_beats < 16)


BURST_BEATS = int(os.environ.get("BURST_BEATS", "16"))
CONFIG = config_of(BURST_BEATS)
BUFFER_BEATS = 2 * max(16, BURST_BEATS)


def some_word() -> int:
    """Return a command as it lies in DRAM: legal, or not in a field, in a bit or anywhere."""
    opcode = random.choice(list(Opcode))
    command = random_command(opcode, random.choice([CONFIG, None]))
    word = raw_word(command)
    match random.randrange(6):
        case 0:
            word ^= 1 << random.randrange(8 * COMMAND_BYTES)
        case 1:
            field = random.choice(COMMANDS[opcode].fields)
            word = raw_word(command, **{field.name: random.choice(field.range)})
        case 2:
            return random.getrandbits(8 * COMMAND_BYTES)
        case 3:
            field = random.choice(COMMANDS[opcode].fields)
            wrong = illegal_values(field)
            return raw_word(command, **{field.name: random.choice(wrong)}) if wrong else word
    return word


def verdict_of(word: int) -> tuple[int, bool, bool]:
    """Return what the fetch must say of a word: its opcode, whether it is one, and legal."""
    opcode = word & 0xF
    try:
        command = decode(word.to_bytes(COMMAND_BYTES, "little"))
    except ValueError:
        return opcode, opcode in list(Opcode), False
    return opcode, True, illegal_combination(command, CONFIG) is None


class WholeBursts(FetchMemory):
    """Checks that a burst ends only with the longest one, the page or the program, too."""

    def _burst(self, payload: int) -> None:
        burst = BURST.from_bits(payload)
        page = (PAGE_BYTES - burst.address % PAGE_BYTES) // BEAT_BYTES
        program = COMMAND_BYTES // BEAT_BYTES * len(self.words) - self.requested
        assert burst.len + 1 == min(BURST_BEATS, page, program)
        super()._burst(payload)


class FetchBench:
    """The fetch between a memory that answers beat by beat and a sink for commands."""

    def __init__(self, dut, *, idle: float = 0.0, stall: float = 0.0, watch: bool = True) -> None:
        self.dut = dut
        self.memory = WholeBursts(dut, burst_beats=BURST_BEATS, idle=idle, stall=stall)
        self.sink = StreamSink(dut, "o", stall=stall)
        self.commands: list[tuple[int, int]] = []
        self.has_end = True
        if watch:  # a stop withdraws offers, which this monitor does not allow
            self.watch()
        dut.start.value = dut.stop.value = dut.ended.value = 0

    def watch(self) -> None:
        """Collect the commands from now on."""
        StreamMonitor(self.dut, "o", callback=self._command)

    def place(self, *, length: int, address: int, has_end: bool = True) -> None:
        """Place a random program."""
        self.place_words([some_word() for _ in range(length)], address, has_end=has_end)

    def place_words(self, words: list[int], address: int, *, has_end: bool = True) -> None:
        """Place a program."""
        self.memory.place(words, address=address)
        program = {"address": address, "length": len(words)}
        self.dut.program.value = PROGRAM.const(program).as_bits()
        self.commands.clear()
        self.has_end = has_end

    async def start(self) -> None:
        """Give the start pulse."""
        await RisingEdge(self.dut.clk)
        self.dut.start.value = 1
        self.dut.ended.value = 0
        await RisingEdge(self.dut.clk)
        self.dut.start.value = 0

    async def delivered(self, count: int) -> None:
        """Wait for so many commands."""
        while len(self.commands) < count:
            await RisingEdge(self.dut.clk)

    @property
    def fault(self) -> tuple[int, int, int] | None:
        """The fault that is shown: code, index and address."""
        fault = FAULT.from_bits(self.dut.fault.value.to_unsigned())
        return (fault.code, fault.index, fault.address) if fault.valid else None

    def _command(self, payload: int) -> None:
        fetched = FETCHED.from_bits(payload)
        self.commands.append((fetched.word, fetched.index))
        verdict = fetched.verdict.opcode, fetched.verdict.known, fetched.verdict.legal
        assert verdict == verdict_of(fetched.word), hex(fetched.word)
        lies = self.memory.address + COMMAND_BYTES * fetched.index
        assert self.dut.address.value == lies
        if self.has_end and fetched.index == len(self.memory.words) - 1:
            self.dut.ended.value = 1
