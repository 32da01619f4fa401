"""Options of the compiler on the command line."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from tpulite.cli.help import Choice, Topic, option
from tpulite.compiler.options import ALLOCATORS, GOALS, GROUPINGS, ORDERS, SWITCHES, Options
from tpulite.memories import MEMORIES, named_memory
from tpulite.program import Program

Command = TypeVar("Command", bound=Callable[..., Any])

_DEFAULTS = Options()

memory_option = option(
    "--memory",
    group=Topic.COMPILER,
    default=_DEFAULTS.memory,
    metavar="NAME[,FIELD=VALUE...]",
    help=f"DRAM to plan for and predict with: {', '.join(MEMORIES)}; or two: sram+flash.",
)

_OPTIONS = (
    option(
        "--optimize",
        group=Topic.COMPILER,
        type=Choice(GOALS),
        default=_DEFAULTS.optimize,
        help="Minimize cycles, or DRAM traffic.",
    ),
    option(
        "--batch",
        group=Topic.COMPILER,
        type=int,
        help="Inferences per run (batch size).  [default: 1]",
    ),
    option(
        "--without",
        group=Topic.COMPILER,
        multiple=True,
        metavar="NAME[,NAME]",
        help=f"Leave out mechanisms ({', '.join(x.replace('_', '-') for x in SWITCHES)}) or passes "
        "of the compiler, to measure what they are worth.",
    ),
    option(
        "--grouping",
        group=Topic.COMPILER,
        type=Choice(GROUPINGS),
        default=_DEFAULTS.groups,
        help="Form layer groups by predicted cycles, or as in the LayerGroup document.",
    ),
    option(
        "--halo-guard",
        group=Topic.COMPILER,
        is_flag=True,
        help="Refuse slices that recompute more than half of their rows.",
    ),
    option(
        "--allocator",
        group=Topic.COMPILER,
        type=Choice(ALLOCATORS),
        help="Buffer allocator.  [default: online; with --grouping document: longest]",
    ),
    option(
        "--moves",
        group=Topic.COMPILER,
        type=int,
        default=_DEFAULTS.moves,
        help="Random changes to the layer groups that the search tries.",
    ),
    option(
        "--moves-seed",
        group=Topic.COMPILER,
        type=click.IntRange(min=0),
        default=_DEFAULTS.seed,
        help="Seed of these changes.",
    ),
    option(
        "--effort",
        group=Topic.COMPILER,
        type=int,
        default=_DEFAULTS.effort,
        help="Search budget in estimated commands: more may find a faster program, 0 compiles "
        "fastest.",
    ),
    option(
        "--order",
        group=Topic.COMPILER,
        type=Choice(ORDERS),
        default=_DEFAULTS.order,
        help="Loop order of dense layers: the fastest, or K (the summed axis) outermost (document) "
        "or innermost (panels).",
    ),
    memory_option,
    option(
        "--resident",
        group=Topic.COMPILER,
        is_flag=True,
        help="Keep weights on chip between runs; only the first run loads them.",
    ),
    option(
        "--no-cache",
        group=Topic.COMPILER,
        is_flag=True,
        help="Compile again; ignore the cache.",
    ),
)

_OF_COSTS = ("halo_guard", "moves", "moves_seed")
"""Parameters that mean nothing where groups are not chosen by their cost."""

_OF_GROUPS = ("grouping", "halo_guard", "moves", "moves_seed")
"""Parameters that mean nothing without groups."""


@dataclass(frozen=True)
class Choices:
    """What was chosen of :func:`compiler_options`."""

    values: Mapping[str, Any]  #: All parameters by name.
    given: tuple[str, ...]  #: Those that were given on the command line.

    @property
    def batch(self) -> int | None:
        """Images of a run, if they were given."""
        return self.values["batch"]

    @property
    def cache(self) -> bool:
        """Whether programs may come from the cache."""
        return not self.values["no_cache"]

    def beside(self, program: Program) -> Program:
        """Return a program with the memory that was given, if one was; ValueError if it is none."""
        if "memory" not in self.given:
            return program
        return replace(program, memory=named_memory(self.values["memory"]))

    def options(self) -> Options:
        """Return the options of the compiler.

        UsageError if one contradicts another; ValueError if a value is impossible.
        """
        values, left_out = self.values, self._left_out()
        documented = values["grouping"] == "document"
        for chosen, names, flag in (
            ("grouping" in left_out, _OF_GROUPS, "--without grouping"),
            (documented, _OF_COSTS, "--grouping document"),
        ):
            idle = [name for name in names if name in self.given]
            if chosen and idle:
                raise click.UsageError(f"{_flags(idle)} cannot be used with {flag}.")
        if documented and values["allocator"] not in (None, "longest"):
            raise click.UsageError(
                f"--allocator {values['allocator']} cannot be used with --grouping document, "
                "which places what lives longest first: leave it out."
            )
        if values["moves"] == 0 and "moves_seed" in self.given:
            raise click.UsageError("--moves-seed cannot be used with --moves 0.")
        return Options(
            optimize=values["optimize"],
            batch=1 if self.batch is None else self.batch,
            halo_guard=values["halo_guard"],
            groups=values["grouping"],
            allocator=values["allocator"] or ("longest" if documented else _DEFAULTS.allocator),
            moves=values["moves"],
            seed=values["moves_seed"],
            effort=values["effort"],
            order=values["order"],
            resident=values["resident"],
            memory=values["memory"],
            without=left_out,
        )

    def _left_out(self) -> tuple[str, ...]:
        """Return what is left out; UsageError of an unknown name."""
        names = tuple(name for each in self.values["without"] for name in each.split(","))
        if names:
            from tpulite.compiler.passes import check_left_out  # late: others start quickly

            try:
                check_left_out(names)
            except ValueError as error:
                raise click.UsageError(f"--without {error}.") from error
        return names

    def refuse(self, why: str, *, but: tuple[str, ...] = ()) -> None:
        """Raise UsageError if any was given, except for some: it would do nothing."""
        if idle := [name for name in self.given if name not in but]:
            raise click.UsageError(f"{_flags(idle)} cannot be used: {why}.")


def compiler_options(command: Command) -> Command:
    """Add the options of the compiler; the command gets them as :class:`Choices`, ``choices``."""

    @wraps(command)
    def collect(**arguments: Any) -> Any:
        source = click.get_current_context().get_parameter_source
        values = {name: arguments.pop(name) for name in _NAMES}
        given = tuple(name for name in _NAMES if source(name) is ParameterSource.COMMANDLINE)
        return command(**arguments, choices=Choices(values, given))

    for add in reversed(_OPTIONS):
        collect = add(collect)
    return collect  # type: ignore[return-value]


def _flags(names: list[str]) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)


_NAMES = (
    *("optimize", "batch", "without"),
    *("grouping", "halo_guard", "allocator", "moves", "moves_seed", "effort", "order"),
    *("memory", "resident", "no_cache"),
)
