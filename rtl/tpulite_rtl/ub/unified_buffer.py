"""The unified buffer: banked on-chip memory for activations, weights and channel records."""

from collections.abc import Sequence
from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for, exact_log2

from tpulite.arch.config import Config
from tpulite.arch.timing import STARVED
from tpulite_rtl.lib.interfaces import ReadPortSignature, WritePortSignature
from tpulite_rtl.lib.memory import TwoPortRam

__all__ = ["UnifiedBuffer", "steady_ports"]


def steady_ports(config: Config) -> int:
    """Return how many read ports may be steady: with pairs of vectors also the second one."""
    return 2 if config.has_delay_lines else 1


class UnifiedBuffer(wiring.Component):
    """Rows of N bytes in banks that each read and write one row per cycle.

    Row r lies in bank r mod ``ub_banks``, so ports that walk through consecutive rows rarely meet.
    Where they do, the first named port wins; a port that was refused :data:`STARVED` times in a
    row wins once, but never over the first write port, whose client cannot wait, nor over a read
    port while it is ``steady``.

    Requests are accepted in the cycle in which they win, and reach their banks in the next. A
    read's response comes :func:`~tpulite.arch.timing.row_read` cycles after its acceptance,
    straight from the bank, or with ``ram_registers`` from a register behind it. A row written in
    one cycle is read in the next; one that is read in the cycle in which it is written is unknown,
    from which tokens keep programs.

    Parameters
    ----------
    config : Config
        Geometry.
    readers, writers : tuple of str
        Names of the ports, highest priority first.
    """

    def __init__(self, config: Config, *, readers: tuple[str, ...], writers: tuple[str, ...]):
        self.config = config
        self.readers = readers
        self.writers = writers
        read, write = ReadPortSignature(config), WritePortSignature(config)
        super().__init__(
            {
                # Read ports, seen from here.
                **{f"read_{name}": In(read) for name in readers},
                # Write ports, seen from here.
                **{f"write_{name}": In(write) for name in writers},
                # A bit for each of the first read ports, which win while theirs is high. They do
                # not ask for one bank then.
                "steady": In(steady_ports(config)),
                # Requests refused in the cycle before.
                "conflicts": Out(bits_for(len(readers) + len(writers))),
                # A request was accepted in the cycle before.
                "accessed": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        bank_bits = exact_log2(config.ub_banks)
        address_bits = exact_log2(config.ub_rows) - bank_bits

        reads = [getattr(self, f"read_{name}") for name in self.readers]
        writes = [getattr(self, f"write_{name}") for name in self.writers]
        read_rows = [port.request.payload for port in reads]
        write_rows = [port.request.payload.row for port in writes]
        for kind, ports, rows, absolute in (
            ("read", reads, read_rows, self.steady),
            ("write", writes, write_rows, Const(1)),
        ):
            requests = [port.request for port in ports]
            self._arbitrate(m, requests, rows, bank_bits, kind, absolute=absolute)
        refused = Signal(len(reads + writes))
        m.d.sync += refused.eq(
            Cat(port.request.valid & ~port.request.ready for port in reads + writes)
        )
        m.d.comb += self.conflicts.eq(sum(refused))

        # The way to the banks begins at registers.
        read_won, read_places = self._granted(m, "read", self.readers, reads, read_rows)
        write_won, write_places = self._granted(m, "write", self.writers, writes, write_rows)
        m.d.comb += self.accessed.eq(Cat(read_won, write_won).any())
        write_data = []
        for name, port in zip(self.writers, writes, strict=True):
            row_data = Signal.like(port.request.payload.data, name=f"{name}_data", reset_less=True)
            m.d.sync += row_data.eq(port.request.payload.data)
            write_data.append(row_data)
        read_data = []
        for bank in range(config.ub_banks):
            ram = TwoPortRam(8 * config.row_bytes, 1 << address_bits)
            m.submodules[f"bank{bank}"] = ram
            read_data.append(ram.read_data)
            readers, writers = ([won[bank] for won in ports] for ports in (read_won, write_won))
            m.d.comb += [
                ram.read_row.eq(_chosen(readers, read_places)),
                ram.write_row.eq(_priority(writers, write_places)),
                ram.write_data.eq(_priority(writers, write_data)),
                ram.write_enable.eq(Cat(writers).any()),
                ram.read_enable.eq(Cat(readers).any()),
            ]

        for name, port, won in zip(self.readers, reads, read_won, strict=True):
            banks = Signal.like(won, name=f"{name}_banks")  # at most one, which has been read
            valid, row = won.any(), _chosen(list(banks), read_data)
            m.d.sync += banks.eq(won)
            if config.ram_registers:
                answered = Signal(name=f"{name}_answered")
                registered = Signal.like(row, name=f"{name}_registered", reset_less=True)
                m.d.sync += [answered.eq(valid), registered.eq(row)]
                valid, row = answered, registered
            m.d.sync += port.response.valid.eq(valid)
            m.d.comb += port.response.payload.eq(row)
        return m

    def _granted(
        self, m: Module, kind: str, names: tuple[str, ...], ports, rows
    ) -> tuple[list[Signal], list[Signal]]:
        """Return which bank each port won in the cycle before, if any, and its row there."""
        size = self.config.ub_banks
        granted, places = [], []
        for name, port, row in zip(names, ports, rows, strict=True):
            bank, place = row[: exact_log2(size)], row[exact_log2(size) :]
            won = Signal(size, name=f"{kind}_{name}_won")
            asked = Signal(len(place), name=f"{kind}_{name}_place", reset_less=True)
            wins = port.request.valid & port.request.ready
            m.d.sync += [
                won.eq(Cat(wins & (bank == index) for index in range(size))),
                asked.eq(place),
            ]
            granted.append(won)
            places.append(asked)
        return granted, places

    @staticmethod
    def _arbitrate(m, requests, rows, bank_bits, kind, *, absolute: Value) -> None:
        """Grant each request that no better one for the same bank opposes.

        ``absolute`` has a bit for each of the first: while it is high, none behind is better.
        """
        starving = []
        for index, request in enumerate(requests):
            losses = Signal(range(STARVED), name=f"{kind}{index}_losses")
            starves = Signal(name=f"{kind}{index}_starves")
            refused = request.valid & ~request.ready
            m.d.sync += [
                losses.eq(Mux(refused, losses + 1, 0)),
                starves.eq(refused & (starves | (losses == STARVED - 1))),
            ]
            starving.append(starves)
        for mine, request in enumerate(requests):
            opposed = []
            for other, rival in enumerate(requests):
                if other == mine:
                    continue
                if other < mine:
                    better = rival.valid & (starving[other] | ~starving[mine])
                else:
                    # Who starves asks: `valid`, which may come late, need not be known.
                    better = starving[other] & ~starving[mine]
                if mine < min(other, len(absolute)):
                    better &= ~absolute[mine]
                elif other < min(mine, len(absolute)):
                    better |= rival.valid & absolute[other]
                opposed.append(better & (rows[other][:bank_bits] == rows[mine][:bank_bits]))
            m.d.comb += request.ready.eq(~Cat(opposed).any())


def _chosen(chosen: Sequence[Value], values: Sequence[Value]) -> Value:
    """Return the one value that is chosen, or zero: short paths from many."""
    return reduce(or_, (Mux(one, value, 0) for one, value in zip(chosen, values, strict=True)))


def _priority(chosen: Sequence[Value], values: Sequence[Value]) -> Value:
    """Return the one value that is chosen, else the first: little logic for wide values of few."""
    result = values[0]
    for one, value in zip(chosen[1:], values[1:], strict=True):
        result = Mux(one, value, result)
    return result
