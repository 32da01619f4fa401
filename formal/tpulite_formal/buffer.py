"""Unified buffer: who wins, how long others wait, and that rows keep what was written."""

from functools import partial, reduce
from operator import or_

from amaranth.hdl import Cat, Mux, Signal, Value

from tpulite.arch.config import Config
from tpulite.arch.timing import STARVED, row_read
from tpulite_formal.harness import Harness
from tpulite_formal.proofs import Proof
from tpulite_rtl.ub.unified_buffer import UnifiedBuffer

__all__ = ["PROOFS"]

_READERS = ("activation", "weight", "record", "vpu_a", "vpu_b", "store")
_WRITERS = ("drain", "load", "vpu")


def _buffer(rows: int, banks: int, size: int = 4, *, registers: bool = False) -> UnifiedBuffer:
    config = Config(array_size=size, ub_rows=rows, ub_banks=banks, ram_registers=registers)
    return UnifiedBuffer(config, readers=_READERS, writers=_WRITERS)


def _arbiter(size: int = 4) -> Harness:
    """Return a harness in which an offer stays until it is accepted, as of a stream."""
    dut = _buffer(64, 8, size)
    h = Harness(dut)
    reads = [getattr(dut, f"read_{name}").request for name in _READERS]
    writes = [getattr(dut, f"write_{name}").request for name in _WRITERS]
    read_rows = [Value.cast(request.payload) for request in reads]
    write_rows = [Value.cast(request.payload.row) for request in writes]
    others = list(zip(writes, write_rows, strict=True))[1:]
    for kind, requests, rows in (("read", reads, read_rows), ("write", writes, write_rows)):
        for index, (request, row) in enumerate(zip(requests, rows, strict=True)):
            refused = Signal(name=f"{kind}{index}_refused")
            old = Signal(3, name=f"{kind}{index}_old", reset_less=True)
            h.m.d.sync += [refused.eq(request.valid & ~request.ready), old.eq(row[:3])]
            h.assume(~refused | (request.valid & (row[:3] == old)))

    drained = [w.valid & w.ready & (row[:3] == write_rows[0][:3]) for w, row in others]
    h.prove(
        "drain",
        "the first writer is never refused: its bank is nobody else's",
        writes[0].ready & ~(writes[0].valid & Cat(drained).any()),
    )
    h.prove(
        "steady",
        "the first reader is never refused while steady",
        ~dut.steady[0] | reads[0].ready,
    )
    if len(dut.steady) > 1:  # of pairs of vectors, which lie in neighboring rows
        meet = reads[0].valid & (read_rows[0][:3] == read_rows[1][:3])
        h.assume(~(dut.steady[1] & meet))
        h.prove(
            "both_steady",
            "the second reader is never refused while steady, if the first wants another bank",
            ~dut.steady[1] | reads[1].ready,
        )
    h.prove("one_read", "a bank reads one row a cycle", _one_for_a_bank(reads, read_rows))
    h.prove("one_write", "a bank writes one row a cycle", _one_for_a_bank(writes, write_rows))
    for kind, names, requests, rows in (
        ("read", _READERS, reads, read_rows),
        ("write", _WRITERS, writes, write_rows),
    ):
        absolute = dut.steady if kind == "read" else Value.cast(1)
        for index in range(1, len(requests)):
            _waits(h, f"{kind}_{names[index]}", requests, rows, index, absolute)
    refused = Signal(range(len(reads + writes) + 1), name="refused_before")
    h.m.d.sync += refused.eq(sum(r.valid & ~r.ready for r in reads + writes))
    h.prove("conflicts", "conflicts counts those refused before", dut.conflicts == refused)
    h.cover("starved", "the last reader is refused often and wins", _turns(h, reads[-1]) == STARVED)
    return h


def _one_for_a_bank(requests, rows: list[Value]) -> Value:
    wins = [request.valid & request.ready for request in requests]
    pairs = [(a, b) for a in range(len(wins)) for b in range(a)]
    return ~reduce(or_, (wins[a] & wins[b] & (rows[a][:3] == rows[b][:3]) for a, b in pairs))


