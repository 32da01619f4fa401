"""Register file: AXI4-Lite, and that a register holds what was written to it, and nothing else."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Signal, Value

from tpulite.arch.config import Config
from tpulite.arch.registers import COUNTER_OFFSETS, REGISTERS, Access, Control, RunState
from tpulite_formal.harness import Harness
from tpulite_formal.proofs import Proof
from tpulite_rtl.bus.register_file import RegisterFile

__all__ = ["PROOFS"]

_OKAY = 0


def _harness() -> Harness:
    """Return a harness that watches one register, which may be any, and bit 9 of it."""
    dut = RegisterFile(Config())
    h = Harness(dut)
    m = h.m
    responses = {"b": dut.s_axil_bresp, "r": Cat(dut.s_axil_rdata, dut.s_axil_rresp)}
    for channel, payload in responses.items():
        valid = getattr(dut, f"s_axil_{channel}valid")
        ready = getattr(dut, f"s_axil_{channel}ready")
        refused = Signal(name=f"{channel}_refused")
        offered = Signal(len(payload), name=f"{channel}_offered", reset_less=True)
        m.d.sync += [refused.eq(valid & ~ready), offered.eq(payload)]
        h.prove(
            f"{channel}_stable",
            f"a response on {channel.upper()} stays until it is taken",
            ~refused | (valid & (payload == offered)),
        )

    write = _Write(h, dut)
    answered, refused = Signal(), Signal(name="b_waits")
    m.d.sync += [answered.eq(write.effect), refused.eq(dut.s_axil_bvalid & ~dut.s_axil_bready)]
    h.prove(
        "write_answered",
        "each write is answered once, in the cycle after its address and data were there",
        dut.s_axil_bvalid == (answered | refused),
    )
    _reads(h, dut)
    _stored(h, dut, write)
    _control(h, dut, write)
    h.cover("error", "a write is answered by an error", dut.s_axil_bvalid & (dut.s_axil_bresp != 0))
    return h


def _reads(h: Harness, dut: RegisterFile) -> None:
    """Ask for an answer to each read: of a counter when it is found, of others at once."""
    counters = dut.counters
    accepted = dut.s_axil_arvalid & dut.s_axil_arready
    counter = reduce(or_, (dut.s_axil_araddr[2:] == at >> 2 for at in COUNTER_OFFSETS.values()))
    wanted, answered, waits = Signal(), Signal(name="r_answered"), Signal(name="r_waits")
    found, value = wanted & counters.found, Signal(32)
    h.m.d.sync += [
        wanted.eq((accepted & counter) | (wanted & ~counters.found)),
        answered.eq((accepted & ~counter) | found),
        waits.eq(dut.s_axil_rvalid & ~dut.s_axil_rready),
    ]
    h.prove(
        "read_answered",
        "each read is answered once: in the cycle after its address, a counter's when it is found",
        (dut.s_axil_rvalid == (answered | waits)) & (counters.wanted == wanted),
    )
    counted = Signal()
    with h.m.If(found):
        h.m.d.sync += [value.eq(counters.value), counted.eq(1)]
    with h.m.Elif(accepted):
        h.m.d.sync += counted.eq(0)
    h.prove(
        "counter",
        "a read of a counter is answered by what was found",
        ~(dut.s_axil_rvalid & counted) | (dut.s_axil_rdata == value),
    )


class _Write:
    """The write in progress, as the host sees it: what was accepted and not yet done."""

    def __init__(self, h: Harness, dut: RegisterFile) -> None:
        there, came = Signal(name="address_there"), Signal(name="data_there")
        self.offset = Signal(10, name="offset")
        self.data = Signal(32, name="data")
        self.strobes = Signal(4, name="strobes")
        self.effect = there & came & ~dut.s_axil_bvalid
        with h.m.If(self.effect):
            h.m.d.sync += [there.eq(0), came.eq(0)]
        with h.m.If(dut.s_axil_awvalid & dut.s_axil_awready):
            h.m.d.sync += [there.eq(1), self.offset.eq(dut.s_axil_awaddr[2:])]
        with h.m.If(dut.s_axil_wvalid & dut.s_axil_wready):
            data = [came.eq(1), self.data.eq(dut.s_axil_wdata), self.strobes.eq(dut.s_axil_wstrb)]
            h.m.d.sync += data


def _among(offset: Value, *accesses: Access) -> Value:
    """Return whether there is a register at an offset with one of some kinds of access."""
    offsets = [r.offset >> 2 for r in REGISTERS if r.access in accesses]
    return reduce(or_, (offset == place for place in offsets))


def _stored(h: Harness, dut: RegisterFile, write: _Write) -> None:
    """Ask for a register to hold the latest write to it, where it keeps that bit, or else zero."""
    place = h.constant(10, "place")
    h.assume(_among(place, Access.READ_WRITE))
    keeping = [r.offset >> 2 for r in REGISTERS if r.kept >> 9 & 1]
    kept = reduce(or_, (place == keeper for keeper in keeping))
    bit, known, answer = Signal(), Signal(), Signal()
    with h.m.If(write.effect & (write.offset == place) & write.strobes[1]):
        h.m.d.sync += [bit.eq(write.data[9] & kept), known.eq(1)]
    with h.m.If(dut.s_axil_arvalid & dut.s_axil_arready):
        h.m.d.sync += answer.eq(known & (dut.s_axil_araddr[2:] == place))
    expected = Signal()
    with h.m.If(dut.s_axil_arvalid & dut.s_axil_arready):
        h.m.d.sync += expected.eq(bit)
    h.prove(
        "stored",
        "a register that the host may write reads as the latest write to it, in the bits that it"
        " keeps, and as zero elsewhere; no other write changes it",
        ~(dut.s_axil_rvalid & answer) | (dut.s_axil_rdata[9] == expected),
    )
    asked = Signal(10, name="asked")
    with h.m.If(dut.s_axil_arvalid & dut.s_axil_arready):
        h.m.d.sync += asked.eq(dut.s_axil_araddr[2:])
    h.prove(
        "read_error",
        "a read is answered by an error exactly where there is no register",
        ~dut.s_axil_rvalid | ((dut.s_axil_rresp == _OKAY) == _among(asked, *Access)),
    )


def _control(h: Harness, dut: RegisterFile, write: _Write) -> None:
    """Ask for requests of the host to be passed on exactly when they are legal."""
    written = write.data[:8] & write.strobes[0].replicate(8)
    rest = Cat(write.data[8:] & Cat(s.replicate(8) for s in write.strobes[1:]), written[3:])
    state = dut.state
    legal = [
        written[:3] == 0,
        (written[:3] == Control.START) & (state == RunState.IDLE),
        (written[:3] == Control.STOP) & (state == RunState.RUNNING),
        (written[:3] == Control.RESET) & ((state == RunState.IDLE) | (state == RunState.QUIESCED)),
    ]
    control = _among(write.offset, Access.WRITE)
    fine = Signal(name="fine")
    done = Signal(3, name="requested")
    may = reduce(or_, legal) & (rest == 0)
    stored = _among(write.offset, Access.READ_WRITE, Access.WRITE_ONE_TO_CLEAR)
    h.m.d.sync += done.eq(0)
    with h.m.If(write.effect):
        h.m.d.sync += fine.eq(stored | (control & may))
        with h.m.If(control & may):
            h.m.d.sync += done.eq(written[:3])
    h.prove(
        "control",
        "START, STOP and RESET follow a write of that bit alone in a state that allows it",
        dut.control.as_value() == done,
    )
    h.prove(
        "write_error",
        "a write is answered by an error exactly if nothing may be written there, or not now",
        ~dut.s_axil_bvalid | ((dut.s_axil_bresp == _OKAY) == fine),
    )


PROOFS = [Proof("bus.register_file", "watches bit 9", _harness)]
