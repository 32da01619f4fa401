"""Closed forms of shapes as formulas: what is evaluated for a shape is written down instead.

The closed forms of :mod:`tpulite.compiler.plan` take ints or arrays. Here they take symbols: a sum
of two is a formula that says so. So C evaluates the very formulas that Python does, and no
strategy is written twice.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np


class Term(NamedTuple):
    """Another formula, by its number."""

    number: int


class Formula(NamedTuple):
    """An operation on other formulas and on numbers."""

    op: str  #: What is computed; ``name`` is an extent of the shape.
    arguments: tuple[Any, ...]  #: Of what.
    truth: bool = False  #: Whether it is true or false.


class Formulas:
    """All formulas, each once; what one is made of comes before it."""

    def __init__(self) -> None:
        self.all: list[Formula] = []
        self._numbers: dict[Formula, int] = {}

    def name(self, name: str) -> "Symbol":
        """Return an extent of the shape."""
        return self.add("name", (name,))

    def add(self, op: str, arguments: tuple[Any, ...], *, truth: bool = False) -> "Symbol":
        """Return a formula, which may be known already."""
        formula = Formula(op, tuple(map(_plain, arguments)), truth)
        if formula not in self._numbers:
            self._numbers[formula] = len(self.all)
            self.all.append(formula)
        return Symbol(self, self._numbers[formula])


class Symbol:
    """The number that a formula gives."""

    __slots__ = ("_formulas", "number")

    def __init__(self, formulas: Formulas, number: int) -> None:
        self._formulas, self.number = formulas, number

    def __repr__(self) -> str:
        return f"t{self.number}"

    def __eq__(self, other: object) -> Any:
        if isinstance(other, Symbol) and other.number == self.number:
            return True
        return self._formulas.add("==", (self, other), truth=True)

    __hash__ = None  # type: ignore[assignment]  # two symbols are never known to be equal

    def __bool__(self) -> bool:
        raise TypeError(f"{self!r} depends on the shape: Python cannot branch on it")

    def __neg__(self) -> "Symbol":
        op, arguments, _ = self.formula
        if op == "neg":
            return Symbol(self._formulas, arguments[0].number)
        if op == "//" and isinstance(arguments[0], Term):
            above = self._formulas.all[arguments[0].number]
            if above.op == "neg":  # -(-a // b) is a quotient, rounded up
                return self._formulas.add("up", (above.arguments[0], arguments[1]))
        return self._formulas.add("neg", (self,))

    @property
    def formula(self) -> Formula:
        """What gives the number."""
        return self._formulas.all[self.number]

    def __invert__(self) -> "Symbol":
        return self._formulas.add("not", (self,), truth=True)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **_: Any) -> Any:
        assert method == "__call__"
        op = _UFUNCS[ufunc]
        if op == "min" and (known := _lowest_bit(*inputs)) is not None:
            return known
        return self._formulas.add(op, inputs)

    def __array_function__(
        self, function: Callable[..., Any], _types: Any, inputs: Sequence[Any], _: Any
    ) -> "Symbol":
        assert function is np.where
        return self._formulas.add("where", tuple(inputs))

    def astype(self, _dtype: object) -> "Symbol":
        """Return itself: all formulas give whole numbers."""
        return self


_UFUNCS = {np.minimum: "min", np.maximum: "max", np.sqrt: "root"}

_TRUTHS = ("<", "<=", ">", ">=")

_OPERATORS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "floordiv": "//",
    "mod": "%",
    "and": "&",
    "or": "|",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}


def _operator(op: str, *, swapped: bool) -> Callable[[Symbol, Any], Any]:
    def apply(self: Symbol, other: Any) -> Any:
        pair = (other, self) if swapped else (self, other)
        if op == "-" and not isinstance(other, Symbol) and not swapped:
            return self + -other
        if op == "+" and not isinstance(other, Symbol):
            pair = _sum(self, int(other))
        known = _simplified(op, *pair)
        if known is not None:
            return known
        both = all(_is_truth(each) for each in pair)
        return self._formulas.add(op, pair, truth=op in _TRUTHS or (op in "&|" and both))

    return apply


for _name, _op in _OPERATORS.items():
    setattr(Symbol, f"__{_name}__", _operator(_op, swapped=False))
    if _op not in _TRUTHS:
        setattr(Symbol, f"__r{_name}__", _operator(_op, swapped=True))


def _sum(symbol: Symbol, number: int) -> tuple[Symbol, int]:
    """Return a symbol and a number, of which the first is no sum of that kind."""
    op, arguments, _ = symbol.formula
    if op == "+" and isinstance(arguments[1], int):
        return Symbol(symbol._formulas, arguments[0].number), arguments[1] + number
    return symbol, number


def _simplified(op: str, a: Any, b: Any) -> Any:
    """Return what is known of an operation with 0, 1, true or false; None: nothing is."""
    for here, other in ((a, b), (b, a)):
        if isinstance(here, Symbol):
            continue
        if op == "*" and here in (0, 1):
            return other if here else 0
        if op == "+" and here == 0:
            return other
        if op == "&" and isinstance(here, bool):
            return other if here else False
        if op == "|" and isinstance(here, bool):
            return True if here else other
    if isinstance(b, Symbol):
        same = isinstance(a, Symbol) and a.number == b.number
        return 1 if same and op == "//" else None
    return {"//": a, "%": 0}.get(op) if b == 1 else None


def _lowest_bit(number: Any, limit: Any) -> int | None:
    """Return the least of ``x & -x`` and a limit, if x is a multiple of that; None: else."""
    if not isinstance(number, Symbol) or isinstance(limit, Symbol) or number.formula.op != "&":
        return None
    a, b = number.formula.arguments
    formulas = number._formulas
    lowest = isinstance(b, Term) and formulas.all[b.number] == Formula("neg", (a,))
    return int(limit) if lowest and _divisor(formulas, a) % limit == 0 else None


def _divisor(formulas: Formulas, term: Any) -> int:
    """Return a power of two that divides a formula, or a number."""
    if not isinstance(term, Term):
        return term & -term
    op, arguments, _ = formulas.all[term.number]
    if op == "*":
        return math.prod(_divisor(formulas, each) for each in arguments)
    return 1


def _is_truth(value: Any) -> bool:
    return value.formula.truth if isinstance(value, Symbol) else isinstance(value, bool)


def _plain(value: Any) -> Any:
    """Return an argument of a formula."""
    if isinstance(value, Symbol):
        return Term(value.number)
    return value if isinstance(value, str | Term) else int(value)
