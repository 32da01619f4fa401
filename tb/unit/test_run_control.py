# amaranth: UnusedElaboratable=no
"""Run control: every transition, and random traffic against a plain model."""

import random

import cocotb
import pytest
from cocotb.triggers import ReadOnly, RisingEdge, Timer

from tpulite.arch.memory import ADDRESS_BITS
from tpulite.arch.registers import Control, Fault, Interrupt, RunState
from tpulite_rtl.cp.run_control import RunControl
from tpulite_rtl.lib.interfaces import FAULT
from tpulite_rtl.lib.layout import INDEX_BITS
from tpulite_tb.harness import reset, simulate

SOURCES = 3

Report = tuple[int, int, int]  # code, index, address


class Model:
    """What run control does in a cycle, told in plain Python."""

    def __init__(self) -> None:
        self.state = RunState.IDLE
        self.error: Report = (0, 0, 0)
        self.stalled = 0
        self.halted = False
        self.report: Report | None = None  # of the cycle before

    def step(
        self,
        *,
        control: Control,
        faults: list[Report | None],
        done: bool,
        quiet: bool,
        progress: bool,
        oldest: int,
        watchdog: int,
    ) -> dict[str, int]:
        """Return the outputs of this cycle, and go on to the next."""
        running = self.state in (RunState.RUNNING, RunState.STOPPING)
        start = self.state == RunState.IDLE and Control.START in control
        soft_reset = Control.RESET in control and self.state in (RunState.IDLE, RunState.QUIESCED)
        outputs = {
            "state": int(self.state),
            "start": start,
            "clear": start or soft_reset,
            "stop": self.state in (RunState.STOPPING, RunState.QUIESCED, RunState.HUNG),
            "halt": self.halted,
            "running": running,
            "interrupt": 0,
        }
        self.stalled = 0 if progress or not running else self.stalled + 1
        expired = watchdog > 0 and self.stalled == watchdog
        reported, self.report = self.report, None
        if not self.halted:
            self.report = next((fault for fault in faults if fault is not None), None)
        if start:
            self.state, self.error = RunState.RUNNING, (0, 0, 0)
        elif soft_reset:
            self.state = RunState.IDLE
        elif self.state == RunState.RUNNING:
            if reported:
                self._stop(reported)
            elif done:
                self.state = RunState.IDLE
                outputs["interrupt"] = int(Interrupt.DONE)
            elif Control.STOP in control:
                self._stop((Fault.STOPPED, oldest, 0))
            elif expired:
                self._stop((Fault.WATCHDOG, oldest, 0))
        elif self.state == RunState.STOPPING and (quiet or expired):
            self.state = RunState.QUIESCED if quiet else RunState.HUNG
            outputs["interrupt"] = int(Interrupt.FAULT)
        stopped = self.state in (RunState.STOPPING, RunState.QUIESCED, RunState.HUNG)
        self.halted = stopped or bool(outputs["clear"])
        return outputs

    def _stop(self, error: Report) -> None:
        self.state, self.error, self.stalled = RunState.STOPPING, error, 0


async def cycle(dut, model: Model, **changes) -> None:
    """Apply inputs for a cycle and compare all outputs with the model."""
    inputs = {
        "control": Control(0),
        "faults": [None] * SOURCES,
        "done": False,
        "quiet": False,
        "progress": True,
        "oldest": random.getrandbits(INDEX_BITS),
        "watchdog": 5,
    } | changes
    await RisingEdge(dut.clk)
    dut.control.value = int(inputs["control"])
    for i, fault in enumerate(inputs["faults"]):
        code, index, address = random_report() if fault is None else fault
        values = {"valid": fault is not None, "code": code, "index": index, "address": address}
        getattr(dut, f"faults__{i}").value = FAULT.const(values).as_bits()
    for name in ("done", "quiet", "progress", "oldest", "watchdog"):
        getattr(dut, name).value = int(inputs[name])
    await ReadOnly()
    error = FAULT.from_bits(dut.error.value.to_unsigned())
    assert (error.code, error.index, error.address) == model.error
    expected = model.step(**inputs)
    got = {name: int(getattr(dut, name).value) for name in expected}
    assert got == expected, inputs


