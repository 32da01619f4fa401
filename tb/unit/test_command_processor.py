"""Command processor with engines of plain Python: programs, tokens, faults, accounts."""

import random
from collections import Counter

import cocotb
from cocotb.task import Task
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge
from counter_port import read_counter
from engine_model import EngineModel
from fetch_memory import FetchMemory, some_address

from tpulite.arch.config import COMMAND_BYTES, Config
from tpulite.arch.isa import ENGINE_OF, Command, Engine, Opcode
from tpulite.arch.registers import COUNTER_OFFSETS, Control, EngineState, Fault, Interrupt, RunState
from tpulite_rtl.bus.registers import PROGRAM
from tpulite_rtl.cp.command_processor import CommandProcessor
from tpulite_rtl.cp.counters import CONFLICT_BITS
from tpulite_rtl.lib.interfaces import FAULT
from tpulite_rtl.lib.layout import INDEX_BITS
from tpulite_tb.commands import random_command
from tpulite_tb.harness import reset, simulate

CONFIG = Config(queue_depth=4)

MOVED = ("read_beat", "write_beat", "response", "accessed", "entered")
"""What the watchdog hears of, apart from dispatched commands."""


class Bench:
    """The processor with its memory and its four engines."""

    def __init__(self, dut, *, idle: float = 0.0, stall: float = 0.0) -> None:
        self.dut = dut
        self.log: list[tuple[str, Engine, int]] = []
        self.memory = FetchMemory(dut, burst_beats=CONFIG.burst_beats, idle=idle, stall=stall)
        self.engines = {engine: EngineModel(dut, engine, self.log) for engine in Engine}
        self.cycles = 0
        self.states: Counter[tuple[Engine, int]] = Counter()  # cycles of each
        dut.watchdog.value = dut.control.value = dut.conflicts.value = dut.program.value = 0
        dut.counters__wanted.value = 0
        self.rates = dict.fromkeys(("conflicts", "read_beats", "write_beats"), 0)  # in each cycle
        for moved in MOVED:
            getattr(dut, moved).value = 0

    async def request(self, control: Control) -> None:
        """Let the host make a request."""
        await FallingEdge(self.dut.clk)
        self.dut.control.value = control
        await FallingEdge(self.dut.clk)
        self.dut.control.value = 0

    async def run(self, commands: list[Command]) -> Interrupt:
        """Run a program from START to the interrupt."""
        self.log.clear()
        for engine in self.engines.values():
            engine.received.clear()
        words = [int.from_bytes(command.encode(), "little") for command in commands]
        return await self.run_words(words)

    async def run_words(self, words: list[int]) -> Interrupt:
        """Run 256-bit words from START to the interrupt."""
        address = some_address()
        self.memory.place(words, address=address)
        program = {"address": address, "length": len(words)}
        self.dut.program.value = PROGRAM.const(program).as_bits()
        await RisingEdge(self.dut.clk)
        await self.request(Control.START)
        self.cycles = 0
        self.states.clear()
        interrupt = Interrupt(0)
        while not interrupt:
            # Just before the rising edge everything has settled; the models move at falling edges.
            await RisingEdge(self.dut.clk)
            self.cycles += 1
            self.states.update(
                (engine, int(model.port("state").value)) for engine, model in self.engines.items()
            )
            interrupt = Interrupt(self.dut.interrupt.value.to_unsigned())
        await ClockCycles(self.dut.clk, 3)
        return interrupt

    async def run_without_end(self) -> Task[Interrupt]:
        """Let the vector engine work for ever, at command 0, and END be accepted meanwhile."""
        self.log.clear()
        self.engines[Engine.VPU].slow = 1.0
        work = random_command(Opcode.VECTOR, CONFIG).replace(wait=0)
        run = cocotb.start_soon(self.run([work, Command.make(Opcode.END)]))
        while not self.log:
            await RisingEdge(self.dut.clk)
        await ClockCycles(self.dut.clk, 5)
        return run

    def draw_rates(self) -> None:
        """Draw what is counted in each cycle."""
        conflicts, read, write = (random.getrandbits(bits) for bits in (CONFLICT_BITS, 1, 1))
        self.dut.conflicts.value = conflicts
        self.dut.read_beat.value, self.dut.write_beat.value = read, write
        self.rates = {"conflicts": conflicts, "read_beats": read, "write_beats": write}

    @property
    def error(self) -> tuple[int, int, int]:
        """The fault that was kept: code, index and address."""
        error = FAULT.from_bits(self.dut.error.value.to_unsigned())
        return error.code, error.index, error.address

    @property
    def started(self) -> int:
        """Number of commands that have started."""
        return sum(what == "start" for what, _, _ in self.log)

    def check(self, commands: list[Command]) -> None:
        """Check that every command ran once, in order, with the tokens that it needed."""
        for engine in Engine:
            indices = [i for i, command in enumerate(commands) if command.engine == engine]
            for what in ("start", "complete"):
                assert [i for w, e, i in self.log if (w, e) == (what, engine)] == indices
            assert self.engines[engine].received == {i: commands[i] for i in indices}
        tokens: Counter[tuple[Engine, Engine]] = Counter()
        for what, engine, index in self.log:
            command = commands[index]
            for other in Engine:
                if what == "start" and command["wait"] >> other & 1:
                    tokens[other, engine] -= 1
                    assert tokens[other, engine] >= 0, f"command {index} started too early"
                if what == "complete" and command["signal"] >> other & 1:
                    tokens[engine, other] += 1

    async def check_counters(self) -> None:
        """Check what came in every cycle, and the cycles in which an engine showed each state."""
        values = {n: await read_counter(self.dut, "counters", n) for n in COUNTER_OFFSETS}
        for name, rate in ({"cycles": 1} | self.rates).items():
            assert values[name] == rate * self.cycles, name
        for engine in Engine:
            states = [values[f"{engine.name}_{state.name}".lower()] for state in EngineState]
            assert states == [self.states[engine, state] for state in EngineState], engine


