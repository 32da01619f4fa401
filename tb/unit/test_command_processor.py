"""Command processor with engines of plain Python: programs, tokens, faults, accounts."""

import random
from collections import Counter

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge
from fetch_memory import FetchMemory, some_address

from tpulite.arch.config import COMMAND_BYTES, Config
from tpulite.arch.isa import COMMANDS, ENGINE_OF, Command, Engine, Opcode
from tpulite.arch.registers import COUNTER_OFFSETS, Control, EngineState, Fault, Interrupt, RunState
from tpulite_rtl.bus.registers import COUNTERS, PROGRAM
from tpulite_rtl.cp.command_processor import CommandProcessor
from tpulite_rtl.lib.interfaces import FAULT
from tpulite_tb.commands import random_command
from tpulite_tb.harness import reset, simulate

CONFIG = Config(queue_depth=4)
OPCODE_OF = {engine: opcode for opcode, engine in ENGINE_OF.items()}


class EngineModel:
    """An engine that waits for its tokens, takes its time, and gives its tokens."""

    def __init__(self, dut, engine: Engine, log: list[tuple[str, Engine, int]]) -> None:
        self.engine = engine
        self.slow = 0.8
        self.fault_at: int | None = None
        self.log = log
        self._layout = COMMANDS[OPCODE_OF[engine]]
        self._dut = dut
        self._quiet_in = 0
        self._forget()
        cocotb.start_soon(self._run())

    def port(self, name: str):
        """Return a signal of the engine's port."""
        return getattr(self._dut, f"engine_{self.engine.name.lower()}__{name}")

    def _forget(self) -> None:
        self.port("command__ready").value = 0
        self.port("take__valid").value = 0
        self.port("give__valid").value = 0
        self.port("idle").value = 1
        self.port("quiet").value = 1
        self.port("state").value = EngineState.IDLE
        self.port("index").value = 0
        self.port("fault").value = 0

    async def _run(self) -> None:
        while True:
            await FallingEdge(self._dut.clk)
            stopped = self._dut.rst.value or self.port("stop").value
            if stopped or not self.port("command__valid").value:
                continue
            word = self.port("command__payload").value.to_unsigned()
            index = word >> self._layout.width
            fields = self._layout.unpack(word % (1 << self._layout.width))
            self.port("index").value = index
            self.port("state").value = EngineState.TOKEN
            if not await self._hand_over("take", fields["wait"]):
                continue
            self.log.append(("start", self.engine, index))
            self.port("command__ready").value = 1
            await FallingEdge(self._dut.clk)
            self.port("command__ready").value = 0
            self.port("idle").value = 0
            self.port("state").value = EngineState.BUSY
            if not await self._work():
                continue
            if self.fault_at == index:
                await self._fail(index)
                continue
            if not await self._hand_over("give", fields["signal"]):
                continue
            self.log.append(("complete", self.engine, index))
            self.port("idle").value = 1
            self.port("state").value = EngineState.IDLE

    async def _work(self) -> bool:
        """Let some cycles pass; false if the chip was cleared meanwhile."""
        while random.random() < self.slow:
            await RisingEdge(self._dut.clk)
            if self._dut.clear.value:
                self._forget()
                return False
            await FallingEdge(self._dut.clk)
        return True

    async def _hand_over(self, name: str, mask: int) -> bool:
        """Offer a mask until it is accepted, or until the chip is cleared."""
        self.port(f"{name}__payload").value = mask
        self.port(f"{name}__valid").value = 1
        accepted = False
        while not accepted:
            # Offers are made at the falling edge, so this sees what the rising edge will do.
            await RisingEdge(self._dut.clk)
            if self._dut.clear.value:
                self._forget()
                return False
            accepted = bool(self.port(f"{name}__ready").value)
            await FallingEdge(self._dut.clk)
            if name == "take" and self.port("stop").value and not accepted:
                self.port(f"{name}__valid").value = 0
                await self._cleared()
                return False
        self.port(f"{name}__valid").value = 0
        return True

    async def _fail(self, index: int) -> None:
        """Show a fault, be quiet a little later, and wait for the soft reset."""
        fault = {"valid": 1, "code": Fault.WINDOW, "index": index, "address": 0x1230}
        self.port("quiet").value = 0
        self.port("fault").value = FAULT.const(fault).as_bits()
        await FallingEdge(self._dut.clk)
        self.port("fault").value = 0
        await ClockCycles(self._dut.clk, 20)
        assert self._dut.state.value == RunState.STOPPING
        self.port("quiet").value = 1
        await self._cleared()

    async def _cleared(self) -> None:
        await RisingEdge(self._dut.clk)
        while not self._dut.clear.value:
            await RisingEdge(self._dut.clk)
        self._forget()


