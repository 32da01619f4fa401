"""Pages for the browser, read again: what they hold is what the profile says."""

import re
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Engine
from tpulite.arch.memory import Window
from tpulite.compiler.geometry.slices import plan_steps
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.schedule.live_tensors import Grouped, live_sections
from tpulite.graph.graph import Tensor
from tpulite.models import CNN_DIGITS
from tpulite.report.answers import answer
from tpulite.report.buffer_map import map_buffer
from tpulite.report.html import Answered, Report, write_page
from tpulite.report.html.layers import make_roofline
from tpulite.report.html.page import make_timeline
from tpulite.report.network_graph import Box, NetworkGraph
from tpulite.report.operator_details import describe_operators
from tpulite.report.profile import LayerProfile, Profile, profile_model
from tpulite.report.speed import Speed
from tpulite.report.traffic import Traffic, dram_traffic
from tpulite.runtime.model import Model
from tpulite_testing.page_reader import ReadPage

NOTHING = Traffic(dict.fromkeys(Window, 0), dict.fromkeys(Window, 0), 0)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.load(CNN_DIGITS)


@pytest.fixture(scope="module")
def profile(model: Model) -> Profile:
    return profile_model(model)


@pytest.fixture(scope="module")
def report(model: Model, profile: Profile) -> Report:
    graph = model.plan.placed.graph
    return Report(
        "profile",
        profile,
        Speed(profile.cycles, 1, 100),
        NetworkGraph.of(model.plan.placed),
        describe_operators(graph),
        "litert-ref",
        {"compiler": "grouping<&>"},
    )


def read(report: Report, folder: Path) -> ReadPage:
    write_page(folder / "report.html", report)
    return ReadPage.of(folder / "report.html")


@pytest.fixture(scope="module")
def page(report: Report, tmp_path_factory: pytest.TempPathFactory) -> ReadPage:
    return read(report, tmp_path_factory.mktemp("page"))


