"""Dispatcher: order, every check of every field, END."""

import os
import random

import cocotb
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from tpulite.arch.config import COMMAND_BYTES, Config
from tpulite.arch.isa import (
    COMMANDS,
    ENGINE_OF,
    Axis,
    Command,
    Drain,
    Engine,
    Opcode,
    decode,
    illegal_combination,
)
from tpulite.arch.memory import ADDRESS_BITS
from tpulite.arch.registers import Fault
from tpulite_rtl.cp.command_check import judge
from tpulite_rtl.cp.command_fetch import FETCHED
from tpulite_rtl.cp.dispatcher import Dispatcher
from tpulite_rtl.lib.interfaces import FAULT
from tpulite_rtl.lib.layout import INDEX_BITS, built
from tpulite_tb.commands import illegal_values, random_command, raw_word, single_bits
from tpulite_tb.effort import repeats
from tpulite_tb.harness import reset, simulate
from tpulite_tb.stream import StreamDriver, StreamMonitor, StreamSink

CONFIGS = {4: Config(queue_depth=1, requant_lanes=4), 16: Config(queue_depth=4)}
CONFIG = CONFIGS[int(os.environ.get("LANES", "16"))]
STREAMS = {"depthwise": 1, "byte_step": 0, "blocks": 1, "drain": Drain.KEEP}


class CheckedDispatcher(wiring.Component):
    """The dispatcher behind the check of commands, which come without a verdict."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.dispatcher = Dispatcher(config)
        super().__init__(self.dispatcher.signature)

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.dispatcher = inner = self.dispatcher
        ports = zip(self.signature.flatten(self), inner.signature.flatten(inner), strict=True)
        for (_, member, outside), (_, _, inside) in ports:
            m.d.comb += outside.eq(inside) if member.flow == Out else inside.eq(outside)
        m.d.comb += inner.i.p.verdict.eq(judge(m, self.config, self.i.p.word))
        return m


class Bench:
    """The dispatcher between a driver and four monitored queues."""

    def __init__(self, dut, *, idle: float = 0.0, stall: float = 0.0) -> None:
        self.dut = dut
        self.source = StreamDriver(dut, "i", idle=idle)
        self.received: dict[Engine, list[int]] = {engine: [] for engine in Engine}
        self.sinks = {}
        for engine in Engine:
            name = f"o_{engine.name.lower()}"
            self.sinks[engine] = StreamSink(dut, name, stall=stall)
            StreamMonitor(dut, name, callback=self.received[engine].append)
        dut.idle.value = (1 << len(Engine)) - 1
        dut.quiet.value = 1
        dut.stop.value = 0
        dut.address.value = 0

    def send(self, *words: int, first_index: int = 0) -> None:
        """Queue commands as they lie in DRAM."""
        for index, word in enumerate(words, first_index):
            self.send_one(word, index)

    def send_one(self, word: int, index: int) -> None:
        """Queue a command of any index."""
        self.source.append(FETCHED.const({"word": word, "index": index}).as_bits())

    @property
    def fault(self) -> tuple[int, int, int] | None:
        """The fault that is shown: code, index and address."""
        fault = FAULT.from_bits(self.dut.fault.value.to_unsigned())
        return (fault.code, fault.index, fault.address) if fault.valid else None

    async def reset(self) -> None:
        """Reset the dispatcher with the clock running, and forget what it did."""
        self.source.cancel()
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, 2)
        self.dut.rst.value = 0
        for received in self.received.values():
            received.clear()


def queued(command: Command, index: int) -> int:
    """Return the queue's payload: the fields, then the index."""
    return (
        int.from_bytes(command.encode(), "little")
        | index << built(COMMANDS[command.opcode], CONFIG).width
    )


def word_of(command: Command) -> int:
    return int.from_bytes(command.encode(), "little")