def random_report() -> Report:
    return (
        random.choice(sorted(set(range(16)) - {Fault.NONE, Fault.WATCHDOG, Fault.STOPPED})),
        random.getrandbits(INDEX_BITS),
        random.getrandbits(ADDRESS_BITS),
    )


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def run_to_end(dut) -> None:
    model = Model()
    dut.control.value = 0
    await reset(dut)
    await cycle(dut, model, control=Control.START)
    for _ in range(3):
        await cycle(dut, model)
    assert model.state == RunState.RUNNING
    await cycle(dut, model, done=True, quiet=True)
    await cycle(dut, model, done=True, quiet=True)
    assert model.state == RunState.IDLE


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def first_fault_counts(dut) -> None:
    """Keep the first source's of two at once; later ones change nothing; soft reset leads on."""
    model = Model()
    dut.control.value = 0
    await reset(dut)
    first, other = random_report(), random_report()
    await cycle(dut, model, control=Control.START)
    for _ in range(3):
        await cycle(dut, model)
    await cycle(dut, model, faults=[None, first, other])
    await cycle(dut, model, done=True, control=Control.STOP)
    for _ in range(5):
        await cycle(dut, model, faults=[other, None, None])
    await cycle(dut, model, quiet=True)
    for _ in range(3):
        await cycle(dut, model, faults=[other, None, None], control=Control.START)
    assert model.state == RunState.QUIESCED
    assert model.error == first
    await cycle(dut, model, control=Control.RESET)
    await cycle(dut, model, control=Control.START)
    await cycle(dut, model)
    assert model.state == RunState.RUNNING
    assert model.error == (0, 0, 0)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def halted_engines_have_nothing_to_report(dut) -> None:
    """A fault in the cycle after START, or after a soft reset, is one of the run before."""
    model = Model()
    dut.control.value = 0
    await reset(dut)
    for control in (Control.START, Control.RESET):
        for source in range(SOURCES):
            fault = [random_report() if i == source else None for i in range(SOURCES)]
            await cycle(dut, model, control=control)
            await cycle(dut, model, faults=fault, control=Control.START)
            for _ in range(3):
                await cycle(dut, model)
            assert model.state == RunState.RUNNING
            await cycle(dut, model, faults=fault)
            await cycle(dut, model)
            assert model.state == RunState.STOPPING
            await cycle(dut, model, quiet=True)
            await cycle(dut, model, control=Control.RESET)
            await cycle(dut, model)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def watchdog_counts_cycles_without_progress(dut) -> None:
    """Count exactly so many in a row, to the fault and again, whatever the host says, to HUNG."""
    model = Model()
    dut.control.value = 0
    await reset(dut)
    await cycle(dut, model, control=Control.START)
    await cycle(dut, model)
    for _ in range(4):
        await cycle(dut, model, progress=False)
    await cycle(dut, model)
    for _ in range(5):
        assert model.state == RunState.RUNNING
        await cycle(dut, model, progress=False)
    assert model.error[0] == Fault.WATCHDOG
    for _ in range(5):
        assert model.state == RunState.STOPPING
        await cycle(dut, model, progress=False, control=Control.STOP)
    assert model.state == RunState.HUNG
    for control in Control:
        await cycle(dut, model, control=control, quiet=True)
    assert model.state == RunState.HUNG


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def watchdog_of_zero_never_bites(dut) -> None:
    model = Model()
    dut.control.value = 0
    await reset(dut)
    await cycle(dut, model, control=Control.START, watchdog=0)
    for _ in range(50):
        await cycle(dut, model, progress=False, watchdog=0)
    await cycle(dut, model, control=Control.STOP, progress=False, watchdog=0)
    for _ in range(50):
        await cycle(dut, model, progress=False, watchdog=0)
    assert model.state == RunState.STOPPING


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def watchdog_has_all_of_its_bits(dut) -> None:
    """A bit that were lost would leave a patience of few cycles."""
    model = Model()
    dut.control.value = 0
    await reset(dut)
    await cycle(dut, model, control=Control.START)
    for bit in range(3, 32):
        for few in (1, 2, 3):  # lost when it is taken over, and counting
            watchdog = 1 << bit | few
            await cycle(dut, model, watchdog=watchdog)
            for _ in range(4):
                await cycle(dut, model, progress=False, watchdog=watchdog)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def watchdog_counts_long_out(dut) -> None:
    """Numbers of up to 13 bits are counted out, between two cycles that are looked at."""
    model = Model()
    dut.control.value = 0
    await reset(dut)
    for bit in range(4, 13):
        for watchdog in (1 << bit, random.randrange(1 << bit, 2 << bit), (2 << bit) - 1):
            await cycle(dut, model, control=Control.START)
            await cycle(dut, model, watchdog=watchdog)
            await cycle(dut, model, progress=False)
            await Timer(10 * watchdog - 15, "ns")  # until the middle of the last cycle but one
            model.stalled = watchdog - 1
            await cycle(dut, model, progress=False, watchdog=watchdog)
            assert model.error[0] == Fault.WATCHDOG
            await cycle(dut, model, quiet=True)
            await cycle(dut, model, control=Control.RESET)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def random_traffic(dut) -> None:
    """Let anything happen at any time, from full reset on, again and again."""
    dut.control.value = 0
    await reset(dut)
    seen = set()
    for _run in range(60):
        await RisingEdge(dut.clk)
        dut.rst.value = 1
        dut.control.value = 0
        await RisingEdge(dut.clk)
        dut.rst.value = 0
        model = Model()
        stalling = random.choice([0.3, 0.8])
        for _cycle in range(150):
            await cycle(
                dut,
                model,
                control=random.choice([Control(0)] * 20 + list(Control)),
                faults=[
                    random_report() if random.random() < 0.005 else None for _ in range(SOURCES)
                ],
                done=random.random() < 0.01,
                quiet=random.random() < 0.1,
                progress=random.random() > stalling,
                watchdog=5,
            )
            seen.add((model.state, model.error[0]))
    assert {state for state, _ in seen} == set(RunState)
    assert {Fault.WATCHDOG, Fault.STOPPED} < {code for _, code in seen}


def test_run_control():
    simulate(RunControl(sources=SOURCES), __file__, name="run_control")


def test_rejects_no_sources():
    with pytest.raises(ValueError, match=r"^Number of fault sources must be at least 1, not 0$"):
        RunControl(sources=0)
