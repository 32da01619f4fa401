"""Registers of states, found in a design: states, and steps between two.

What an engine does is no register: all its states are expected on the trace ports of the chip, and
all steps between two.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import permutations

from amaranth.hdl import Const, Fragment, Signal, Value
from amaranth.hdl._ast import Assign, Operator, Slice, Statement, Switch

from tpulite.arch.registers import EngineState, RunState
from tpulite_tb.coverage.points import Point

__all__ = ["state_points"]

Place = Callable[[tuple[str, int] | None], tuple[str, int] | None]
_TRACE = re.compile(r"trace_\w+_state")
_FEWEST = 3
"""Fewer states are a flag, whose toggles say as much."""


def state_points(fragment: Fragment, place_of: Place) -> Iterator[tuple[Point, Value]]:
    """Yield points of a fragment's state machines, and when each is reached.

    A state machine is a register that is given constants alone, some of them in cases of its own
    value. Its steps are the assignments in the sources, from each state in whose case they stand.
    """
    for register, steps in [*_machines(fragment), *_engines(fragment)]:
        place = place_of(register.src_loc)
        if place is None:
            continue
        before = Signal.like(register, name=f"before_{register.name}")
        fragment.add_statements("sync", before.eq(register))
        states = {register.init, *(target for _, target in steps)}
        for state in sorted(states):
            name = f"{register.name} {_named(register, state)}"
            yield Point("state", *place, name), register == state
        for source, target in sorted(steps):
            if source != target:
                name = f"{register.name} {_named(register, source)} to {_named(register, target)}"
                yield Point("arc", *place, name), (before == source) & (register == target)


def _engines(fragment: Fragment) -> Iterator[tuple[Signal, set[tuple[int, int]]]]:
    for statement in fragment.statements.get("comb", ()):
        if isinstance(statement, Assign):
            signal = _whole(statement.lhs)
            if signal is not None and _TRACE.fullmatch(signal.name):
                yield signal, set(permutations(map(int, EngineState), 2))


def _machines(fragment: Fragment) -> list[tuple[Signal, set[tuple[int, int]]]]:
    steps: dict[int, set[tuple[int, int]]] = defaultdict(set)
    signals: dict[int, Signal] = {}
    others: set[int] = set()

    def walk(statements: Iterable[Statement], inside: dict[int, set[int]]) -> None:
        for statement in statements:
            if isinstance(statement, Assign):
                register = _whole(statement.lhs)
                if register is None:
                    continue
                value = _constant(statement.rhs)
                if value is None:
                    others.add(id(register))
                    continue
                signals[id(register)] = register
                steps[id(register)] |= {(x, value) for x in inside.get(id(register), ())}
            elif isinstance(statement, Switch):
                tested = _whole(statement.test)
                for patterns, nested, _ in statement.cases:
                    known = dict(inside)
                    if tested is not None and patterns and "-" not in "".join(patterns):
                        known[id(tested)] = {int(x, 2) for x in patterns}
                    walk(nested, known)

    walk(fragment.statements.get("sync", ()), {})
    return [
        (signals[key], found)
        for key, found in steps.items()
        if key not in others and len({x for step in found for x in step}) >= _FEWEST
    ]


def _whole(value: Value) -> Signal | None:
    """Return the signal that a value is all of."""
    if isinstance(value, Operator) and value.operator in ("u", "s"):
        value = value.operands[0]
    if isinstance(value, Slice) and len(value) == len(value.value):
        value = value.value
    return value if isinstance(value, Signal) else None


def _constant(value: Value) -> int | None:
    if isinstance(value, Operator) and value.operator in ("u", "s"):
        value = value.operands[0]
    return value.value if isinstance(value, Const) else None


def _named(register: Signal, state: int) -> str:
    names = EngineState if _TRACE.fullmatch(register.name) else RunState
    return names(state).name
