"""Pages for the browser, read again with Bokeh: what they hold is what the profile says."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from bokeh.document import Document
from bokeh.models import ColumnDataSource, Div

from tpulite.arch.config import Config
from tpulite.arch.isa import Engine
from tpulite.arch.memory import Window
from tpulite.compiler.geometry.slices import plan_steps
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.schedule.live_tensors import Grouped, live_sections
from tpulite.models import CNN_DIGITS
from tpulite.report.buffer_map import map_buffer
from tpulite.report.html import write_page
from tpulite.report.html.roofline import make_roofline
from tpulite.report.html.style import WHERE
from tpulite.report.html.timeline import make_timeline
from tpulite.report.network_graph import NetworkGraph
from tpulite.report.profile import LayerProfile, Profile, profile_model
from tpulite.report.speed import Speed
from tpulite.report.spending import Cause
from tpulite.report.traffic import Traffic, dram_traffic
from tpulite.runtime.model import Model


class Elements(HTMLParser):
    """What a page refers to, and the JSON in it."""

    def __init__(self) -> None:
        super().__init__()
        self.references: list[str] = []
        self.records: list[str] = []
        self._json = False

    def handle_starttag(self, tag: str, attrs: list) -> None:
        values = dict(attrs)
        self.references += [values[name] for name in ("src", "href") if name in values]
        self._json = tag == "script" and values.get("type") == "application/json"

    def handle_endtag(self, tag: str) -> None:
        self._json = False

    def handle_data(self, data: str) -> None:
        if self._json:
            self.records.append(data)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.load(CNN_DIGITS)


@pytest.fixture(scope="module")
def profile(model: Model) -> Profile:
    return profile_model(model)


@pytest.fixture(scope="module")
def network(model: Model) -> NetworkGraph:
    return NetworkGraph.of(model.plan.placed)


@pytest.fixture(scope="module")
def elements(
    profile: Profile, network: NetworkGraph, tmp_path_factory: pytest.TempPathFactory
) -> Elements:
    path: Path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(path, profile, Speed(profile.cycles, 1, 100), network, {"compiler": "grouping<&>"})
    found = Elements()
    found.feed(path.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def document(elements: Elements) -> Document:
    (record,) = elements.records
    (each,) = json.loads(unescape(record)).values()
    return Document.from_json(each)


def columns(document: Document, name: str) -> dict:
    (found,) = document.select({"type": ColumnDataSource, "name": name})
    return dict(found.data)


def test_a_page_loads_nothing(elements: Elements) -> None:
    assert elements.references == [] and len(elements.records) == 1
    assert not re.search(r"https?://|@import", elements.records[0])


def test_the_head_says_what_was_run(profile: Profile, document: Document) -> None:
    (div,) = document.select({"type": Div, "name": "head"})
    head = div.text
    for text in (profile.network, f"{profile.cycles:,} cycles", "at 100 MHz", "cycle model"):
        assert text in head
    assert "grouping&lt;&amp;&gt;" in head


def test_bars_sum_to_the_cycles(profile: Profile, document: Document) -> None:
    bars = columns(document, "layers")
    layers = [layer for layer in profile.layers if layer.where == "machine"]
    assert bars["name"] == [layer.name for layer in layers]
    for cause in Cause:
        assert list(bars.get(cause.name, [0] * len(layers))) == [
            layer.spent.get(cause, 0) for layer in layers
        ]


def test_the_drawn_network_has_all_operators_and_their_cycles(
    model: Model, profile: Profile, document: Document
) -> None:
    drawn, operators = columns(document, "graph"), model.summary()
    assert drawn["operator"] == ["input", *(x.operator for x in operators), "output"]
    colors = {"MXU": WHERE["MXU"], "VPU": WHERE["VPU"], "host": WHERE["host"]}
    cycles = {layer.name: layer.cycles for layer in profile.layers}
    for operator, color, tip, line in zip(
        operators, *(drawn[x][1:-1] for x in ("color", "tip", "line")), strict=True
    ):
        assert colors.get(operator.where, color) == color
        assert operator.name in tip and operator.reason in tip
        assert line == (f"{cycles[operator.name]:,} cycles" if cycles.get(operator.name) else line)
    assert max(drawn["share"]) == 1


def test_each_command_is_where_its_engine_executed_it(profile: Profile, document: Document) -> None:
    commands = columns(document, "commands")
    (run,) = profile.runs
    program = run.program
    for engine, trace in run.traces.items():
        mine = commands["row"] == engine
        assert (commands["number"][mine] == trace.index).all()
        assert (commands["first"][mine] == trace.start).all()
        assert (commands["stop"][mine] == trace.stop).all()
    for number, layer, opcode in zip(
        *(commands[name] for name in ("number", "layer", "opcode")), strict=True
    ):
        (owner,) = (x for x in program.layers if number in (*x.commands, *x.others))
        assert (layer, opcode) == (owner.name, program.commands[number].opcode.name)


def test_runs_of_several_programs_follow_one_another(profile: Profile, tmp_path: Path) -> None:
    (run,) = profile.runs
    plot = make_timeline([run, run])
    data = plot.renderers[-1].data_source.data
    half = len(data["stop"]) // 2
    assert (data["start"][half:] == data["start"][:half] + run.cycles).all()


@pytest.mark.parametrize(("engine", "word"), [(Engine.LOAD, "read"), (Engine.STORE, "written")])
def test_bandwidth_sums_to_the_bytes_moved(
    profile: Profile, document: Document, engine: Engine, word: str
) -> None:
    traffic = dram_traffic(profile.runs[0].program)
    moved = traffic.loads if engine == Engine.LOAD else traffic.stores
    for name in (word, f"{word} exactly"):
        data = columns(document, name)
        bytes_ = np.diff(data["cycle"]) @ data["rate"][:-1]
        assert bytes_ == pytest.approx(sum(moved.values()))


def test_roofline_and_table_hold_what_the_profile_says(
    profile: Profile, document: Document
) -> None:
    points, rows = columns(document, "roofline"), columns(document, "table")
    names = ("name", "intensity", "rate")
    found = {name: rest for name, *rest in zip(*(points[x] for x in names), strict=True)}
    layers = {layer.name: layer for layer in profile.layers if layer.macs}
    assert found.keys() == layers.keys()
    peak = profile.config.array_size**2
    for name, (intensity, rate) in found.items():
        layer = layers[name]
        moved = max(layer.traffic.read_bytes, layer.traffic.written_bytes)
        assert intensity * moved == pytest.approx(layer.macs)
        assert rate == pytest.approx(layer.utilization * peak)
    records = [layer.as_dict() for layer in profile.layers]
    assert rows["name"] == [record["name"] for record in records]
    for column, name in (("cycles", "cycles"), ("macs", "macs"), ("read", "dram_read_bytes")):
        assert rows[column] == [record[name] or None for record in records]
    assert set(rows["where"]) == {"", "MXU", "VPU"}


def test_live_ranges_and_slices_are_those_of_the_compilation(
    profile: Profile, network: NetworkGraph, model: Model, tmp_path: Path
) -> None:
    config = Config(ub_rows=512)
    options = Options(groups="document", allocator="longest", effort=0, batch=2)
    made: dict = {}
    compile_layers(model.layers[0], config, options, dump=made.__setitem__)
    layers, groups = made["layers"], made["group"]
    sections = live_sections(layers, groups, made["schedule"], made["allocate"])
    shown = replace(profile, config=config)
    write_page(tmp_path / "page", shown, Speed(0), network, {}, [Grouped(layers, sections)])
    elements = Elements()
    elements.feed((tmp_path / "page").read_text(encoding="utf-8"))
    (record,) = elements.records
    (each,) = json.loads(unescape(record)).values()
    document = Document.from_json(each)

    buffers = {x for section in sections for x in section.buffers}
    for kind in ("activation", "weight", "buffer"):
        drawn = columns(document, f"live {kind}")
        found = zip(*(drawn[x] for x in ("left", "rows", "top", "bottom")), strict=True)
        expected = [(x.row, x.rows, *x.time) for x in buffers if x.kind == kind]
        assert sorted(found) == sorted(expected)

    spans = " ".join(columns(document, "live activation")["live"])
    assert {"image 0", "image 1"} == set(re.findall(r"image \d+", spans))
    cut = [group for group in groups if group.slices > 1]
    slices = max(len(plan_steps(layers, group)) for group in cut)
    assert {f"slice {i}" for i in range(slices)} == set(re.findall(r"slice \d+", spans))
    for group in cut:
        drawn = columns(document, f"rows of {layers.layers[group.layers[-1]].name}")
        found = {
            (name, number, left, right)
            for name, number, left, right, what in zip(
                *(drawn[x] for x in ("name", "slice", "left", "right", "what")), strict=True
            )
            if what != "kept"
        }
        assert found == {
            (name, number, rows.new.start, rows.new.stop)
            for number, step in enumerate(plan_steps(layers, group))
            for name, rows in step.items()
        }


def test_a_network_of_the_host_alone_has_a_table(
    profile: Profile, network: NetworkGraph, tmp_path: Path
) -> None:
    nothing = Traffic(dict.fromkeys(Window, 0), dict.fromkeys(Window, 0), 0)
    host = LayerProfile("SOFTMAX", "numpy", {}, 0, 0, 0, 0.0, nothing)
    alone = replace(profile, layers=(host,), runs=())
    write_page(tmp_path / "page", alone, Speed(0), network, {})
    assert "host: numpy" in (tmp_path / "page").read_text(encoding="utf-8")


@pytest.mark.parametrize(("size", "bytes_a_cycle"), [(8, 8), (16, 16), (32, 16)])
def test_roofs_are_those_of_the_machine(profile: Profile, size: int, bytes_a_cycle: int) -> None:
    plot = make_roofline(replace(profile, config=Config(array_size=size)))
    (data,) = [x.data_source.data for x in plot.renderers if x.data_source.name == "roofs"]
    assert data["y"][0] / data["x"][0] == bytes_a_cycle
    assert list(data["y"][1:]) == [size**2, size**2] and data["x"][1] == size**2 / bytes_a_cycle


def test_the_map_of_the_buffer_names_what_is_mapped(profile: Profile, document: Document) -> None:
    (run,) = profile.runs
    data, blocks = columns(document, "buffer"), map_buffer(run)
    for name in ("row", "end", "start", "stop"):
        assert data[name].tolist() == [getattr(block, name) for block in blocks]
    names = [f"{run.program.layers[x.layer].name}: {x.kind}" for x in blocks]
    assert data["name"] == names


def test_bokeh_is_imported_only_for_a_page() -> None:
    script = "import sys, tpulite.cli.profile; print('bokeh' in sys.modules)"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
