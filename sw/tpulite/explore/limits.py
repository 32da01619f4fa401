"""What a machine must not exceed, and the sentence that says which one to take."""

from collections.abc import Sequence
from dataclasses import dataclass

from tpulite.arch.config import Config
from tpulite.explore.point import Point


@dataclass(frozen=True)
class Limits:
    """Constraints on points; None is none.

    ValueError if there is a time and no clock.
    """

    max_lut: int | None = None  #: Lookup tables, as estimated for the family.
    max_ms: float | None = None  #: Milliseconds of a run of each network.
    mhz: float | None = None  #: The clock in MHz.

    def __post_init__(self) -> None:
        if self.max_ms is not None and self.mhz is None:
            raise ValueError("--max-ms needs a clock frequency: give --mhz")

    def broken(self, point: Point) -> str:
        """Return why a point is none to take: it does not run, or exceeds a limit; else nothing."""
        if point.trouble:
            return point.trouble
        if self.max_lut is not None and point.size.lut > self.max_lut:
            return f"more than {self.max_lut:,} LUT"
        if self.max_ms is not None and self.milliseconds(point) > self.max_ms:
            return f"slower than {self.max_ms:g} ms at {self.mhz:g} MHz"
        return ""

    def milliseconds(self, point: Point) -> float:
        """Return the time of the slowest network; there is a clock, and the point runs all."""
        assert self.mhz is not None
        return max(each.cycles for each in point.counts.values()) / self.mhz / 1e3


def answer(points: Sequence[Point], limits: Limits) -> str:
    """Return in a sentence which machine to take.

    With a limit of time that is the smallest (LUT, then block RAM) that keeps it, else the one
    with the fewest cycles, or the least time if the clocks of all are known.
    """
    able = [point for point in points if not point.trouble]
    if not able:
        return "no configuration runs all networks"
    networks = " and ".join(able[0].outcomes)
    good = [point for point in able if not limits.broken(point)]
    what = "ms" if all(point.clock for point in able) else "cycles"
    fastest = min(good or able, key=lambda point: (point.objective(what), point.size.lut))
    speed = f"{fastest.objective('cycles'):,} cycles"
    if limits.mhz is not None:
        speed += f", {limits.milliseconds(fastest):.3g} ms at {limits.mhz:g} MHz"
    elif what == "ms":
        speed += f", {fastest.objective(what):.3g} ms at {fastest.clock:g} MHz, as routed"
    if not good:
        return (
            f"no configuration runs {networks} within the limits; the fastest, "
            f"{machine_name(fastest)}, takes {speed}"
        )
    if limits.max_ms is None:
        return f"{machine_name(fastest)} runs {networks} fastest: {speed}"
    smallest = min(good, key=lambda point: (point.size.lut, point.size.bram))
    goal = f"in {limits.max_ms:g} ms at {limits.mhz:g} MHz"
    return f"{machine_name(smallest)} is the smallest that runs {networks} {goal}"


def machine_name(point: Point) -> str:
    """Return array, buffer and what else was varied: ``16x16 with 128 KiB, ub_banks=4``."""
    config = point.config
    assert isinstance(config, Config)
    size = f"{config.array_size}x{config.array_size}"
    others = [f"{name}={point.shown(name)}" for name in point.values if name not in _SAID]
    return ", ".join([f"{size} with {config.ub_bytes / 1024:g} KiB", *others])


_SAID = ("array_size", "ub_rows")
