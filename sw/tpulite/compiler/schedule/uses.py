"""What every buffer is needed for, known before anything is put in order."""

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.compiler.ops import Buffer, Tiling
from tpulite.compiler.schedule.dram_order import stores_before
from tpulite.compiler.schedule.in_place import join_in_place
from tpulite.compiler.schedule.scheduled import Lifetime, lower_bound


class Uses:
    """Uses of buffers by the commands of a tiling; times are indices of its commands.

    Buffers that are made in place count as one with the buffer that had the place first.

    Parameters
    ----------
    tiling : Tiling
        Commands in an order in which they could run one after the other.
    config : Config
        The machine.

    Attributes
    ----------
    loads : list of int
        Times of LOADs.
    wanted : list of tuple of Buffer
        For each command, what must have a place when it comes, without resident buffers.
    spans : dict of Buffer to list of int
        First and last use.
    ending : dict of int to list of Buffer
        At each time, what nothing needs later.
    after : dict of int to int
        For LOADs that stay behind a command, the time of the last one: it stores what they load,
        or frees its place.
    joined : dict of Buffer to Buffer
        What is made in place.
    """

    def __init__(self, tiling: Tiling, config: Config) -> None:
        ops = tiling.ops
        self.joined = joined = join_in_place(ops)
        self.after = stores_before(ops, config)
        self.after |= {i: i - 1 for i, op in enumerate(ops) if op.stays}
        self.loads = [i for i, op in enumerate(ops) if op.opcode is Opcode.LOAD]
        self.wanted: list[tuple[Buffer, ...]] = []
        self.spans: dict[Buffer, list[int]] = {}
        spans = self.spans
        for i, op in enumerate(ops):
            mine: dict[Buffer, None] = {}
            for buffer in op.reserve:
                if buffer.row is None:
                    mine[joined.get(buffer, buffer)] = None
            for region in op.rows.values():
                if region.buffer.row is None:
                    mine[joined.get(region.buffer, region.buffer)] = None
            for buffer in mine:
                if buffer in spans:
                    spans[buffer][1] = i
                else:
                    spans[buffer] = [i, i]
            self.wanted.append(tuple(mine))
        self.ending: dict[int, list[Buffer]] = {}
        for buffer, (_, last) in spans.items():
            self.ending.setdefault(last, []).append(buffer)

    @property
    def lifetimes(self) -> tuple[Lifetime, ...]:
        """The spans as lifetimes."""
        return tuple(Lifetime(buffer, *span) for buffer, span in self.spans.items())

    def fullest(self) -> list[Buffer]:
        """Return what takes the most rows at one time, in the order of first use."""
        taken, most, time = 0, 0, 0
        for i, buffers in enumerate(self.wanted):
            taken += sum(buffer.rows for buffer in buffers if self.spans[buffer][0] == i)
            if taken > most:
                most, time = taken, i
            taken -= sum(buffer.rows for buffer in self.ending.get(i, ()))
        return [buffer for buffer, (first, last) in self.spans.items() if first <= time <= last]

    @property
    def bound(self) -> int:
        """Rows that are live at the peak, even if nothing goes ahead."""
        return lower_bound(self.lifetimes)
