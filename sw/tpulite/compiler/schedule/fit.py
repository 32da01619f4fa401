"""An order of commands whose buffers all have a place."""

from collections.abc import Mapping

from tpulite.arch.config import Config
from tpulite.compiler.ops import Buffer, Tiling
from tpulite.compiler.options import Options
from tpulite.compiler.schedule.allocate import Allocation, place_buffers
from tpulite.compiler.schedule.by_parts import schedule_by_parts
from tpulite.compiler.schedule.longest import rows_used
from tpulite.compiler.schedule.online import Shortage
from tpulite.compiler.schedule.overlap import verify_places
from tpulite.compiler.schedule.schedule import LEAD, schedule
from tpulite.compiler.schedule.scheduled import Schedule


def schedule_ops(
    tiling: Tiling,
    config: Config,
    options: Options,
    *,
    part_by_part: bool = False,
    lead: int = LEAD,
) -> Schedule | Shortage:
    """Schedule commands; see :func:`tpulite.compiler.schedule.schedule.schedule`.

    Parameters
    ----------
    tiling : Tiling
        Commands in an order in which they could run one after the other.
    config : Config
        The machine.
    options : Options
        Choices of the compilation.
    part_by_part : bool
        Whether rows are so few that parts of the program are packed one by one.
    lead : int
        Loads that go ahead of a command, beyond those that it needs.
    """
    lead = lead if options.prefetch else 0
    return (schedule_by_parts if part_by_part else schedule)(tiling, config, lead=lead)


def allocate_buffers(ordered: Schedule, config: Config, options: Options) -> Allocation:
    """Place the buffers of a schedule.

    An allocator that finds no place leaves buffers where they are while scheduling.
    """
    allocation = place_buffers(ordered, config, options.allocator)
    if isinstance(allocation, Shortage):  # the places found while scheduling
        allocation = place_buffers(ordered, config)
        assert isinstance(allocation, Allocation)
    return verified(ordered, allocation.rows, config)


def verified(ordered: Schedule, rows: Mapping[Buffer, int], config: Config) -> Allocation:
    """Return an allocation of the buffers of a schedule; AssertionError if some overlap."""
    if violations := verify_places(ordered, rows, config):
        raise AssertionError(f"Buffers overlap: {violations[0]}")
    return Allocation(rows, rows_used(rows), ordered.bound)