def test_a_page_loads_nothing(page: ReadPage, report: Report, tmp_path: Path) -> None:
    assert page.references == []
    write_page(tmp_path / "x.html", report)
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\((?!#)", text)
    assert "default-src 'none'" in text


def test_a_page_is_small(report: Report, tmp_path: Path) -> None:
    write_page(tmp_path / "x.html", report)
    assert (tmp_path / "x.html").stat().st_size < 100_000


def test_names_cannot_end_the_data_and_numbers_need_not_be_finite(
    report: Report, tmp_path: Path
) -> None:
    name = "</script><!--<script>'\"&"
    tensor = Tensor(name, (1, 2), "float32")
    shown = Answered(name, {}, [answer(tensor, np.array([[np.nan, -np.inf]]))])
    facts = {name: name}
    page = read(replace(report, answers=[shown], facts=facts), tmp_path)
    ((found,),) = page.all("answers")
    assert found["name"] == found["outputs"][0]["name"] == name
    assert [x["value"] for x in found["outputs"][0]["top"]] == ["-inf", "nan"]
    assert f"{name}{name}" in page.text and page.one("timeline")


def test_the_head_says_what_was_run(profile: Profile, page: ReadPage) -> None:
    for text in (
        *(profile.network, f"{profile.cycles:,} cycles", "at 100 MHz", "cycle model"),
        *("numerics: litert-ref", "16x16 array, 256 KiB buffer", "grouping<&>"),
    ):
        assert text in page.text
    assert page.mhz == 100


def test_the_head_has_the_time_on_the_cpu_only_as_it_is_given(
    report: Report, tmp_path: Path
) -> None:
    slow = Speed(100_000, 1, 100, cpu_share=0.4)
    page = read(replace(report, speed=slow), tmp_path)
    assert "1 ms on the accelerator at 100 MHz" in page.text
    assert "inferences/s" not in page.text.partition("Details")[0]
    page = read(replace(report, speed=replace(slow, cpu_ms=1.5)), tmp_path)
    assert "1.5 ms on the CPU" in page.text and "400 inferences/s" in page.text


def test_rows_have_the_cycles_of_layers_by_cause(profile: Profile, page: ReadPage) -> None:
    layers = [layer for layer in profile.layers if layer.where == "machine"]
    rows = page.column("runs on"), page.column("layer"), page.column("spent on")
    machine = [(name, spent) for where, name, spent in zip(*rows, strict=True) if where != "CPU"]
    assert machine == [
        (layer.name, [[str(cause), cycles] for cause, cycles in layer.spent.items()])
        for layer in layers
    ]


def test_the_table_holds_what_the_profile_says(profile: Profile, page: ReadPage) -> None:
    records = [layer.as_dict() for layer in profile.layers]
    assert page.column("layer") == [record["name"] for record in records]
    columns = {"cycles": "cycles", "MACs": "macs", "DRAM read": "dram_read_bytes"}
    for title, name in columns.items():
        assert page.column(title) == [record[name] or None for record in records]
    assert set(page.column("runs on")) == {"", "MXU", "VPU"}


def test_the_drawn_network_has_all_operators_and_their_cycles(
    model: Model, profile: Profile, page: ReadPage
) -> None:
    boxes, operators = page.one("network")["boxes"], model.summary()
    assert [box["operator"] for box in boxes] == [
        *("input", *(x.operator for x in operators), "output")
    ]
    cycles = {layer.name: layer.cycles for layer in profile.layers}
    for operator, box in zip(operators, boxes[1:-1], strict=True):
        assert box["name"] == operator.name and box["cycles"] == cycles.get(operator.name, 0)
    assert max(box["part"] for box in boxes) == 1


def test_the_panel_has_what_the_file_says_of_an_operator(model: Model, page: ReadPage) -> None:
    for node in model.graph.nodes:
        item = page.items[node.name]
        assert item["operator"] == node.source
        assert {name for name, _ in item["attributes"]} == {
            name.replace("_", " ") for name in node.attributes
        }
        names = [x["name"] for x in item["tensors"]]
        assert names == [*dict.fromkeys(filter(None, node.inputs)), *node.outputs]
    first = model.graph.nodes[0]
    weight = model.graph.tensors[first.inputs[1]]
    assert weight.data is not None
    (found,) = (x for x in page.items[first.name]["tensors"] if x["name"] == weight.name)
    histogram = found["histogram"]
    assert sum(histogram["counts"]) == weight.data.size
    assert (histogram["low"], histogram["high"]) == (weight.data.min(), weight.data.max())
    scale = model.graph.tensors[first.outputs[0]].quantization
    assert scale is not None
    (output,) = (x for x in page.items[first.name]["tensors"] if x["role"] == "output")
    assert output["scale"] == f"{float(scale.scale[0]):.6g}"
    assert output["zero_point"] == str(scale.zero_point[0])


def test_the_panel_has_the_cost_of_a_layer(profile: Profile, page: ReadPage) -> None:
    for layer in profile.layers:
        if not layer.n:
            continue
        (found,) = (x for x in page.items[layer.name]["layers"] if x["name"] == layer.name)
        assert found["cycles"] == layer.cycles and found["macs"] == (layer.macs or None)
        moved = layer.traffic.read_bytes, layer.traffic.written_bytes
        assert (found["read"], found["written"]) == moved


def test_each_command_is_where_its_engine_executed_it(profile: Profile, page: ReadPage) -> None:
    (run,) = profile.runs
    timeline = page.one("timeline")
    for engine, trace in run.traces.items():
        (track,) = (x for x in timeline["tracks"] if x["name"] == engine.name)
        first, number, layer = (
            np.array(list(accumulate(track[x]))) for x in ("first", "number", "layer")
        )
        assert (number == trace.index).all() and (first == trace.start).all()
        assert (first + track["wait"] + track["work"] == trace.stop).all()
        for index, owner, opcode in zip(number, layer, track["opcode"], strict=True):
            (expected,) = (x for x in run.program.layers if index in (*x.commands, *x.others))
            assert timeline["layers"][owner] == expected.name
            assert timeline["opcodes"][opcode] == run.program.commands[index].opcode.name


def test_runs_of_several_programs_follow_one_another(profile: Profile) -> None:
    (run,) = profile.runs
    timeline = make_timeline(replace(profile, runs=(run, run)), {}, {})
    (track,) = (x for x in timeline["tracks"] if x["name"] == "MXU")
    first = list(accumulate(track["first"]))
    half = len(first) // 2
    assert first[half:] == [cycle + run.cycles for cycle in first[:half]]


def test_a_part_on_the_cpu_has_a_place_and_no_cycles(report: Report, tmp_path: Path) -> None:
    profile = report.profile
    *layers, end = profile.layers
    cpu = LayerProfile("SOFTMAX", "numpy", {}, 0, 0, 0, 0.0, NOTHING, ("soft",))
    network = report.network
    assert network is not None
    box = Box("soft", "SOFTMAX", "1x10 int8", "1x10", "host", "CPU, by numpy", "too few values", 7)
    mixed = replace(profile, layers=(cpu, *layers, end))
    boxes = replace(network, boxes=(*network.boxes, box))
    page = read(replace(report, profile=mixed, network=boxes), tmp_path)
    assert page.one("timeline")["cpu"] == [
        {"at": 0, "name": "SOFTMAX", "by": "numpy", "keys": ["soft"], "macs": 7}
    ]
    titles = ("layer", "runs on", "cycles", "share", "MACs")
    assert [page.column(title)[0] for title in titles] == ["soft", "CPU", "not simulated", None, 7]
    assert sum(x for x in page.column("cycles")[1:] if x) == profile.cycles
    facts = dict(page.items["soft"]["facts"])
    assert facts["runs"] == "on the CPU, by numpy" and facts["because"] == "too few values"


@pytest.mark.parametrize(("engine", "word"), [(Engine.LOAD, "read"), (Engine.STORE, "written")])
def test_bandwidth_sums_to_the_bytes_moved(
    profile: Profile, page: ReadPage, engine: Engine, word: str
) -> None:
    traffic = dram_traffic(profile.runs[0].program)
    moved = traffic.loads if engine == Engine.LOAD else traffic.stores
    data = page.one("bandwidth")
    (line,) = (x for x in data["lines"] if x["name"] == word)
    cycles = np.append(list(accumulate(line["cycle"])), data["end"])
    # Rates have three decimals.
    assert np.diff(cycles) @ line["rate"] == pytest.approx(sum(moved.values()), rel=1e-3)


def test_the_roofline_has_every_layer_that_multiplies(profile: Profile, page: ReadPage) -> None:
    points = {point["name"]: point for point in page.one("scatter")["points"]}
    layers = {layer.name: layer for layer in profile.layers if layer.macs}
    assert points.keys() == layers.keys()
    peak = profile.config.array_size**2
    for name, point in points.items():
        layer = layers[name]
        moved = max(layer.traffic.read_bytes, layer.traffic.written_bytes)
        assert point["x"] * moved == pytest.approx(layer.macs)
        assert point["y"] == pytest.approx(layer.utilization * peak)


def test_live_ranges_and_slices_are_those_of_the_compilation(
    report: Report, model: Model, tmp_path: Path
) -> None:
    config = Config(ub_rows=512)
    options = Options(groups="document", allocator="longest", effort=0, batch=2)
    made: dict = {}
    compile_layers(model.layers[0], config, options, dump=made.__setitem__)
    layers, groups = made["mark-views"], made["choose-tiles"]
    sections = live_sections(layers, groups, made["schedule"], made["allocate"])
    shown = replace(report.profile, config=config)
    page = read(replace(report, profile=shown, grouped=[Grouped(layers, sections)]), tmp_path)
    _, ranges, *slices = page.all("rectangles")

    buffers = {x for section in sections for x in section.buffers}
    drawn = sorted(tuple(rect[:4]) for rect in ranges["rects"])
    assert drawn == sorted((x.row, x.row + x.rows, *x.time) for x in buffers)
    spans = " ".join(kind["tip"] for kind in ranges["kinds"] if kind["color"] == "activation")
    assert {"input 0", "input 1"} == set(re.findall(r"input \d+", spans))
    cut = [group for group in groups if group.slices > 1]
    most = max(len(plan_steps(layers, group)) for group in cut)
    assert {f"slice {i}" for i in range(most)} == set(re.findall(r"slice \d+", spans))
    for group, data in zip(cut, slices, strict=True):
        found = {
            (data["kinds"][kind]["label"], left, right)
            for left, right, _, _, kind in data["rects"]
            if not data["kinds"][kind]["light"]
        }
        assert found == {
            (f"{name}, slice {number}", rows.new.start, rows.new.stop)
            for number, step in enumerate(plan_steps(layers, group))
            for name, rows in step.items()
        }


def test_a_network_on_the_cpu_alone_has_a_table(report: Report, tmp_path: Path) -> None:
    assert report.network is not None
    names = tuple(box.name for box in report.network.operators)
    boxes = tuple(replace(x, where="host") if x.by else x for x in report.network.boxes)
    part = LayerProfile("all", "numpy", {}, 0, 0, 0, 0.0, NOTHING, names)
    alone = replace(report.profile, layers=(part,), runs=())
    network = replace(report.network, boxes=boxes)
    page = read(replace(report, profile=alone, speed=Speed(0), network=network), tmp_path)
    assert page.column("layer") == list(names) and not page.all("timeline")
    assert f"{len(names)} of {len(names)}" in page.text


@pytest.mark.parametrize(("size", "bytes_a_cycle"), [(8, 8), (16, 16), (32, 16)])
def test_roofs_are_those_of_the_machine(profile: Profile, size: int, bytes_a_cycle: int) -> None:
    (line,) = make_roofline(replace(profile, config=Config(array_size=size)))["lines"]
    (low, first), (ridge, peak), (_, last) = line["points"]
    assert first / low == bytes_a_cycle
    assert peak == last == size**2 and ridge == size**2 / bytes_a_cycle


def test_the_map_of_the_buffer_names_what_is_mapped(profile: Profile, page: ReadPage) -> None:
    (run,) = profile.runs
    (data,) = page.all("rectangles")
    found = [
        (start, stop, row, end, data["kinds"][kind]["label"])
        for start, stop, row, end, kind in data["rects"]
    ]
    assert found == [
        (x.start, x.stop, x.row, x.end, f"{run.program.layers[x.layer].name}: {x.kind}")
        for x in map_buffer(run)
    ]