def command_of(word: int) -> Command | None:
    """Return what the software makes of a word, None if that is illegal."""
    try:
        command = decode(word.to_bytes(COMMAND_BYTES, "little"))
    except ValueError:
        return None
    return command if illegal_combination(command, CONFIG) is None else None


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.7])
async def legal_commands_reach_their_engines_in_order(dut, idle: float, stall: float) -> None:
    bench = Bench(dut, idle=idle, stall=stall)
    await reset(dut)
    commands = [random_command(random.choice(list(ENGINE_OF)), CONFIG) for _ in range(repeats(200))]
    commands += [command for opcode in ENGINE_OF for command in single_bits(opcode, CONFIG)]
    indices = [random.getrandbits(INDEX_BITS) for _ in commands]
    for command, index in zip(commands, indices, strict=True):
        bench.send_one(word_of(command), index)
    bench.send(word_of(Command.make(Opcode.END)))
    while not dut.done.value:
        await RisingEdge(dut.clk)
        assert bench.fault is None
    for engine in Engine:
        assert bench.received[engine] == [
            queued(command, index)
            for command, index in zip(commands, indices, strict=True)
            if command.engine == engine
        ]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def command_is_offered_in_the_next_cycle(dut) -> None:
    bench = Bench(dut, stall=0.0)
    await reset(dut)
    bench.send(word_of(random_command(Opcode.CONV, CONFIG)))
    while not dut.i__valid.value:
        await FallingEdge(dut.clk)
    assert dut.i__ready.value == 1
    assert dut.o_mxu__valid.value == 0
    await FallingEdge(dut.clk)
    assert dut.o_mxu__valid.value == 1


def illegal_together() -> list[dict[str, int]]:
    """Return fields of a CONV that contradict, a case or two for each rule."""
    dense = {"depthwise": 0, "byte_step": 3, "inner": Axis.X}
    cases = [
        dense | {"byte_step": CONFIG.array_size + 1},
        dense | {"byte_step": 31},
        dense | {"depthwise": 1, "blocks": 1, "drain": Drain.KEEP},
        dense | {"inner": Axis.Y},
        STREAMS | {"blocks": 2},
        STREAMS | {"blocks": 0x401},
        STREAMS | {"drain": Drain.RAW},
    ]
    if CONFIG.lanes < CONFIG.array_size:
        cases.append(STREAMS | {"drain": Drain.REQUANTIZE})
    return cases