class Bench:
    """The processor with its memory and its four engines."""

    def __init__(self, dut, *, idle: float = 0.0, stall: float = 0.0) -> None:
        self.dut = dut
        self.log: list[tuple[str, Engine, int]] = []
        self.memory = FetchMemory(dut, burst_beats=CONFIG.burst_beats, idle=idle, stall=stall)
        self.engines = {engine: EngineModel(dut, engine, self.log) for engine in Engine}
        self.cycles = 0
        dut.watchdog.value = dut.control.value = dut.conflicts.value = dut.program.value = 0
        dut.read_beat.value = dut.write_beat.value = dut.response.value = 0

    async def request(self, control: Control) -> None:
        """Let the host make a request."""
        await FallingEdge(self.dut.clk)
        self.dut.control.value = control
        await FallingEdge(self.dut.clk)
        self.dut.control.value = 0

    async def run(self, commands: list[Command]) -> Interrupt:
        """Run a program from START to the interrupt."""
        self.log.clear()
        words = [int.from_bytes(command.encode(), "little") for command in commands]
        return await self.run_words(words)

    async def run_words(self, words: list[int]) -> Interrupt:
        """Run 256-bit words from START to the interrupt."""
        address = some_address()
        self.memory.place(words, address=address)
        program = {"address": address, "length": len(words)}
        self.dut.program.value = PROGRAM.const(program).as_bits()
        await self.request(Control.START)
        self.cycles = 0
        interrupt = Interrupt(0)
        while not interrupt:
            # Just before the rising edge everything has settled; the models move at falling edges.
            await RisingEdge(self.dut.clk)
            self.cycles += 1
            interrupt = Interrupt(self.dut.interrupt.value.to_unsigned())
        await ClockCycles(self.dut.clk, 2)
        return interrupt

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
        tokens: Counter[tuple[Engine, Engine]] = Counter()
        for what, engine, index in self.log:
            command = commands[index]
            for other in Engine:
                if what == "start" and command["wait"] >> other & 1:
                    tokens[other, engine] -= 1
                    assert tokens[other, engine] >= 0, f"command {index} started too early"
                if what == "complete" and command["signal"] >> other & 1:
                    tokens[engine, other] += 1

    def check_counters(self) -> None:
        """Check that CYCLES is right and that every engine accounts for all of it."""
        counters = COUNTERS.from_bits(self.dut.counters.value.to_unsigned())
        values = {name: counters[name] for name in COUNTER_OFFSETS}
        assert values["cycles"] == self.cycles
        for engine in Engine:
            states = [values[f"{engine.name}_{state.name}".lower()] for state in EngineState]
            assert sum(states) == self.cycles


def random_program(length: int) -> list[Command]:
    """Return commands with random tokens that are legal in program order, then END."""
    tokens: Counter[tuple[Engine, Engine]] = Counter()
    commands = []
    for _ in range(length):
        command = random_command(random.choice(list(ENGINE_OF)))
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
        commands = random_program(length)
        assert await bench.run(commands) == Interrupt.DONE
        assert dut.state.value == RunState.IDLE
        assert bench.error == (Fault.NONE, 0, 0)
        bench.check(commands)
        bench.check_counters()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def first_command_is_early(dut) -> None:
    """AR in the cycle after START; the command at its engine two cycles after its second beat."""
    bench = Bench(dut)
    await reset(dut)
    commands = [random_command(Opcode.MATMUL).replace(wait=0), Command.make(Opcode.END)]
    cocotb.start_soon(bench.run(commands))
    await RisingEdge(dut.clk)
    while not dut.control.value:
        await RisingEdge(dut.clk)
    await FallingEdge(dut.clk)
    assert dut.read__ar__valid.value
    while bench.memory.answered < 2:
        await RisingEdge(dut.clk)
    await FallingEdge(dut.clk)  # of the cycle after the second beat
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
        assert bench.error == (Fault.WINDOW, victim, 0x1230)
        bench.check_counters()
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
async def illegal_program_is_refused_after_what_precedes_it(dut) -> None:
    """Stop at a bad opcode, a bad field, a missing END."""
    bench = Bench(dut)
    await reset(dut)
    good = [int.from_bytes(c.encode(), "little") for c in random_program(12)[:-1]]
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
        random_command(Opcode.LOAD).replace(wait=0, signal=0),
        random_command(Opcode.MATMUL).replace(wait=1, signal=0),
        random_command(Opcode.COPY).replace(wait=4, signal=0),
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
async def full_token_counter_bites_the_watchdog(dut) -> None:
    """See through an engine that cannot give: it shows BUSY, but makes no progress."""
    bench = Bench(dut)
    bench.engines[Engine.LOAD].slow = 0.0
    await reset(dut)
    dut.watchdog.value = 100
    load = random_command(Opcode.LOAD).replace(wait=0, signal=1 << Engine.VPU)
    assert await bench.run([load] * 70 + [Command.make(Opcode.END)]) == Interrupt.FAULT
    assert bench.error == (Fault.WATCHDOG, 63, 0)


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
