"""A library of standard cells from the Liberty file of a process, at the file's one corner."""

import re
from pathlib import Path

from tpulite_silicon.liberty import Group, numbers, parse, truth
from tpulite_silicon.timed import (
    FALL,
    RISE,
    SRAM_ACCESS,
    STAGE,
    Arc,
    Library,
    LibraryError,
    Table,
    TimedCell,
)

__all__ = ["read_library"]

_SLEWS = ("input_net_transition", "input_transition_time", "constrained_pin_transition")
_LOADS = ("total_output_net_capacitance", "related_pin_transition")
_THROUGH = ("combinational", "combinational_rise", "combinational_fall")
_LAUNCHES = ("rising_edge", "falling_edge")
_SETUPS = ("setup_rising", "setup_falling")
_EDGES = {RISE: "rise", FALL: "fall"}
_SENSES = {"positive_unate": (0,), "negative_unate": (1,)}
"""Whether an edge at the input is another at the output; any may be either by default."""

_INVERTER, _BUFFER, _NAND = (0b01, 1), (0b10, 1), (0b0111, 2)
"""Truth table and number of inputs."""

_STATEFUL = {"ff", "ff_bank", "latch", "latch_bank", "statetable"}
_NANOSECONDS = {"us": 1e3, "ns": 1.0, "ps": 1e-3, "fs": 1e-6}
_MACRO_LOAD = 2.0
"""Of an input of a memory macro and of a port, in units of the smallest inverter's."""


