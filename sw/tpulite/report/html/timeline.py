"""Figures over time: what engines do, what DRAM moves, and what the unified buffer holds."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from tpulite.arch.isa import Engine, Opcode
from tpulite.report.buffer_map import map_buffer
from tpulite.report.executed import bytes_a_cycle, command_layers, executed
from tpulite.report.profile import Profile
from tpulite.report.traced_run import TracedRun


def in_turn(runs: Sequence[TracedRun]) -> Iterator[tuple[int, int, TracedRun]]:
    """Yield the cycles and the layers before each run, and the run."""
    begin = layers = 0
    for run in runs:
        yield begin, layers, run
        begin, layers = begin + run.cycles, layers + len(run.program.layers)


def make_timeline(profile: Profile, owner: Mapping[str, str], macs: Mapping[str, int]) -> Any:
    """Return a track for each engine, and where parts of the network run on the CPU."""
    layers = [layer.name for run in profile.runs for layer in run.program.layers]
    opcodes = [opcode.name for opcode in Opcode]
    return {
        "end": sum(run.cycles for run in profile.runs),
        "layers": layers,
        "keys": [owner.get(name, name) for name in layers],
        "opcodes": opcodes,
        "tracks": [
            {"name": engine.name, **_track(profile.runs, engine, opcodes)} for engine in Engine
        ],
        "cpu": list(_cpu_parts(profile, macs)),
    }


def _track(runs: Sequence[TracedRun], engine: Engine, opcodes: list[str]) -> dict[str, list[int]]:
    """Return the commands of an engine, a column each; first cycles and numbers as differences.

    Columns: the first cycle that counts for a command, cycles that it waits for tokens from then,
    cycles that it works after that, its index in its program, its layer, its opcode.
    """
    columns: dict[str, list[int]] = {
        name: [] for name in ("first", "wait", "work", "number", "layer", "opcode")
    }
    for begin, before, run in in_turn(runs):
        layers = (command_layers(run.program) + before).tolist()
        for number, first, start, stop, _ in executed(run.traces[engine]):
            opcode = opcodes.index(run.program.commands[number].opcode.name)
            values = begin + first, start - first, stop - start, number, layers[number], opcode
            for column, value in zip(columns.values(), values, strict=True):
                column.append(value)
    for name in ("first", "number", "layer"):
        columns[name] = [b - a for a, b in pairwise([0, *columns[name]])]
    return columns


def _cpu_parts(profile: Profile, macs: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yield each part that runs on the CPU, and after how many cycles of the accelerator."""
    cycles = 0
    for layer in profile.layers:
        if layer.where == "machine":
            cycles += layer.cycles
        else:
            yield {
                "at": cycles,
                "name": layer.name,
                "by": layer.where,
                "keys": layer.nodes,
                "macs": sum(macs.get(name, 0) for name in layer.nodes),
            }


def make_bandwidth(runs: Sequence[TracedRun]) -> dict[str, Any]:
    """Return the bytes a cycle that LOAD and STORE move, each from a cycle on."""
    end = sum(run.cycles for run in runs)
    lines = []
    for engine, word in ((Engine.LOAD, "read"), (Engine.STORE, "written")):
        steps = [
            (begin + cycle, round(rate, 3))
            for begin, _, run in in_turn(runs)
            for cycle, rate in bytes_a_cycle(run, engine)
        ]
        cycles = [b - a for a, b in pairwise([0, *(cycle for cycle, _ in steps)])]
        lines.append({"name": word, "cycle": cycles, "rate": [rate for _, rate in steps]})
    return {"end": end, "lines": lines}


def make_buffer_map(runs: Sequence[TracedRun], owner: Mapping[str, str]) -> dict[str, Any]:
    """Return rows of the unified buffer over the cycles of a timeline."""
    rects, names = [], {}
    for begin, before, run in in_turn(runs):
        for block in map_buffer(run):
            layer = run.program.layers[block.layer].name if block.layer >= 0 else ""
            label = f"{layer}: {block.kind}" if layer else block.kind
            color = before + block.layer if layer else -1
            key = layer and owner.get(layer, layer)
            name = names.setdefault((label, color, key, block.kind != "activations"), len(names))
            rects.append([begin + block.start, begin + block.stop, block.row, block.end, name])
    return {
        "time": True,
        "end": [sum(run.cycles for run in runs), max(run.program.config.ub_rows for run in runs)],
        "axes": ["", "rows"],
        "height": 360,
        "kinds": [
            {"label": label, "layer": color, "key": key, "light": light}
            for label, color, key, light in names
        ],
        "rects": rects,
    }
