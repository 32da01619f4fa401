"""Which tensors stay in the unified buffer: quick and greedy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ResidentCandidate:
    """A tensor that may stay in the buffer."""

    name: str  #: Its name.
    rows: int  #: Rows that it takes.
    #: The layer that computes it, and the last one that reads it.
    first: int
    last: int
    #: If there is room, it does not take rows of tensors that this layer, or a later one, reads:
    #: its writer works on another engine, and would have to wait for them.
    spared: int


def place_tensors(
    lifetimes: Sequence[ResidentCandidate], limits: Sequence[int]
) -> tuple[Mapping[str, int], list[int], list[int]]:
    """Place tensors at the bottom of the buffer, each as low as it can lie.

    A tensor that does not lie below the limits of all layers of its life goes to DRAM.

    Parameters
    ----------
    lifetimes : sequence of ResidentCandidate
        Tensors in the order in which they are computed.
    limits : sequence of int
        For each layer, rows that tensors may take.

    Returns
    -------
    rows : mapping of str to int
        The first row of each tensor that stays.
    tops, calm : list of int
        For each layer, where the rows begin that no tensor takes; and those that none took for the
        layer before, either.
    """
    placed: list[tuple[int, int, int]] = []  # first row, end, last layer
    rows, tops, calm = {}, [0] * (len(limits) + 1), [0] * (len(limits) + 1)
    for tensor in lifetimes:
        limit = min(limits[tensor.first : tensor.last + 1])
        if tensor.rows > limit:
            continue
        placed = sorted(here for here in placed if here[2] >= tensor.spared)
        row = _lowest(tensor.rows, placed)
        if row + tensor.rows > limit:
            row = _lowest(tensor.rows, [here for here in placed if here[2] >= tensor.first])
        end = row + tensor.rows
        if end > limit:
            continue
        rows[tensor.name] = row
        placed.append((row, end, tensor.last))
        for layer in range(tensor.first, tensor.last + 1):
            tops[layer] = max(tops[layer], end)
            calm[layer] = max(calm[layer], end)
        calm[tensor.last + 1] = max(calm[tensor.last + 1], end)
    return rows, tops, calm


def _lowest(size: int, placed: Sequence[tuple[int, int, int]]) -> int:
    """Return the first row of the lowest gap."""
    row = 0
    for start, stop, _ in placed:
        if row + size <= start:
            break
        row = max(row, stop)
    return row
