"""Add coverage points to an elaborated design: one bit of a signal for each.

A point is a way through the Python source: a case of an ``m.If`` or ``m.Switch``, one side of a
``Mux``, a state of a register of states, or a step between two. Its bit is high while the point is
active; the simulator counts the clock edges at which it is. All instances and sizes of a component
share the points of its source.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from amaranth.hdl import Const, Fragment, Instance, Signal, Value
from amaranth.hdl._ast import Assign, Concat, Operator, Statement, Switch, SwitchValue
from amaranth.hdl._mem import MemoryInstance

import tpulite_rtl
from tpulite_tb.coverage.points import Point
from tpulite_tb.coverage.state_machines import state_points

__all__ = ["COVER", "Instrumented", "instrument", "place_of"]

COVER = "tpulite_cover_"
"""What the names of the added signals start with."""

_RTL = Path(tpulite_rtl.__file__).parent


@dataclass
class Instrumented:
    """What was added to a design."""

    #: Points of each added signal, its least significant bit first.
    bits: list[list[Point]] = field(default_factory=list)
    #: Statements, and the points that execute them; none if they are always executed.
    lines: dict[Point, set[Point]] = field(default_factory=dict)


def place_of(src_loc: tuple[str, int] | None) -> tuple[str, int] | None:
    """Return the file, relative to the package of the RTL, and the line; None for other files."""
    if src_loc is None:
        return None
    path = Path(src_loc[0])
    return (path.relative_to(_RTL).as_posix(), src_loc[1]) if path.is_relative_to(_RTL) else None


def instrument(fragment: Fragment) -> Instrumented:
    """Add points to a fragment and all below it, in place."""
    found = Instrumented()
    for part in _fragments(fragment):
        walk = _Walk(found.lines)
        trees = [walk.tree(statements, None) for statements in part.statements.values()]
        values = [*walk.muxes, *state_points(part, place_of)]
        points = [*walk.points, *(point for point, _ in values)]
        if not points:
            continue
        signal = Signal(len(points), name=f"{COVER}{len(found.bits)}")
        for tree in trees:
            part.add_statements("comb", *_branches(tree, signal))
        for bit, (_, value) in enumerate(values, len(walk.points)):
            part.add_statements("comb", signal[bit].eq(value))
        found.bits.append(points)
    return found


def _fragments(fragment: Fragment) -> Iterator[Fragment]:
    if isinstance(fragment, (Instance, MemoryInstance)):
        return
    yield fragment
    for part, _name, _src_loc in fragment.subfragments:
        yield from _fragments(part)


@dataclass
class _Case:
    """A case of a switch: the bit that it sets, and the switches within."""

    patterns: tuple[str, ...] | None
    bit: int
    inside: "list[_Tree]"


@dataclass
class _Tree:
    """A switch without its assignments."""

    switch: Switch
    cases: list[_Case]


def _branches(trees: list[_Tree], signal: Signal) -> Iterator[Statement]:
    """Yield the same branches, which set the bits of a signal and nothing else."""
    for tree in trees:
        cases = [
            (case.patterns, [signal[case.bit].eq(1), *_branches(case.inside, signal)], None)
            for case in tree.cases
        ]
        yield Switch(tree.switch.test, cases, src_loc=tree.switch.src_loc)  # type: ignore[arg-type]


class _Walk:
    """Points of the statements of a fragment."""

    def __init__(self, lines: dict[Point, set[Point]]) -> None:
        self.points: list[Point] = []
        self.muxes: list[tuple[Point, Value]] = []
        self._lines = lines
        self._seen: set[int] = set()

    def tree(self, statements: Iterable[Statement], parent: Point | None) -> list[_Tree]:
        """Return the switches of statements; note their points and what executes each line."""
        result: list[_Tree] = []
        for statement in statements:
            if isinstance(statement, Assign):
                if place := place_of(statement.src_loc):
                    self._line(Point("line", *place, ""), parent)
                self._find_muxes(statement.rhs)
                self._find_muxes(statement.lhs)
            elif isinstance(statement, Switch) and (chosen := _always(statement)) is not None:
                result += self.tree(chosen, parent)
            elif isinstance(statement, Switch) and (place := place_of(statement.src_loc)):
                self._find_muxes(statement.test)
                result.append(self._switch(statement, place))
        return result

    def _switch(self, switch: Switch, home: tuple[str, int]) -> _Tree:
        cases = []
        for patterns, statements, src_loc in switch.cases:
            point = Point("branch", *(place_of(src_loc) or home), "taken")
            bit = self._bit(point)
            cases.append(_Case(patterns, bit, self.tree(statements, point)))
        if not _exhaustive(switch):
            cases.append(_Case(None, self._bit(Point("branch", *home, "not taken")), []))
        return _Tree(switch, cases)

    def _bit(self, point: Point) -> int:
        self.points.append(point)
        return len(self.points) - 1

    def _line(self, line: Point, parent: Point | None) -> None:
        ways = self._lines.setdefault(line, {parent} if parent else set())
        if parent is None:
            ways.clear()
        elif ways:
            ways.add(parent)

    def _find_muxes(self, value: Value) -> None:
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        if isinstance(value, SwitchValue) and (place := place_of(value.src_loc)):
            test = _readable(value.test)
            for patterns, _ in value.cases:
                side = "else" if patterns is None else "|".join(patterns)
                if len(value.test) == 1 and len(value.cases) == 2:
                    side = "0" if patterns == ("0",) else "1"
                point = Point("branch", *place, f"Mux {test}: {side}")
                self.muxes.append((point, _selected(value, patterns)))
        for part in _parts(value):
            self._find_muxes(part)


def _selected(value: SwitchValue, chosen: tuple[str, ...] | None) -> Value:
    """Return whether a side of a multiplexer is chosen; earlier ones win."""
    earlier: Value = Const(0, 1)
    for patterns, _ in value.cases:
        matches = Const(1, 1) if patterns is None else value.test.matches(*patterns)
        if patterns == chosen:
            return matches & ~earlier
        earlier = earlier | matches
    raise AssertionError(chosen)


def _always(switch: Switch) -> Iterable[Statement] | None:
    """Return what a switch on a constant executes, which is no choice; None if there is one."""
    parts = switch.test.parts if isinstance(switch.test, Concat) else (switch.test,)
    if not all(isinstance(part, Const) for part in parts):
        return None
    bits = f"{Const.cast(switch.test).value:0{len(switch.test)}b}"
    for patterns, statements, _ in switch.cases:
        if patterns is None or any(_matches(pattern, bits) for pattern in patterns):
            return statements
    return ()


def _matches(pattern: str, bits: str) -> bool:
    return all(x in ("-", bit) for x, bit in zip(pattern, bits, strict=True))


def _exhaustive(switch: Switch) -> bool:
    patterns = [x for case, _, _ in switch.cases for x in (case or ())]
    whole = {x for x in patterns if "-" not in x}
    always = any(set(x) <= {"-"} for x in patterns)
    default = any(case is None for case, _, _ in switch.cases)
    return default or always or len(whole) == 1 << len(switch.test)


def _parts(value: Value) -> Iterator[Value]:
    """Return the values that a value is made of."""
    if isinstance(value, Operator):
        yield from value.operands
    elif isinstance(value, SwitchValue):
        yield value.test
        yield from (each for _, each in value.cases)
    else:
        names = ("parts", "value", "offset")
        for found in (getattr(value, name, None) for name in names):
            if isinstance(found, Value):
                yield found
            elif isinstance(found, (list, tuple)):
                yield from (each for each in found if isinstance(each, Value))


def _readable(value: Value) -> str:
    """Return a value's text without numbers, which differ among instances."""
    text = re.sub(r"\(sig ([^)]*)\)", r"\1", repr(value))
    return re.sub(r"\d+", "#", text)[:60]
