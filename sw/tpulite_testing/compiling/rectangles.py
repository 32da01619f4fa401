"""Schedules for tests of allocation: random rectangles, and those of real networks."""

from functools import cache
from itertools import combinations

from hypothesis import strategies as st

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.compiler.ops import Buffer, Op, Region
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.schedule.scheduled import Lifetime, Schedule, find_lifetimes
from tpulite.models import CNN_DIGITS
from tpulite.models.architectures import mobilenet_v2
from tpulite.runtime.model import Model

__all__ = ["NETWORKS", "collide", "lifetimes", "network_schedule", "schedule_of"]

NETWORKS = {
    "cnn": Config(ub_rows=1024),
    "mobilenet_v2": Config(ub_rows=4096),
}
"""Networks, each with a machine that it nearly fills."""

_LAYERS = {
    "cnn": lambda: Model.load(CNN_DIGITS).layers[0],
    "mobilenet_v2": lambda: mobilenet_v2(32),
}


@st.composite
def lifetimes(draw) -> tuple[Lifetime, ...]:
    """Draw buffers, when they are needed, and the bank of some."""
    found = []
    for number in range(draw(st.integers(1, 24))):
        bank = draw(st.sampled_from([None, None, 0, 4]))
        buffer = Buffer(f"b{number}", draw(st.integers(1, 40)), bank=bank)
        first = draw(st.integers(0, 20))
        found.append(Lifetime(buffer, first, first + draw(st.integers(0, 12))))
    return tuple(found)


def schedule_of(spans, rows=None, *, first_row: int = 0) -> Schedule:
    """Return commands that touch each buffer at the ends of its life, and do nothing else."""
    touched = [{} for _ in range(max(each.last for each in spans) + 1)]
    for each in spans:
        for time in (each.first, each.last):
            touched[time][each.buffer.name] = Region(each.buffer)
    ops = [Op(Opcode.VECTOR, 0, {}, rows) for rows in touched]
    return Schedule(tuple(ops), find_lifetimes(ops), {}, rows or {}, first_row, 0)


def collide(spans, rows) -> bool:
    """Whether any two buffers overlap: every pair is compared."""
    return any(
        a.first <= b.last
        and b.first <= a.last
        and rows[a.buffer] < rows[b.buffer] + b.buffer.rows
        and rows[b.buffer] < rows[a.buffer] + a.buffer.rows
        for a, b in combinations(spans, 2)
    )


@cache
def network_schedule(name: str) -> Schedule:
    """Return the schedule of a network of :data:`NETWORKS`."""
    config = NETWORKS[name]
    stages = {}
    compile_layers(_LAYERS[name](), config, dump=stages.__setitem__)
    return stages["schedule"]
