"""Programs whose commands a function draws, in the memory of a random program."""

from collections.abc import Callable, Iterable
from itertools import islice

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, Opcode
from tpulite_tb.random_commands import CommandDrawer
from tpulite_tb.random_program import LONGEST, RandomProgram
from tpulite_tb.random_state import Drawn
from tpulite_tb.random_tokens import add_tokens
from tpulite_tb.random_transfers import draw_dump

__all__ = ["DirectedProgram"]

_FILLS = 3


class DirectedProgram(RandomProgram):
    """A program without faults, the same for the same seed and the same commands.

    Parameters
    ----------
    seed : int
        What all choices depend on.
    config : Config
        The machine.
    direct : callable
        Draws commands that are legal behind some LOADs of many rows, and lets each happen. Those
        that a program has no room for are not asked for.
    dump : bool
        Whether STOREs of results follow.
    """

    def __init__(
        self,
        seed: int,
        config: Config,
        direct: Callable[[CommandDrawer], Iterable[Drawn]],
        *,
        dump: bool = True,
    ) -> None:
        self._direct, self._dump = direct, dump
        super().__init__(seed, config, fault=0.0)

    def _draw(self, drawer: CommandDrawer, fault: float, memory_errors: bool) -> None:
        """Draw the commands."""
        drawn = [drawer.fill() for _ in range(_FILLS)]
        drawn += islice(self._direct(drawer), LONGEST - _FILLS)
        drawn += draw_dump(drawer.state) if self._dump else []
        end = Command.make(Opcode.END)
        self.commands = self.legal_commands = (*add_tokens(drawer.state.rng, drawn), end)
        self.coverage = frozenset()
