"""AXI4 master: addresses stay, and bursts and beats find their client. Writes pass on wires."""

from amaranth.hdl import Cat, Mux, Signal, Value

from tpulite_formal.harness import Harness
from tpulite_formal.proofs import Proof
from tpulite_rtl.bus.axi_master import AxiMaster

__all__ = ["PROOFS"]


def _held(h: Harness, name: str, valid: Value, ready: Value, payload: Value) -> Value:
    """Return whether an offer that was refused is still there, unchanged."""
    refused = Signal(name=f"{name}_refused")
    offered = Signal(len(payload), name=f"{name}_offered", reset_less=True)
    h.m.d.sync += [refused.eq(valid & ~ready), offered.eq(payload)]
    return ~refused | (valid & (payload == offered))


def _harness() -> Harness:
    """Return a harness with clients and a memory that keep to the protocol."""
    dut = AxiMaster()
    h = Harness(dut)
    clients = {
        "fetch_ar": dut.fetch.ar,
        "load_ar": dut.load.ar,
    }
    for name, client in clients.items():
        payload = Value.cast(client.payload)
        h.assume(_held(h, name, client.valid, client.ready, payload))
    h.assume(dut.fetch.r.ready)

    def port(name: str) -> Signal:
        return getattr(dut, f"m_axi_{name}")

    beat = Cat(port("rdata"), port("rresp"), port("rlast"), port("rid"))
    h.assume(_held(h, "memory_r", port("rvalid"), port("rready"), beat))

    address = Cat(port("arid"), port("araddr"), port("arlen"))
    held = _held(h, "m_ar", port("arvalid"), port("arready"), address)
    h.prove("ar_stable", "an address offered on AR stays until it is accepted", held)
    _addresses(h, dut, port)
    _beats(h, dut, port)
    return h


def _addresses(h: Harness, dut: AxiMaster, port) -> None:
    fetch, load = (client.ar.valid & client.ar.ready for client in (dut.fetch, dut.load))
    accepted = port("arvalid") & port("arready")
    chosen = Mux(port("arid"), Value.cast(dut.load.ar.payload), Value.cast(dut.fetch.ar.payload))
    h.prove(
        "ar_client",
        "an address that AXI accepts is one that its client gave in this cycle, under its id",
        (accepted == (fetch | load))
        & ~(fetch & load)
        & (~accepted | ((load == port("arid")) & (Cat(port("araddr"), port("arlen")) == chosen))),
    )
    h.cover("load_first", "LOAD goes before a fetch, for it was offered", load & dut.fetch.ar.valid)


def _beats(h: Harness, dut: AxiMaster, port) -> None:
    beat = Cat(port("rdata"), port("rresp")[1], port("rlast"))
    accepted = port("rvalid") & port("rready")
    for_load = accepted & port("rid")
    h.prove(
        "fetch_beats",
        "the fetch sees each beat of its id once, in the cycle in which AXI accepts it",
        (dut.fetch.r.valid == (accepted & ~port("rid")))
        & (~dut.fetch.r.valid | (Value.cast(dut.fetch.r.payload) == beat)),
    )
    waits = Signal(name="beat_waits")
    waiting = Signal(len(beat), name="waiting_beat")
    with h.m.If(~waits):
        h.m.d.sync += waiting.eq(beat)
    h.m.d.sync += waits.eq((waits | for_load) & ~dut.load.r.ready)
    h.prove(
        "load_beats",
        "LOAD sees each beat of its id once, in order; while one waits, AXI accepts none",
        (dut.load.r.valid == (waits | for_load))
        & ~(waits & port("rready"))
        & (~dut.load.r.valid | (Value.cast(dut.load.r.payload) == Mux(waits, waiting, beat))),
    )
    h.prove_stable("load_stable", "what LOAD refuses stays", dut.load.r)
    h.cover("waits", "a beat waits for LOAD", waits)


PROOFS = [Proof("bus.axi_master", "complete", _harness, quick=True)]