def read_library(path: Path) -> Library:
    """Return the library in a Liberty file.

    Memory macros answer after :data:`SRAM_ACCESS` FO4 of the library. Its fastest buffer drives
    their data and what comes from the ports of the chip.

    Raises
    ------
    LibraryError
        If there is no such file, it is no Liberty file, or it lacks what every chip needs:
        an inverter, a buffer, a NAND of two inputs, a flip-flop, delay tables.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise LibraryError(f"{path}: {error.strerror}; LIBERTY takes a library's .lib") from error
    try:
        group = parse(text)
    except ValueError as error:
        raise LibraryError(f"{path}: not a Liberty file, see {error}") from error
    try:
        return _library(group, text)
    except (ValueError, KeyError) as error:
        raise LibraryError(f"{path}: {error.args[0]}") from error


def _library(group: Group, text: str) -> Library:
    templates = {each.args[0]: each for each in group.of("lu_table_template")}
    gates: dict[str, TimedCell] = {}
    registers: dict[str, TimedCell] = {}
    known: dict[tuple[int, int], list[TimedCell]] = {}
    plain = None  # setup times of a flip-flop's data
    for cell in group.of("cell"):
        timed = _cell(cell, group, templates)
        if cell.values.get("dont_use") == "true":
            continue
        if flipflops := cell.of("ff"):
            registers[timed.name] = timed
            data = flipflops[0].values.get("next_state", "")
            if plain is None and data in timed.loads and any(timed.outputs.values()):
                plain = timed.setups.get(data, [])
        elif (rows := _truth(cell, sorted(timed.loads))) is not None:
            gates[timed.name] = timed
            known.setdefault((rows, len(timed.loads)), []).append(timed)
    for there, what in (
        (_INVERTER in known, "inverter"),
        (_BUFFER in known, "buffer"),
        (_NAND in known, "NAND of two inputs"),
        (plain is not None, "flip-flop with an input for data"),
    ):
        if not there:
            raise ValueError(f"no {what} among cells with delay tables; a chip needs one")

    inverter = min(known[_INVERTER], key=lambda cell: max(cell.loads.values()))
    fo4, slew = _fanout_of_four(inverter)
    buffer = min(known[_BUFFER], key=lambda cell: _stage(cell, slew))
    drivers = _by_edge(buffer)
    (unit_load,) = inverter.loads.values()

    def terminal(name: str, access: float, setups: dict) -> TimedCell:
        arcs = tuple(
            Arc(edge, edge, arc.delay.shifted(access - arc.delay.at(slew, 0)), arc.slew)
            for edge, arc in drivers.items()
        )
        return TimedCell(name, 0.0, {"": _MACRO_LOAD * unit_load}, {"": {"": arcs}}, setups)

    return Library(
        name=group.args[0],
        text=text,
        gates=gates,
        registers=registers,
        macro=terminal("memory macro", SRAM_ACCESS * fo4, {"": plain}),
        port=terminal("port", 0.0, {}),
        buffers=drivers,
        buffer_load=sum(buffer.loads.values()),
        fo4=fo4,
        clock_slew=slew,
        unit="ns",
        area_unit="um2",
        scale=_nanoseconds(group.values.get("time_unit", "1ns")),
        digits=3,
        unused=tuple(
            name
            for cell in group.of("cell")
            if (name := cell.args[0]) not in gates and name not in registers
        ),
        corner=", ".join(
            f"{float(group.values[key]):g} {unit}"
            for key, unit in (("nom_voltage", "V"), ("nom_temperature", "°C"))
            if key in group.values
        ),
    )


def _cell(cell: Group, library: Group, templates: dict[str, Group]) -> TimedCell:
    """Return a cell with the arcs of its outputs and the setup times of its inputs."""
    clocked = [each.values.get("clocked_on", "") for each in cell.of("ff")]
    default = library.values.get("default_input_pin_cap", "0")
    loads, outputs, setups = {}, {}, {}
    for pin in cell.of("pin"):
        for name in pin.args:
            if pin.values.get("direction") == "input":
                loads[name] = float(pin.values.get("capacitance", default))
                if tables := _setups(pin, templates):
                    setups[name] = tables
            elif pin.values.get("direction") == "output":
                outputs[name] = _arcs(pin, templates)
    return TimedCell(
        name=cell.args[0],
        area=float(cell.values.get("area", "0")),
        loads=loads,
        outputs=outputs,
        setups=setups,
        clock=re.sub(r"\W", "", clocked[0]) if clocked else "",
    )


def _truth(cell: Group, inputs: list[str]) -> int | None:
    """Return the truth table of a gate of one output; nothing for any other cell."""
    outputs = [pin for pin in cell.of("pin") if pin.values.get("direction") == "output"]
    stateful = any(group.kind in _STATEFUL for group in cell.groups)
    if len(outputs) != 1 or not inputs or stateful or "three_state" in outputs[0].values:
        return None
    if not any(timing.of("cell_rise") for timing in outputs[0].of("timing")):
        return None
    try:
        return truth(outputs[0].values.get("function", ""), inputs)
    except ValueError:
        return None  # of what is not among its pins


def _arcs(output: Group, templates: dict[str, Group]) -> dict[str, tuple[Arc, ...]]:
    """Return the arcs to an output from gates' inputs and registers' clocks."""
    found: dict[str, list[Arc]] = {}
    for timing in output.of("timing"):
        kind = timing.values.get("timing_type", "combinational")
        if kind in _THROUGH:
            flips = _SENSES.get(timing.values.get("timing_sense", ""), (0, 1))
        elif kind in _LAUNCHES:
            flips = (0,)
        else:
            continue
        for edge, word in _EDGES.items():
            delays, slews = timing.of(f"cell_{word}"), timing.of(f"{word}_transition")
            if delays and slews:
                tables = _table(delays[0], templates), _table(slews[0], templates)
                arcs = [Arc(edge ^ flip, edge, *tables) for flip in flips]
                for pin in timing.values.get("related_pin", "").split():
                    found.setdefault(pin, []).extend(arcs)
    return {pin: tuple(arcs) for pin, arcs in found.items()}


def _setups(pin: Group, templates: dict[str, Group]) -> list[tuple[int, Table]]:
    return [
        (edge, _table(table, templates))
        for timing in pin.of("timing")
        if timing.values.get("timing_type") in _SETUPS
        for edge, word in _EDGES.items()
        for table in timing.of(f"{word}_constraint")
    ]


def _table(group: Group, templates: dict[str, Group]) -> Table:
    """Return a table with slews as rows, whatever its order in the file."""
    template = templates.get(group.args[0] if group.args else "", Group("", []))
    values = numbers(group.lists["values"])
    axes = {}
    for index in (1, 2, 3):
        variable = template.values.get(f"variable_{index}", "")
        points = group.lists.get(f"index_{index}") or template.lists.get(f"index_{index}")
        if variable and points:
            axes[variable] = numbers(points)
    slews = next((axes.pop(name) for name in _SLEWS if name in axes), (0.0,))
    first = bool(axes) and template.values["variable_1"] in axes  # loads are the rows
    loads = next((axes.pop(name) for name in _LOADS if name in axes), (0.0,))
    if axes or len(values) != len(slews) * len(loads):
        raise ValueError(f"{group.kind} ({', '.join(group.args)}): no table of slews and loads")
    if first and len(slews) > 1:
        columns = [values[at : at + len(slews)] for at in range(0, len(values), len(slews))]
        return Table(slews, loads, tuple(zip(*columns, strict=True)))
    rows = tuple(values[at : at + len(loads)] for at in range(0, len(values), len(loads)))
    return Table(slews, loads, rows)


def _nanoseconds(time: str) -> float:
    """Return a time such as ``10ps``."""
    match = re.fullmatch(r"([\d.]+)\s*([unpf]s)", time)
    if match is None:
        raise ValueError(f"time_unit {time!r} is no time such as 1ns")
    return float(match[1]) * _NANOSECONDS[match[2]]


def _by_edge(cell: TimedCell) -> dict[int, Arc]:
    """Return the arcs of a cell of one input by the edge at its output."""
    ((arcs,),) = (ways.values() for ways in cell.outputs.values())
    return {arc.after: arc for arc in arcs}


def _fanout_of_four(inverter: TimedCell) -> tuple[float, float]:
    """Return mean delay and slew in a chain of inverters that each drive four."""
    load = 4 * sum(inverter.loads.values())
    arcs = _by_edge(inverter)
    delays, slews = [0.0, 0.0], [0.0, 0.0]
    for stage in range(20):  # until the slew has settled
        edge = stage % 2
        delays[edge] = arcs[edge].delay.at(slews[1 - edge], load)
        slews[edge] = arcs[edge].slew.at(slews[1 - edge], load)
    return sum(delays) / 2, sum(slews) / 2


def _stage(buffer: TimedCell, slew: float) -> float:
    """Return the mean delay of a stage in a tree of buffers."""
    load = STAGE * sum(buffer.loads.values())
    return sum(arc.delay.at(slew, load) for arc in _by_edge(buffer).values()) / 2
