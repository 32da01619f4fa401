"""The most that a formula gives for any shape of a range: formulas on intervals."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpulite.export.ranges.symbols import Formulas, Symbol, Term


class Interval(NamedTuple):
    """Least and most values, of many boxes of shapes at once."""

    #: Both included.
    low: NDArray[np.int64]
    high: NDArray[np.int64]

    def some(self, chosen: NDArray[np.int64]) -> "Interval":
        """Return those of some of the boxes."""
        return Interval(self.low[chosen], self.high[chosen])

    def joined(self, other: "Interval") -> "Interval":
        """Return those of more boxes."""
        return Interval(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


def evaluate(
    formulas: Formulas, extents: Mapping[str, Interval], values: Sequence[Any]
) -> list[Interval]:
    """Return between which numbers the values of formulas lie, for each box of extents."""
    needed = {value.number for value in values if isinstance(value, Symbol)}
    for number in range(len(formulas.all) - 1, -1, -1):
        if number in needed:
            needed |= {x.number for x in formulas.all[number].arguments if isinstance(x, Term)}
    known: dict[int, Interval] = {}
    for number in sorted(needed):
        op, arguments, _ = formulas.all[number]
        if op == "name":
            known[number] = extents[arguments[0]]
            continue
        operands = [known[x.number] if isinstance(x, Term) else _exactly(x) for x in arguments]
        known[number] = _OPERATIONS[op](*operands)
    return [
        known[value.number] if isinstance(value, Symbol) else _exactly(int(value))
        for value in values
    ]


def _exactly(number: int) -> Interval:
    value = np.array(number, np.int64)
    return Interval(value, value)


def _corners(function: Callable[[Any, Any], Any]) -> Callable[[Interval, Interval], Interval]:
    """Return an operation whose extremes are at ends of the intervals."""

    def apply(a: Interval, b: Interval) -> Interval:
        values = [function(x, y) for x in a for y in b]
        return Interval(reduce(np.minimum, values), reduce(np.maximum, values))

    return apply


def _divide(a: Any, b: Any) -> Any:
    """Return a quotient; dividends of boxes that no shape with a strategy is in may meet 0."""
    return a // np.where(b == 0, 1, b)


def _truth(
    yes: Callable[[Interval, Interval], Any], maybe: Callable[[Interval, Interval], Any]
) -> Callable[[Interval, Interval], Interval]:
    def apply(a: Interval, b: Interval) -> Interval:
        return Interval(*(np.asarray(each(a, b)).astype(np.int64) for each in (yes, maybe)))

    return apply


def _where(condition: Interval, yes: Interval, no: Interval) -> Interval:
    low = np.where(condition.low > 0, yes.low, np.minimum(yes.low, no.low))
    high = np.where(condition.low > 0, yes.high, np.maximum(yes.high, no.high))
    never = condition.high == 0
    return Interval(np.where(never, no.low, low), np.where(never, no.high, high))


def _and(a: Interval, b: Interval) -> Interval:
    """Return both truths; of numbers, which are not negative together, anything up to either."""
    truths = max(np.max(a.high), np.max(b.high)) <= 1 and min(np.min(a.low), np.min(b.low)) >= 0
    high = np.where(b.low < 0, a.high, np.where(a.low < 0, b.high, np.minimum(a.high, b.high)))
    return Interval(a.low & b.low if truths else np.zeros_like(high), high)


_OPERATIONS: dict[str, Callable[..., Interval]] = {
    "+": lambda a, b: Interval(a.low + b.low, a.high + b.high),
    "-": lambda a, b: Interval(a.low - b.high, a.high - b.low),
    "*": _corners(lambda x, y: x * y),
    "//": _corners(_divide),
    "up": _corners(lambda x, y: -_divide(-x, y)),
    "%": lambda a, b: Interval(np.zeros_like(b.high), b.high - 1),
    "min": lambda a, b: Interval(np.minimum(a.low, b.low), np.minimum(a.high, b.high)),
    "max": lambda a, b: Interval(np.maximum(a.low, b.low), np.maximum(a.high, b.high)),
    "root": lambda a: Interval(*(np.sqrt(np.maximum(x, 0)).astype(np.int64) for x in a)),
    "neg": lambda a: Interval(-a.high, -a.low),
    "not": lambda a: Interval(1 - a.high, 1 - a.low),
    "&": _and,
    "|": lambda a, b: Interval(a.low | b.low, a.high | b.high),
    "where": _where,
    "<": _truth(lambda a, b: a.high < b.low, lambda a, b: a.low < b.high),
    "<=": _truth(lambda a, b: a.high <= b.low, lambda a, b: a.low <= b.high),
    ">": _truth(lambda a, b: a.low > b.high, lambda a, b: a.high > b.low),
    ">=": _truth(lambda a, b: a.low >= b.high, lambda a, b: a.high >= b.low),
    "==": _truth(
        lambda a, b: (a.low == b.high) & (a.high == b.low),
        lambda a, b: (a.low <= b.high) & (b.low <= a.high),
    ),
}
"""What operations give on intervals."""
