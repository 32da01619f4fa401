"""Readable text of what each stage of the compiler makes; equal values give equal text."""

from dataclasses import dataclass
from functools import singledispatch

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, disassemble
from tpulite.compiler.dump.bound import bound_text
from tpulite.compiler.dump.groups import groups_text
from tpulite.compiler.dump.layers import layers_text, placement_text
from tpulite.compiler.dump.places import allocation_text, schedule_text
from tpulite.compiler.dump.simplified import simplified_text
from tpulite.compiler.dump.tiling import tiling_text
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.ops import Tiling
from tpulite.compiler.options import Options
from tpulite.compiler.place.placement import Placement
from tpulite.compiler.rewrite.simplify.network import Simplified
from tpulite.compiler.schedule.allocate import Allocation
from tpulite.compiler.schedule.live_tensors import Section, live_sections
from tpulite.compiler.schedule.scheduled import Schedule
from tpulite.compiler.state import BoundChoice
from tpulite.graph.layers import LayerGraph


@dataclass(frozen=True)
class Compilation:
    """What a compilation is about."""

    layers: LayerGraph  #: The network.
    config: Config  #: The machine.
    options: Options  #: Choices of the compilation.
    schedule: Schedule | None = None  #: When buffers live, for a picture of their places.
    allocation: Allocation | None = None  #: Where they lie, for the live ranges of groups.


@singledispatch
def stage_text(value: object, about: Compilation) -> str:
    """Return the result of a stage as text, lines that end with line feeds.

    Parameters
    ----------
    value : object
        What the stage has made: :func:`tpulite.compiler.pipeline.compile_layers` shows it.
    about : Compilation
        What it was made of.

    Raises
    ------
    TypeError
        If no stage makes such a thing.
    """
    raise TypeError(f"No stage of the compiler makes a {type(value).__name__}")


@stage_text.register
def _(value: tuple, about: Compilation) -> str:
    """Write what is many of one kind: groups, commands."""
    kinds = {type(item) for item in value}
    if kinds <= {Command}:
        return "".join(f"{i:6}  {disassemble(command)}\n" for i, command in enumerate(value))
    if kinds == {Group}:
        sections: tuple[Section, ...] = ()
        if about.schedule is not None and about.allocation is not None:
            sections = live_sections(about.layers, value, about.schedule, about.allocation)
        return groups_text(value, about.layers, about.config, about.options, sections)
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise TypeError(f"No stage of the compiler makes a tuple of {names}")


@stage_text.register
def _(value: Simplified, about: Compilation) -> str:
    return simplified_text(value)


@stage_text.register
def _(value: LayerGraph, about: Compilation) -> str:
    return layers_text(value)


@stage_text.register
def _(value: Placement, about: Compilation) -> str:
    return placement_text(value, about.layers, about.config)


@stage_text.register
def _(value: Tiling, about: Compilation) -> str:
    return tiling_text(value, about.layers)


@stage_text.register
def _(value: Schedule, about: Compilation) -> str:
    return schedule_text(value, about.layers)


@stage_text.register
def _(value: BoundChoice | None, about: Compilation) -> str:
    return "not tried\n" if value is None else bound_text(value)


@stage_text.register
def _(value: Allocation, about: Compilation) -> str:
    return allocation_text(value, about.schedule, about.config.ub_rows)
