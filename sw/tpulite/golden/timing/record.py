"""What becomes of a command in the cycle model."""

from tpulite.arch.timing import DISPATCH


class Record:
    """What becomes of one command: times, and its engine's cycles while it counts for it.

    Attributes
    ----------
    engine : int
        Who executes it; -1 is nobody: END.
    dispatch, ready, start : int
        Cycle in which it enters its queue, from which on it may take its tokens, and in which it
        does.
    first, stop : int
        First cycle, and last cycle + 1, that its engine counts for it.
    token, buffer, axi : int
        Of these, cycles in which the engine waits for tokens, is held up by the unified buffer, or
        by DRAM; the others are work.
    giver : int
        The engine whose token came last; -1 if it needs none.
    """

    __slots__ = (
        "axi",
        "buffer",
        "dispatch",
        "engine",
        "first",
        "giver",
        "ready",
        "start",
        "stop",
        "token",
    )

    def __init__(self, engine: int, dispatch: int) -> None:
        self.engine = engine
        self.dispatch = dispatch
        self.ready = self.start = self.first = self.stop = 0
        self.token = self.buffer = self.axi = 0
        self.giver = -1

    def count(self, before: int, stop: int) -> None:
        """Say when the engine began and ended to count for it; waits beyond that are not its own.

        Parameters
        ----------
        before : int
            Cycle in which it ended to count for the previous command.
        stop : int
            Last cycle + 1.
        """
        self.first = max(self.dispatch + DISPATCH, before)
        self.stop = stop
        self.token = max(0, self.start - max(self.first, self.ready))
        left = stop - self.first - self.token
        self.buffer = min(self.buffer, left)
        self.axi = min(self.axi, left - self.buffer)
