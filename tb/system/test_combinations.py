"""All combinations of functional coverage occur in programs that the chip executes.

They are those of :mod:`tpulite_tb.coverage.crosses`. Programs are drawn until the golden machine
has executed all; the chip runs those that bring new ones. Waits on AXI are test_axi_master's.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle, islice

import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import operations
from tpulite.arch.numerics import Rounding
from tpulite_tb.coverage.functional import Functional
from tpulite_tb.directed_commands import direct_conv, direct_transfer, direct_vector
from tpulite_tb.directed_program import DirectedProgram
from tpulite_tb.machines import DEFAULT, FEW_LANES, SMALL
from tpulite_tb.random_check import check, memory_options, sample
from tpulite_tb.random_commands import CommandDrawer
from tpulite_tb.random_program import LONGEST, RandomProgram
from tpulite_tb.random_state import Drawn, State
from tpulite_verilated.rtl_device import RtlDevice

MACHINES = {"4x4": SMALL, "8x8": FEW_LANES, "default": DEFAULT}
MOST = 500
"""Programs that are drawn, a few times as many as it takes."""

Point = Mapping[str, str]
"""A combination: a value for each axis of a cross."""

Source = Callable[[int, Config, Sequence[Point]], RandomProgram]
"""Draws a program, of a seed and for a machine, that may have some of the missing combinations."""


def directed(
    direct: Callable[[State, Point], Iterator[Drawn]],
    seed: int,
    config: Config,
    missing: Sequence[Point],
) -> RandomProgram:
    """Draw commands of missing combinations, in turn, while there is room."""

    def commands(drawer: CommandDrawer) -> Iterator[Drawn]:
        for point in islice(cycle(missing), LONGEST):
            yield from direct(drawer.state, point)

    return DirectedProgram(seed, config, commands)


def ended(seed: int, config: Config, missing: Sequence[Point]) -> RandomProgram:
    """Draw END behind the first command of a missing pair; others come by themselves."""

    def commands(drawer: CommandDrawer) -> Iterator[Drawn]:
        for number in range(LONGEST):
            yield (drawn := drawer.draw())
            if number > LONGEST // 2 and drawn.command.opcode.name == missing[0]["first"]:
                return

    return DirectedProgram(seed, config, commands, dump=False)


def faulty(seed: int, config: Config, _missing: Sequence[Point]) -> RandomProgram:
    """Draw a program that stops at any fault."""
    return RandomProgram(seed, config, fault=1.0)


CASES: dict[str, tuple[Source, Sequence[str]]] = {
    "CONV": (partial(directed, direct_conv), ["4x4"]),
    "channel records": (partial(directed, direct_conv), ["4x4"]),
    "VECTOR": (partial(directed, direct_vector), ["4x4", "8x8", "default"]),
    "transfers": (partial(directed, direct_transfer), ["8x8"]),
    "commands back to back": (ended, ["4x4"]),
    "faults": (faulty, ["8x8"]),
}
"""How programs are drawn, and for which machines: a combination for the first one that has it."""


@pytest.mark.parametrize(
    ("title", "geometry"),
    [(title, geometry) for title, (_, machines) in CASES.items() for geometry in machines],
)
def test_all_combinations_occur(title: str, geometry: str) -> None:
    source, machines = CASES[title]
    seen, config = Functional(), MACHINES[geometry]
    cross = seen.crosses[title]

    def missing() -> list[Point]:
        points = (dict(zip(cross.axes, map(str, x), strict=True)) for x in cross.holes())
        return [x for x in points if first_that_has(x, machines) == geometry]

    left = missing()
    for seed in range(MOST):
        program = source(seed, config, left)
        sample(program, seen)
        if len(missing()) < len(left):
            device = RtlDevice(config, seed=seed, **memory_options(program))
            try:
                check(program, device, device.set_errors)
            except Exception as error:
                error.add_note(f"Seed {seed}, with {left} missing before it")
                raise
        left = missing()
        if not left:
            return
    pytest.fail(f"{len(left)} combinations did not occur in {MOST} programs: {left}")


def first_that_has(point: Point, machines: Sequence[str]) -> str:
    """Return the first machine that has the operation and the rounding of a combination."""
    able = [name for name in machines if has(MACHINES[name], point)]
    assert able, f"None of {machines} has {point}"
    return able[0]


def has(config: Config, point: Point) -> bool:
    lacks = {x.name for x in Rounding} - {x.upper() for x in config.roundings}
    known = [x.name for x in operations(config)]
    return point.get("rounding") not in lacks and point.get("operation", known[0]) in known
