"""The page of a run: its head, and the figures below each other."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from tpulite.arch.config import Config
from tpulite.arch.isa import Engine, Opcode
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.geometry.slices import plan_steps
from tpulite.compiler.schedule.live_tensors import Grouped
from tpulite.graph.layers import LayerGraph
from tpulite.report.buffer_map import map_buffer
from tpulite.report.html.groups import make_live_ranges, make_slice_rows
from tpulite.report.html.head import Report, make_answers, make_head
from tpulite.report.html.items import make_items, owners
from tpulite.report.html.layers import make_layer_table, make_roofline
from tpulite.report.html.network import cycle_notes, draw_network
from tpulite.report.html.shell import Section, whole_page
from tpulite.report.profile import Profile
from tpulite.report.spending import bytes_a_cycle, command_layers, executed
from tpulite.report.traced_run import TracedRun


def make_page(report: Report) -> str:
    """Return the page as HTML; see :func:`tpulite.report.html.write_page`."""
    items = make_items(report.network, report.details, report.profile)
    sections = [*_answers(report), *_layers(report), *_time(report)]
    for each in report.grouped:
        sections += _groups(each, report.profile.config)
    return whole_page(make_head(report), sections, items, mhz=report.speed.mhz)


def _answers(report: Report) -> Iterator[Section]:
    if report.answers:
        yield Section(
            "Answer",
            "Outputs of the network for the first inputs. Images are scaled from their smallest "
            "value (black) to their largest (white).",
            [("answers", [make_answers(each) for each in report.answers])],
        )


def _layers(report: Report) -> Iterator[Section]:
    """Yield the drawn network and the table."""
    profile, network = report.profile, report.network
    if network is not None:
        yield Section(
            "Network",
            "What computes each operator, and in how many cycles; a bar compares them with the "
            "slowest. A click shows the details of an operator.",
            [("network", draw_network(network, cycle_notes(profile, network)))],
        )
    yield Section(
        "Layers",
        "In the order of execution; every cycle counts once. Hidden layers run in parallel with "
        "other layers, which have the cycles; start and end are before the first and after the "
        "last command. The time of operators on the CPU is not simulated.",
        [("table", make_layer_table(profile, network))],
    )


def _time(report: Report) -> Iterator[Section]:
    """Yield the figures over time, and the roofline."""
    profile, network = report.profile, report.network
    if not profile.runs:
        return
    owner = owners(network, profile.layers)
    macs = {box.name: box.macs for box in network.operators} if network is not None else {}
    timeline = make_timeline(profile, owner, macs)
    yield Section(
        "Timeline",
        "Each command in the color of its layer; gray: it waits for others. Below: what DRAM "
        "moves. Drag to move; zoom with the buttons or with Ctrl and the mouse wheel.",
        [("timeline", timeline), ("bandwidth", make_bandwidth(profile.runs))],
    )
    yield Section(
        "Unified buffer",
        "What lies in which rows, in the color of the layer that it is written for; weights and "
        "inputs are pale. A block lasts from its first writer to its last reader.",
        [("rectangles", make_buffer_map(profile.runs, owner))],
        expanded=False,
    )
    yield Section(
        "Roofline",
        "Layers by their MACs for each byte that DRAM moves in its busier direction; the larger, "
        "the more cycles. Below the level roof multipliers are idle.",
        [("scatter", make_roofline(profile, network))],
        expanded=False,
    )


def _groups(network: Grouped, config: Config) -> Iterator[Section]:
    """Yield the figures of layer groups."""
    yield Section(
        "Live ranges",
        "What the allocator has placed: time steps downward, rows of the unified buffer to the "
        "right. T5 is the step of the layer with the id 5 in --dump group. "
        f"Row r lies in bank r mod {config.ub_banks}.",
        [("rectangles", make_live_ranges(network, config))],
        expanded=False,
    )
    for section in network.sections:
        (group, *others) = section.groups
        if not others and group.slices and len(plan_steps(network.layers, group)) > 1:
            yield _slices(network.layers, group)


def _slices(layers: LayerGraph, group: Group) -> Section:
    """Return the figure of a group that is cut."""
    first, last = (layers.layers[i].name for i in (group.layers[0], group.layers[-1]))
    shared = (
        "pale ones are kept from the slice before"
        if group.rolling
        else "those that several slices need are loaded or computed again"
    )
    return Section(
        f"Slices of {first} to {last}" if len(group.layers) > 1 else f"Slices of {last}",
        "Which rows each slice needs, from the inputs of the group down to its output; "
        f"{shared}. Rows below each other are shared.",
        [("rectangles", make_slice_rows(layers, group))],
        expanded=False,
    )


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
