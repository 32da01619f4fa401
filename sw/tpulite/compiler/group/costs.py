"""What a layer group costs, and what its steps wait for: the choice of groups is made from it."""

from typing import NamedTuple

from tpulite.arch.config import Config
from tpulite.arch.timing import LOAD_LATENCY, turnaround


class Cost(NamedTuple):
    """What a group of layers costs."""

    cycles: int  #: Predicted cycles.
    #: Rows of the unified buffer that come from and go to DRAM.
    read: int
    written: int
    rows: int  #: Rows that the group takes beside images that are on chip as a whole.
    commands: int  #: Commands, more or less.
    #: Whether a convolution loads tiles, because strips do not fit or load too much.
    tiled: bool = False


def step_cycles(config: Config) -> int:
    """Return the cycles from the end of a step to the first ones of the next that needs it.

    Results go to the buffer and back. In small arrays that is quick; then a LOAD for which there
    was no room before takes longer.
    """
    return max(turnaround(config), LOAD_LATENCY)