def _first(size: int = 4) -> Harness:
    """Return a harness in which the first reader loses to others, whose offers may vanish."""
    dut = _buffer(64, 8, size)
    h = Harness(dut)
    request = dut.read_activation.request
    if len(dut.steady) > 1:  # of pairs of vectors, which lie in neighboring rows
        h.assume(~dut.steady[1] | (request.payload[:3] != dut.read_weight.request.payload[:3]))
    lost = Signal(range(len(_READERS) + 1))
    refused = request.valid & ~request.ready
    h.m.d.sync += lost.eq(Mux(refused, Mux(lost == len(_READERS), lost, lost + 1), 0))
    h.prove(
        "loses",
        "the first reader loses at most once to each other one before it wins: it never starves",
        lost < len(_READERS),
    )
    h.cover("lost", "it loses to each other one", lost == len(_READERS) - 1)
    return h


def _turns(h: Harness, request) -> Signal:
    """Return a count of the refusals in a row, in the cycle in which it wins."""
    losses, last = Signal(6, name="losses"), Signal(6, name="losses_of_winner")
    lost = request.valid & ~request.ready
    h.m.d.sync += losses.eq(Mux(lost, losses + 1, 0))
    h.m.d.comb += last.eq(Mux(request.valid & request.ready, losses, 0))
    return last


def _waits(h: Harness, name: str, requests, rows, index: int, absolute: Value) -> None:
    """Ask for a bound on the wait of a port, while no port that need not wait opposes it.

    Every better port may win once more when it starves, too.
    """
    request = requests[index]
    first = Cat(
        requests[port].valid & (rows[port][:3] == rows[index][:3]) & steady
        for port, steady in enumerate(absolute[:index])
    ).any()
    bound = STARVED + len(requests)
    waited = Signal(range(bound + 2), name=f"{name}_waited")
    lost = request.valid & ~request.ready
    h.m.d.sync += waited.eq(
        Mux(
            ~lost,
            0,
            Mux(first & (waited >= STARVED), STARVED, Mux(waited > bound, waited, waited + 1)),
        )
    )
    h.prove(
        f"{name}_waits",
        f"{name} waits at most {bound} cycles, but for those of first ports that cannot wait",
        waited <= bound,
    )


def _rows(*, registers: bool = False) -> Harness:
    """Return a harness that watches one row, which may be any, and one bit of it."""
    dut = _buffer(64, 8, registers=registers)
    h = Harness(dut)
    row = h.constant(6, "row")
    for name in _READERS:
        h.assume(getattr(dut, f"read_{name}").request.payload[6:] == 0)
    for name in _WRITERS:
        h.assume(getattr(dut, f"write_{name}").request.payload.row[6:] == 0)
    bit, known_bit = Signal(name="bit"), Signal(name="known_bit")
    writes = [getattr(dut, f"write_{name}").request for name in _WRITERS]
    here = [w.valid & w.ready & (w.payload.row == row) for w in writes]
    for write, hit in zip(writes, here, strict=True):
        with h.m.If(hit):
            h.m.d.sync += [bit.eq(write.payload.data[0]), known_bit.eq(1)]
    written = Cat(here).any()
    ones = []
    latency = row_read(dut.config)
    for name in _READERS:
        port = getattr(dut, f"read_{name}")
        asked = port.request.valid & port.request.ready
        stages = [asked]
        known = asked & (port.request.payload == row) & ~written & known_bit
        value = bit
        for stage in range(latency):
            late = Signal(3, name=f"{name}_{stage}")
            h.m.d.sync += late.eq(Cat(stages[-1], known, value))
            stages, known, value = [late[0]], late[1], late[2]
        answered = port.response.valid
        h.prove(
            f"{name}_answer",
            f"{name} is answered {latency} cycles after each acceptance, and never else",
            answered == stages[-1],
        )
        ones.append(known & value)
        h.prove(
            f"{name}_data",
            f"{name} reads what was last written to the row",
            ~(answered & known) | (port.response.payload[0] == value),
        )
    h.cover("read", "a one that was written to the row is read", Cat(ones).any())
    return h


PROOFS = [
    Proof("ub.unified_buffer", "arbiter, 9 ports, 8 banks", _arbiter, mutants=900),
    Proof(
        "ub.unified_buffer",
        "arbiter, 9 ports, 8 banks, two steady",
        partial(_arbiter, 16),
        mutants=900,
    ),
    Proof("ub.unified_buffer", "first reader, 8 banks", _first),
    Proof("ub.unified_buffer", "first reader, two steady", partial(_first, 16)),
    Proof("ub.unified_buffer", "rows, 8 in each of 8 banks, bit 0", _rows, mutants=900),
    Proof(
        "ub.unified_buffer",
        "rows, a register behind each bank",
        partial(_rows, registers=True),
        mutants=900,
    ),
]
