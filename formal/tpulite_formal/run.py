"""Run control: each way from state to state, one interrupt a run, and the first fault is kept."""

from amaranth.hdl import Mux, Signal, Value
from amaranth.lib import data

from tpulite.arch.registers import Fault, RunState
from tpulite_formal.harness import Harness
from tpulite_formal.proofs import Proof
from tpulite_rtl.cp.run_control import RunControl
from tpulite_rtl.lib.interfaces import FAULT

__all__ = ["PROOFS"]

_SOURCES = 3


def _harness() -> Harness:
    """Return a harness that looks at each state from the one before."""
    dut = RunControl(sources=_SOURCES)
    h = Harness(dut)
    here = {state: dut.state == state for state in RunState}
    stopped = here[RunState.STOPPING] | here[RunState.QUIESCED] | here[RunState.HUNG]
    report = _report(h, dut)
    expires = _watchdog(h, dut, report)

    ended = dut.done & ~report.valid
    leaves = {  # where to, and when
        RunState.IDLE: [(RunState.RUNNING, dut.control.start)],
        RunState.RUNNING: [
            (RunState.IDLE, ended),
            (RunState.STOPPING, report.valid | dut.control.stop | expires),
        ],
        RunState.STOPPING: [(RunState.QUIESCED, dut.quiet), (RunState.HUNG, expires)],
        RunState.QUIESCED: [(RunState.IDLE, dut.control.reset)],
        RunState.HUNG: [],
    }
    texts = {
        RunState.IDLE: "only START leads on",
        RunState.RUNNING: "END leads to IDLE, a fault, STOP and the watchdog to STOPPING",
        RunState.STOPPING: "leads to QUIESCED once AXI is quiet, to HUNG if nothing moves",
        RunState.QUIESCED: "only soft reset leads on, to IDLE",
        RunState.HUNG: "nothing leads on but a full reset",
    }
    for state, ways in leaves.items():
        there = Signal(name=f"was_{state.name}".lower())
        due = Signal(dut.state.shape(), name=f"after_{state.name}".lower(), init=state)
        h.m.d.sync += [there.eq(here[state]), due.eq(state)]
        for target, condition in reversed(ways):
            with h.m.If(condition):
                h.m.d.sync += due.eq(target)
        h.prove(state.name.lower(), f"{state.name}: {texts[state]}", ~there | (dut.state == due))
    h.prove("states", "there are no other states", dut.state <= max(RunState))

    h.prove(
        "interrupt",
        "an interrupt comes exactly when a run ends: DONE, or FAULT once it is stopped",
        (dut.interrupt.done == (here[RunState.RUNNING] & ended))
        & (dut.interrupt.fault == (here[RunState.STOPPING] & (dut.quiet | expires))),
    )
    h.prove("stop", "stop is high from STOPPING to soft reset", dut.stop == stopped)
    cleared = Signal(name="was_cleared")
    h.m.d.sync += cleared.eq(dut.clear)
    h.prove(
        "halt", "engines are halted then, and while they are reset", dut.halt == stopped | cleared
    )
    h.prove(
        "clear",
        "queues and engines are reset by START and soft reset, in IDLE or QUIESCED alone",
        dut.clear
        == (
            here[RunState.IDLE] & (dut.control.start | dut.control.reset)
            | here[RunState.QUIESCED] & dut.control.reset
        ),
    )
    _errors(h, dut, report, expires)
    faulted = Signal(name="faulted")
    h.m.d.sync += faulted.eq(faulted | dut.interrupt.fault)
    h.cover("again", "a program ends after a fault and a soft reset", faulted & dut.interrupt.done)
    h.cover("hung", "the chip is HUNG", here[RunState.HUNG])
    return h


def _report(h: Harness, dut: RunControl) -> data.View:
    """Return what the first of the sources said in the cycle before, unless they were halted."""
    report = Signal(FAULT, name="said")
    h.m.d.sync += report.valid.eq(0)
    for fault in reversed(dut.faults):
        with h.m.If(fault.valid):
            h.m.d.sync += Value.cast(report).eq(Value.cast(fault))
    with h.m.If(dut.halt):
        h.m.d.sync += report.valid.eq(0)
    return report


def _watchdog(h: Harness, dut: RunControl, report: data.View) -> Value:
    """Return whether this is the last of as many cycles without progress as were allowed."""
    limit, still = Signal(32, name="limit"), Signal(33, name="still")
    expires = (still + 1 == limit) & ~dut.progress
    running, stopping = dut.state == RunState.RUNNING, dut.state == RunState.STOPPING
    renewed = running & (report.valid | dut.control.stop | expires)
    with h.m.If(dut.progress | ~(running | stopping) | renewed):
        h.m.d.sync += [limit.eq(dut.watchdog), still.eq(0)]
    with h.m.Elif(still < limit):
        h.m.d.sync += still.eq(still + 1)
    h.prove(
        "patience",
        "what is left of the watchdog's cycles: none pass with progress, and 0 never expires",
        (still <= limit) & (h.register("patience") == limit - still),
    )
    return expires


def _errors(h: Harness, dut: RunControl, report: data.View, expires: Value) -> None:
    """Ask for the error to be the first one, and to stay until START."""
    error, told = Value.cast(dut.error), Signal(FAULT, name="told")
    with h.m.If((dut.state == RunState.IDLE) & dut.control.start):
        h.m.d.sync += Value.cast(told).eq(0)
    with h.m.Elif(dut.state == RunState.RUNNING):
        with h.m.If(report.valid):
            h.m.d.sync += told.eq(report)
        with h.m.Elif(~dut.done & (dut.control.stop | expires)):
            code = Mux(dut.control.stop, Fault.STOPPED, Fault.WATCHDOG)
            h.m.d.sync += [
                told.valid.eq(1),
                told.code.eq(code),
                told.index.eq(dut.oldest),
                told.address.eq(0),
            ]
    h.prove(
        "error",
        "the error is that of the first fault, of the first source of several, until START",
        error == Value.cast(told),
    )


PROOFS = [
    Proof(
        "cp.run_control", f"{_SOURCES} sources", _harness, quick=True, inductive=True, mutants=400
    )
]
