"""The AXI4 port of the chip: command fetch, LOAD and STORE on one set of channels."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tpulite_rtl.bus.axi import BURST, READ_BEAT, ReadSignature, WriteSignature, axi4_members

__all__ = ["AxiMaster"]

_INCR = 0b01
_BEAT_SIZE = 4  # log2 of 16 bytes
_BUFFERABLE = 0b0011  # normal, non-cacheable, bufferable
_FETCH, _LOAD = 0, 1


class AxiMaster(wiring.Component):
    """Merge two readers and one writer into flat AXI4 ports; everything passes in the same cycle.

    Command fetch goes before LOAD. An address that was offered stays until it is accepted. Beats
    find their reader by id, so the memory may answer in any order between the two. A beat that LOAD
    refuses is kept, and no other accepted until it is gone.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                # Readers with ids 0 and 1. The fetch never refuses a beat.
                "fetch": In(ReadSignature()),
                "load": In(ReadSignature()),
                # The writer.
                "store": In(WriteSignature()),
                # AXI4 master, 128 bits of data.
                **axi4_members("m_axi"),
                # A beat, or a write response, was transferred on AXI in this cycle.
                "read_beat": Out(1),
                "write_beat": Out(1),
                "response": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        fetch, load, store = self.fetch, self.load, self.store

        # LOAD has the channel if the fetch wants nothing, or if its offer was refused before: an
        # offer stays until it is accepted.
        refused, chosen = Signal(), Signal()
        m.d.comb += chosen.eq(~fetch.ar.valid | refused)
        m.d.sync += refused.eq(chosen & load.ar.valid & ~self.m_axi_arready)
        burst = Mux(chosen, load.ar.payload.as_value(), fetch.ar.payload.as_value())
        address = data.View(BURST, burst)
        m.d.comb += [
            self.m_axi_arid.eq(Mux(chosen, _LOAD, _FETCH)),
            self.m_axi_araddr.eq(address.address),
            self.m_axi_arlen.eq(address.len),
            self.m_axi_arvalid.eq(Mux(chosen, load.ar.valid, fetch.ar.valid)),
            load.ar.ready.eq(self.m_axi_arready & chosen),
            fetch.ar.ready.eq(self.m_axi_arready & ~chosen),
        ]

        # A beat that LOAD refuses waits here, so that `rready` is a register: AXI wants no path
        # from an input to an output.
        beat, waiting = Signal(READ_BEAT), Signal(READ_BEAT)
        waits = Signal()
        for_load = self.m_axi_rid == _LOAD
        m.d.comb += [
            beat.data.eq(self.m_axi_rdata),
            beat.error.eq(self.m_axi_rresp[1]),
            beat.last.eq(self.m_axi_rlast),
            self.m_axi_rready.eq(~waits),
            fetch.r.payload.eq(beat),
            fetch.r.valid.eq(self.m_axi_rvalid & ~for_load & ~waits),
            load.r.payload.eq(Mux(waits, waiting.as_value(), beat.as_value())),
            load.r.valid.eq(waits | (self.m_axi_rvalid & for_load)),
        ]
        m.d.sync += waits.eq(load.r.valid & ~load.r.ready)
        with m.If(~waits):
            m.d.sync += waiting.eq(beat)

        m.d.comb += [
            self.m_axi_awid.eq(0),
            self.m_axi_awaddr.eq(store.aw.payload.address),
            self.m_axi_awlen.eq(store.aw.payload.len),
            self.m_axi_awvalid.eq(store.aw.valid),
            store.aw.ready.eq(self.m_axi_awready),
            self.m_axi_wdata.eq(store.w.payload.data),
            self.m_axi_wstrb.eq(store.w.payload.strobe),
            self.m_axi_wlast.eq(store.w.payload.last),
            self.m_axi_wvalid.eq(store.w.valid),
            store.w.ready.eq(self.m_axi_wready),
            store.b.payload.eq(self.m_axi_bresp[1]),
            store.b.valid.eq(self.m_axi_bvalid),
            self.m_axi_bready.eq(store.b.ready),
        ]
        for channel in ("ar", "aw"):
            m.d.comb += [
                getattr(self, f"m_axi_{channel}size").eq(_BEAT_SIZE),
                getattr(self, f"m_axi_{channel}burst").eq(_INCR),
                getattr(self, f"m_axi_{channel}cache").eq(_BUFFERABLE),
                getattr(self, f"m_axi_{channel}prot").eq(0),
            ]
        m.d.comb += [
            self.read_beat.eq(self.m_axi_rvalid & self.m_axi_rready),
            self.write_beat.eq(self.m_axi_wvalid & self.m_axi_wready),
            self.response.eq(self.m_axi_bvalid & self.m_axi_bready),
        ]
        return m