def illegal_words() -> list[tuple[str, Fault, int]]:
    """Return each field illegal at least once, unused bits, and all unknown opcodes."""
    cases = []
    for opcode, layout in COMMANDS.items():
        for field in layout.fields[1:]:
            for value in illegal_values(field):
                word = raw_word(random_command(opcode, CONFIG), **{field.name: value})
                cases.append((f"{opcode.name}.{field.name} = {value}", Fault.FIELD, word))
        unused = range(layout.width, 8 * COMMAND_BYTES)  # CONV has none
        for bit in {*unused[:1], *unused[-1:], *random.sample(unused, min(1, len(unused)))}:
            word = word_of(random_command(opcode, CONFIG)) | 1 << bit
            cases.append((f"{opcode.name} bit {bit}", Fault.FIELD, word))
    for fields in illegal_together():
        command = random_command(Opcode.CONV, CONFIG).replace(**fields)
        assert illegal_combination(command, CONFIG) is not None
        cases.append((f"CONV {fields}", Fault.FIELD, word_of(command)))
    for opcode in set(range(16)) - set(Opcode):
        cases.append((f"opcode {opcode}", Fault.OPCODE, random.getrandbits(252) << 4 | opcode))
    return cases


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def every_illegal_field_is_a_fault(dut) -> None:
    bench = Bench(dut)
    await reset(dut)
    cases = illegal_words()
    assert len(cases) > 40
    for what, code, word in cases:
        await bench.reset()
        index = random.randrange(1, (1 << INDEX_BITS) - 2)
        dut.address.value = address = random.getrandbits(ADDRESS_BITS)
        before, after = random_command(Opcode.LOAD), random_command(Opcode.LOAD)
        bench.send(word_of(before), word, word_of(after), first_index=index - 1)
        for _cycle in range(20):
            await RisingEdge(dut.clk)
            if bench.fault is not None:
                break
        await ClockCycles(dut.clk, 3)
        expected = (code, index, address)
        assert bench.fault == expected, f"{what}: {bench.fault} instead of {expected}"
        dut.stop.value = 1
        await ClockCycles(dut.clk, 5)
        assert bench.fault is None
        assert bench.received[Engine.LOAD] == [queued(before, index - 1)], what
        assert not any(bench.received[engine] for engine in Engine if engine != Engine.LOAD), what
        dut.stop.value = 0


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def random_words_are_judged_as_by_decode(dut) -> None:
    """Commands, some with a random bit flipped: the software's checks are the oracle."""
    bench = Bench(dut)
    await reset(dut)
    verdicts = []
    for _ in range(repeats(200)):
        await bench.reset()
        choice = random_command(random.choice(list(ENGINE_OF)), random.choice([None, CONFIG]))
        word = word_of(choice) ^ random.choice([0, 1 << random.randrange(256)])
        command = command_of(word)
        bench.send(word)
        await ClockCycles(dut.clk, 6)
        if command is None:
            assert bench.fault is not None, hex(word)
            assert not any(bench.received.values()), hex(word)
        elif command.opcode == Opcode.END:
            assert bench.fault is None and dut.done.value, hex(word)
        else:
            assert bench.fault is None, hex(word)
            assert bench.received[ENGINE_OF[command.opcode]] == [queued(command, 0)], hex(word)
        verdicts.append(command is None)
    assert True in verdicts and False in verdicts


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def every_flipped_bit_is_judged_as_by_decode(dut) -> None:
    """Each bit of a command of each kind, in reset, when nothing is taken."""
    Bench(dut)
    await reset(dut)
    dut.rst.value = 1
    commands = [random_command(opcode, CONFIG) for opcode in COMMANDS]
    commands.append(random_command(Opcode.CONV).replace(**STREAMS))
    dut.i__valid.value = 1
    for word in map(word_of, commands):
        for flipped in (word ^ 1 << bit for bit in range(8 * COMMAND_BYTES)):
            dut.i__payload.value = flipped  # its index is 0
            await RisingEdge(dut.clk)
            assert dut.i__ready.value == (command_of(flipped) is not None), hex(flipped)
            assert dut.fault.value[0] != dut.i__ready.value


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def full_queue_blocks_everything_behind(dut) -> None:
    bench = Bench(dut)
    bench.sinks[Engine.MXU].stall(1)
    await reset(dut)
    depth = CONFIG.queue_depth
    convs = [random_command(Opcode.CONV, CONFIG) for _ in range(depth + 1)]
    load = random_command(Opcode.LOAD)
    bench.send(*map(word_of, [*convs, load]))
    await ClockCycles(dut.clk, 30)
    assert dut.i__valid.value and not dut.i__ready.value
    assert FETCHED.from_bits(dut.i__payload.value.to_unsigned()).index == depth
    assert bench.received[Engine.LOAD] == []
    bench.sinks[Engine.MXU].stall(0)
    await ClockCycles(dut.clk, 10)
    assert bench.received[Engine.MXU] == [queued(c, i) for i, c in enumerate(convs)]
    assert bench.received[Engine.LOAD] == [queued(load, depth + 1)]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def end_waits_for_everything(dut) -> None:
    """Hold back END by a command in each queue, by each engine, by a write without response."""
    bench = Bench(dut)
    everyone = (1 << len(Engine)) - 1
    await reset(dut)
    for opcode, engine in ENGINE_OF.items():
        await bench.reset()
        bench.sinks[engine].stall(1)
        command, end = random_command(opcode, CONFIG), Command.make(Opcode.END)
        bench.send(*map(word_of, [command, end, command]))
        await ClockCycles(dut.clk, 10)
        assert dut.ended.value and not dut.done.value, f"{engine.name} has a command in its queue"
        offered = FETCHED.from_bits(dut.i__payload.value.to_unsigned())
        assert dut.i__valid.value and offered.index == 2, "END was not accepted"
        bench.sinks[engine].stall(0)
        await ClockCycles(dut.clk, 3)
        for name, value, default in (
            ("idle", everyone & ~(1 << engine), everyone),
            ("quiet", 0, 1),
        ):
            assert dut.done.value
            getattr(dut, name).value = value
            await ClockCycles(dut.clk, 3)
            assert not dut.done.value, f"{name} is {value:b}"
            getattr(dut, name).value = default
            await ClockCycles(dut.clk, 3)
        assert bench.received[engine] == [queued(command, 0)], "dispatched after END"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def nothing_is_dispatched_after_stop(dut) -> None:
    bench = Bench(dut)
    await reset(dut)
    dut.stop.value = 1
    bench.send(word_of(random_command(Opcode.STORE)), word_of(Command.make(Opcode.END)))
    await ClockCycles(dut.clk, 10)
    assert not any(bench.received.values()) and not dut.ended.value and bench.fault is None


@pytest.mark.parametrize("lanes", CONFIGS)
def test_dispatcher(lanes: int) -> None:
    simulate(
        CheckedDispatcher(CONFIGS[lanes]),
        __file__,
        name=f"dispatcher_{lanes}",
        extra_env={"LANES": str(lanes)},
    )
