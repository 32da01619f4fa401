"""Which operators of a file some of its tensors need."""

from collections.abc import Collection, Sequence
from typing import TypeVar

Tensor = TypeVar("Tensor", int, str)


def needed(
    operators: Sequence[tuple[Sequence[Tensor], Sequence[Tensor]]],
    given: Collection[Tensor],
    wanted: Collection[Tensor],
) -> tuple[list[int], set[Tensor]]:
    """Walk from tensors backwards to those that are given.

    Parameters
    ----------
    operators : sequence of (sequence, sequence)
        Inputs and outputs of each operator, in an order in which they can run.
    given, wanted : collection
        Tensors that need nobody, and where to start.

    Returns
    -------
    operators : list of int
        Indices of those that are needed, in order.
    reached : set
        Tensors that they read and that none of them computes.

    Examples
    --------
    >>> needed([(["x"], ["a"]), (["a", "w"], ["b"]), (["b"], ["c"])], ["a"], ["b"])[0]
    [1]
    """
    open_, chosen, reached = set(wanted) - set(given), [], set(given)
    for index in reversed(range(len(operators))):
        inputs, outputs = operators[index]
        if open_.isdisjoint(outputs):
            continue
        chosen.append(index)
        open_.difference_update(outputs)
        open_.update(set(inputs) - set(given))
    return chosen[::-1], reached | open_
