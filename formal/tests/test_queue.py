"""What proofs take for the FIFO does what the FIFO does."""

from pathlib import Path

from amaranth.hdl import unsigned

from tpulite_formal.harness import Harness
from tpulite_formal.proofs import Proof, run
from tpulite_formal.queue import Queue
from tpulite_rtl.lib.fifo import StreamFifo


def both() -> Harness:
    fifo, queue = StreamFifo(unsigned(2), 3), Queue(unsigned(2), 3)
    h = Harness(fifo)
    h.m.submodules.queue = queue
    h.m.d.comb += [
        queue.i.valid.eq(fifo.i.valid),
        queue.i.payload.eq(fifo.i.payload),
        queue.o.ready.eq(fifo.o.ready),
    ]
    h.prove("ready", "", fifo.i.ready == queue.i.ready)
    h.prove("valid", "", fifo.o.valid == queue.o.valid)
    h.prove("level", "", fifo.level == queue.level)
    h.prove("order", "", ~fifo.o.valid | (fifo.o.payload == queue.o.payload))
    return h


def test_a_queue_is_a_fifo(tmp_path: Path) -> None:
    found = run(Proof("tests", "queue", both, mutants=40), tmp_path)
    assert [f"{f.property}: {f.status}, {f.mutant}" for f in found if not f.good] == []
