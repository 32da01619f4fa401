"""Formulas as C."""

import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tpulite.export.ranges.symbols import Formula, Formulas, Symbol, Term

_WIDTH, _LONGEST = 100, 60
"""Columns of a line, and those of a formula within another one."""

_FUNCTIONS = {
    "//": "tpulite_floor_div",
    "up": "tpulite_ceil_div",
    "%": "tpulite_mod",
    "min": "tpulite_least",
    "max": "tpulite_most",
    "root": "tpulite_root",
}


class CFormulas:
    """The formulas that some results need, as definitions and expressions.

    A formula that is needed once stands where it is needed, if it is short; all others have names.

    Parameters
    ----------
    results : sequence
        Symbols that are needed; numbers among them are as good.
    """

    def __init__(self, formulas: Formulas, results: Sequence[Any]) -> None:
        self._all = formulas.all
        roots = [result.number for result in results if isinstance(result, Symbol)]
        self._uses = Counter(roots)
        for number in range(len(self._all) - 1, -1, -1):
            if self._uses[number]:
                self._uses.update(term.number for term in _terms(self._all[number]))
        self._texts: dict[int, str] = {}
        self.definitions: list[str] = []
        for number in sorted(self._uses):
            if self._uses[number]:
                self._write(number)

    def of(self, value: Any) -> str:
        """Return the expression of a symbol, or of a number."""
        return self._texts[value.number] if isinstance(value, Symbol) else str(int(value))

    def _write(self, number: int) -> None:
        formula = self._all[number]
        if formula.op == "name":
            name = str(formula.arguments[0])
            self.definitions.append(f"    const int64_t {name} = shape->{name};")
            self._texts[number] = name
            return
        text = self._expression(formula)
        if self._uses[number] > 1 or len(text) > _LONGEST:
            name = f"t{number}"
            plain = text[1:-1] if text.startswith("(") else text
            self.definitions.append(_wrapped(f"const int64_t {name} = {plain};"))
            text = name
        self._texts[number] = text

    def _expression(self, formula: Formula) -> str:
        op, arguments, _ = formula
        texts = [self._texts[x.number] if isinstance(x, Term) else str(x) for x in arguments]
        if op in _FUNCTIONS:
            return f"{_FUNCTIONS[op]}({', '.join(texts)})"
        if op == "where":
            return f"({texts[0]} ? {texts[1]} : {texts[2]})"
        if op in ("neg", "not"):
            return f"({'-' if op == 'neg' else '!'}{texts[0]})"
        if op == "+" and isinstance(arguments[1], int) and arguments[1] < 0:
            return f"({texts[0]} - {-arguments[1]})"
        return f"({texts[0]} {op} {texts[1]})"


def _terms(formula: Formula) -> list[Term]:
    return [argument for argument in formula.arguments if isinstance(argument, Term)]


def _wrapped(text: str) -> str:
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=" " * 4,
        subsequent_indent=" " * 8,
        break_long_words=False,
        break_on_hyphens=False,
    )
