"""An order of commands whose buffers all have a place."""

from tpulite.arch.config import Config
from tpulite.compiler.ops import Tiling
from tpulite.compiler.options import Options
from tpulite.compiler.scheduling.allocate import Allocation, place_buffers
from tpulite.compiler.scheduling.online import DoesNotFitError
from tpulite.compiler.scheduling.overlap import verify
from tpulite.compiler.scheduling.schedule import LEAD, schedule
from tpulite.compiler.scheduling.scheduled import Schedule

__all__ = ["fit"]


def fit(tiling: Tiling, config: Config, options: Options) -> tuple[Schedule, Allocation]:
    """Schedule commands and place their buffers; loads go less far ahead if that does not fit.

    Parameters
    ----------
    tiling : Tiling
        Commands in an order in which they could run one after the other.
    config : Config
        The machine.
    options : Options
        Choices of the compilation.

    Raises
    ------
    DoesNotFitError
        If the unified buffer is too small for this tiling.
    """
    ordered = schedule(tiling, config, lead=LEAD if options.prefetch else 0)
    try:
        allocation = place_buffers(ordered, config, options.allocator)
    except DoesNotFitError:
        if not ordered.lead:
            raise
        ordered = schedule(tiling, config, lead=0)
        allocation = place_buffers(ordered, config, options.allocator)
    if violations := verify(ordered, allocation.rows, config):
        raise AssertionError(f"Buffers overlap: {violations[0]}")
    return ordered, allocation
