"""Draws random commands that are legal one after the other, without tokens."""

import random
from collections.abc import Callable, Sequence

from tpulite.arch.config import Config
from tpulite.arch.memory import WindowBinding
from tpulite_tb.random_conv import draw_conv
from tpulite_tb.random_records import Block
from tpulite_tb.random_state import Drawn, State
from tpulite_tb.random_transfers import draw_block_load, draw_fill, draw_load, draw_store
from tpulite_tb.random_vector import draw_vector

__all__ = ["CommandDrawer"]

_WEIGHTS: dict[Callable[[State], Drawn | None], int] = {
    draw_load: 2,
    draw_block_load: 4,
    draw_conv: 6,
    draw_vector: 5,
    draw_store: 4,
}
_CHOICES = [draw for draw, weight in _WEIGHTS.items() for _ in range(weight)]


class CommandDrawer:
    """Draws commands whose reads are of rows that earlier ones have written.

    Parameters
    ----------
    rng : random.Random
        Source of all choices.
    config : Config
        The machine.
    windows : sequence of WindowBinding
        The DRAM windows, bound as the roles in :class:`~tpulite.arch.memory.Window` say.
    blocks : sequence of Block
        Constants in the CONSTANTS window.

    Attributes
    ----------
    state : State
        What has happened so far.
    """

    def __init__(
        self,
        rng: random.Random,
        config: Config,
        windows: Sequence[WindowBinding],
        blocks: Sequence[Block],
    ) -> None:
        self.state = State(rng, config, windows, blocks)

    def draw(self) -> Drawn:
        """Draw the next command and let it happen."""
        while True:
            drawn = self.state.rng.choice(_CHOICES)(self.state)
            if drawn is not None:
                self.state.happen(drawn)
                return drawn

    def fill(self) -> Drawn:
        """Draw a LOAD of many rows and let it happen."""
        drawn = draw_fill(self.state)
        self.state.happen(drawn)
        return drawn
