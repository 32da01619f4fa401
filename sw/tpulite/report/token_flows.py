"""Which command takes the token that another one gives."""

from collections import deque
from collections.abc import Sequence

from tpulite.arch.isa import Command, Engine


def token_flows(commands: Sequence[Command]) -> list[tuple[int, int]]:
    """Pair the commands that give tokens with those that take them.

    There is a counter of tokens for each pair of engines, and each engine executes its commands in
    order, so the nth token that an engine gives to another is the nth that this one takes from it.
    Tokens that nobody takes have no pair.

    Returns
    -------
    list of (int, int)
        Indices of giver and taker, in the order of takers.
    """
    given: dict[tuple[Engine, Engine], deque[int]] = {}
    takes: list[tuple[int, Engine, Engine]] = []
    for index, command in enumerate(commands):
        if (mine := command.engine) is None:
            continue
        for engine in Engine:
            if command["signal"] >> engine & 1:
                given.setdefault((mine, engine), deque()).append(index)
            if command["wait"] >> engine & 1:
                takes.append((index, engine, mine))
    return [
        (given[giver, taker].popleft(), index)
        for index, giver, taker in takes
        if given.get((giver, taker))
    ]