def random_program(length: int) -> list[Command]:
    """Return commands with random tokens that are legal in program order, then END."""
    tokens: Counter[tuple[Engine, Engine]] = Counter()
    commands = []
    for _ in range(length):
        command = random_command(random.choice(list(ENGINE_OF)), CONFIG)
        engine = ENGINE_OF[command.opcode]
        waits = [other for other in Engine if tokens[other, engine] and random.random() < 0.7]
        signals = [o for o in Engine if tokens[engine, o] < 5 and random.random() < 0.4]
        tokens.subtract((other, engine) for other in waits)
        tokens.update((engine, other) for other in signals)
        wait, signal = (sum(1 << other for other in others) for others in (waits, signals))
        commands.append(command.replace(wait=wait, signal=signal))
    return [*commands, Command.make(Opcode.END)]


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def programs_run_to_their_end(dut, idle: float, stall: float) -> None:
    """Several, one after the other, with left-over tokens that START must clear."""
    bench = Bench(dut, idle=idle, stall=stall)
    await reset(dut)
    for length in (0, 1, 60, 30):
        bench.draw_rates()
        commands = random_program(length)
        assert await bench.run(commands) == Interrupt.DONE
        assert dut.state.value == RunState.IDLE
        assert bench.error == (Fault.NONE, 0, 0)
        bench.check(commands)
        await bench.check_counters()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def first_command_is_early(dut) -> None:
    """AR in the cycle after START; the command at its engine three cycles after its second beat."""
    bench = Bench(dut)
    await reset(dut)
    commands = [random_command(Opcode.CONV, CONFIG).replace(wait=0), Command.make(Opcode.END)]
    cocotb.start_soon(bench.run(commands))
    await RisingEdge(dut.clk)
    while not dut.control.value:
        await RisingEdge(dut.clk)
    await FallingEdge(dut.clk)
    assert dut.read__ar__valid.value
    while bench.memory.answered < 2:
        await RisingEdge(dut.clk)
    for _ in range(2):  # cycles after that of the second beat
        await FallingEdge(dut.clk)
        assert not dut.engine_mxu__command__valid.value
    await FallingEdge(dut.clk)
    assert dut.engine_mxu__command__valid.value


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def fault_stops_the_chip_and_reset_revives_it(dut) -> None:
    bench = Bench(dut, idle=0.2, stall=0.2)
    await reset(dut)
    for _ in range(5):
        commands = random_program(60)
        victim = random.randrange(50)
        engine = commands[victim].engine
        assert engine is not None
        bench.engines[engine].fault_at = victim
        assert await bench.run(commands) == Interrupt.FAULT
        assert dut.state.value == RunState.QUIESCED
        assert bench.error == (Fault.WINDOW, victim, bench.engines[engine].fault_address)
        await bench.check_counters()
        assert bench.memory.answered == bench.memory.requested
        started = bench.started
        await ClockCycles(dut.clk, 20)
        assert bench.started == started, "a command started after the interrupt"

        bench.engines[engine].fault_at = None
        await bench.request(Control.RESET)
        await FallingEdge(dut.clk)
        assert dut.state.value == RunState.IDLE
        commands = random_program(20)
        assert await bench.run(commands) == Interrupt.DONE
        bench.check(commands)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reports_have_all_of_their_bits(dut) -> None:
    """Whatever an engine says of its fault is kept, and so is the complement."""
    bench = Bench(dut)
    await reset(dut)
    bits = FAULT.size - 1  # all but `valid`, which is the first
    for model in bench.engines.values():
        drawn = random.getrandbits(bits)
        for report in (drawn, drawn ^ (1 << bits) - 1):
            run = await bench.run_without_end()
            model.port("fault").value = report << 1 | 1
            await RisingEdge(dut.clk)
            model.port("fault").value = 0
            assert await run == Interrupt.FAULT
            fault = FAULT.from_bits(report << 1)
            assert bench.error == (fault.code, fault.index, fault.address), model.engine
            await bench.request(Control.RESET)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def illegal_program_is_refused_after_what_precedes_it(dut) -> None:
    """Stop at a bad opcode, a bad field, a missing END."""
    bench = Bench(dut)
    await reset(dut)
    for _ in range(4):
        good = [int.from_bytes(c.encode(), "little") for c in random_program(6)[:-1]]
        for code, words in (
            (Fault.OPCODE, [*good, 0]),
            (Fault.FIELD, [*good, Opcode.END | 1 << 200]),
            (Fault.OVERRUN, good),
        ):
            assert await bench.run_words(words) == Interrupt.FAULT
            index = len(good)
            assert bench.error == (code, index, bench.memory.address + COMMAND_BYTES * index)
            await bench.request(Control.RESET)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def deadlock_bites_the_watchdog(dut) -> None:
    """Blame the oldest waiting command, as nobody gives its token."""
    bench = Bench(dut)
    await reset(dut)
    dut.watchdog.value = 100
    commands = [
        random_command(Opcode.LOAD, CONFIG).replace(wait=0, signal=0),
        random_command(Opcode.CONV, CONFIG).replace(wait=1, signal=0),
        random_command(Opcode.VECTOR, CONFIG).replace(wait=4, signal=0),
        Command.make(Opcode.END),
    ]
    assert await bench.run(commands) == Interrupt.FAULT
    assert bench.error == (Fault.WATCHDOG, 1, 0)
    assert dut.state.value == RunState.QUIESCED
    await bench.request(Control.RESET)

    # A memory that does not answer: nothing is dispatched, and the chip hangs.
    bench.memory.requests.stall(1)
    assert await bench.run(commands) == Interrupt.FAULT
    assert bench.error == (Fault.WATCHDOG, 0, 0)
    assert dut.state.value == RunState.HUNG


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def whatever_moves_pleases_the_watchdog(dut) -> None:
    """Deadlock, too, as long as anything moves; no engine that only says that it is BUSY."""
    bench = Bench(dut)
    await reset(dut)
    dut.watchdog.value = 100
    deadlock = [random_command(Opcode.CONV, CONFIG).replace(wait=1, signal=0)]
    for moved in MOVED:
        run = cocotb.start_soon(bench.run([*deadlock, Command.make(Opcode.END)]))
        for _step in range(5):
            await ClockCycles(dut.clk, random.randint(50, 90))
            assert not run.done(), moved
            getattr(dut, moved).value = 1
            await RisingEdge(dut.clk)
            getattr(dut, moved).value = 0
        assert await run == Interrupt.FAULT
        assert bench.error == (Fault.WATCHDOG, 0, 0)
        await bench.request(Control.RESET)

    bench.engines[Engine.VPU].slow = 1.0
    work = [random_command(Opcode.VECTOR, CONFIG).replace(wait=0, signal=0)]
    assert await bench.run([*work, Command.make(Opcode.END)]) == Interrupt.FAULT
    assert bench.error == (Fault.WATCHDOG, 0, 0)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def full_token_counter_bites_the_watchdog(dut) -> None:
    """See through an engine that cannot give: it shows BUSY, but makes no progress."""
    bench = Bench(dut)
    bench.engines[Engine.LOAD].slow = 0.0
    await reset(dut)
    dut.watchdog.value = 100
    load = random_command(Opcode.LOAD, CONFIG).replace(wait=0, signal=1 << Engine.VPU)
    assert await bench.run([load] * 70 + [Command.make(Opcode.END)]) == Interrupt.FAULT
    assert bench.error == (Fault.WATCHDOG, 63, 0)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def oldest_command_is_blamed(dut) -> None:
    """Each engine's in turn, whatever its index: the others hold younger ones, or none."""
    bench = Bench(dut)
    await reset(dut)
    every = (1 << INDEX_BITS) - 1
    for engine in Engine:
        drawn = random.getrandbits(INDEX_BITS)
        for oldest in (drawn, drawn ^ every):
            run = await bench.run_without_end()
            for other, model in bench.engines.items():
                holds = other == engine or random.random() < 0.5
                index = random.randint(oldest if holds else 0, every)
                model.port("idle").value = not holds
                model.port("index").value = oldest if other == engine else index
            await ClockCycles(dut.clk, 4)
            await bench.request(Control.STOP)
            assert await run == Interrupt.FAULT
            assert bench.error == (Fault.STOPPED, oldest, 0), engine
            await bench.request(Control.RESET)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def host_stops_the_chip(dut) -> None:
    bench = Bench(dut)
    await reset(dut)
    run = cocotb.start_soon(bench.run(random_program(60)))
    while len(bench.log) < 10:
        await RisingEdge(dut.clk)
    await bench.request(Control.STOP)
    assert await run == Interrupt.FAULT
    assert bench.error[0] == Fault.STOPPED


def test_command_processor():
    simulate(CommandProcessor(CONFIG), __file__, name="command_processor")
