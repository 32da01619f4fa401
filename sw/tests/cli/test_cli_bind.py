import json
import math

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.cli.bind import padding_notes
from tpulite.compiler.bind import ShapeRange, compile_range
from tpulite.golden.check import check
from tpulite.golden.timing import predict_cycles
from tpulite.models import CNN_DIGITS
from tpulite.program import Program
from tpulite.runtime.model import Model
from tpulite.runtime.session import Session
from tpulite_testing.drawn.range_networks import Builder

pytest_plugins = ("tpulite_testing.command_line",)


def test_a_file_is_bound_to_shapes_of_a_range(tpulite):
    words = ("--shapes", "batch=1..4,height=16", "1x16x16", "3x16x16")
    code, out, err = tpulite("bind", CNN_DIGITS, *words)
    assert (code, err) == (0, "")
    lines = [line for line in out.splitlines() if ".tpu" in line]
    assert [line.split(":")[0] for line in lines] == [
        "cnn_digits_1x16x16.tpu",
        "cnn_digits_3x16x16.tpu",
    ]
    bound = Program.load("cnn_digits_3x16x16.tpu")
    assert check(bound) == []
    (spec,) = bound.inputs
    x = np.random.default_rng(1).integers(0, 256, spec.shape).astype(np.uint8).view(spec.dtype)
    due = Model.load(CNN_DIGITS).reference({spec.name: x})
    ((name, got),) = Session(bound).run(x).outputs.items()
    np.testing.assert_array_equal(got.reshape(due[name].shape), due[name])


def test_a_table_tells_strategies_tiles_buffers_and_cycles_of_a_shape(tpulite, tmp_path):
    code, out, err = tpulite("bind", CNN_DIGITS, "2x16x16", "--json", "facts.json")
    assert (code, err) == (0, "")
    (record,) = json.loads((tmp_path / "facts.json").read_text())
    assert record["inputs"][0]["shape"] == [2, 16, 16, 1]
    bound = Program.load(record["program"])
    assert record["cycles"] == predict_cycles(bound.commands, bound.config)
    assert [layer["name"] for layer in record["layers"]] == [x.name for x in bound.layers]
    for layer in record["layers"]:
        assert layer["tiles"] == math.prod(cut["parts"] for cut in layer["cuts"])
        assert layer["strategy"].split("/")[0] in out
        for buffers in layer["buffers"]:
            assert ", ".join(map(str, buffers["begins"])) in out
    closed, counted = record["closed_form_cycles"], record["cycles"]
    assert f"{closed:,}" in out
    assert f"{counted:,}" in out
    code, out, _ = tpulite("bind", CNN_DIGITS, "2x16x16", "--json", "-")
    assert json.loads(out)[0]["layers"] == record["layers"]


def test_explain_shows_which_strategy_is_where_and_writes_no_program(tpulite, tmp_path):
    words = ("--explain", "--shapes", "height=8..12,width=8..12", "1x9x9", "--svg", "map.svg")
    code, out, err = tpulite("bind", CNN_DIGITS, *words, "--json", "map.json")
    assert (code, err) == (0, "")
    assert {path.name for path in tmp_path.glob("*.*")} == {"map.svg", "map.json"}
    (record,) = json.loads((tmp_path / "map.json").read_text())
    assert out.startswith(f"layer {record['layer']}, batch 1, channels 1\n")
    assert "1  1x9x9x1" in out
    assert len(record["choices"]) == len(record["rows"]) == 5
    (point,) = record["points"]
    assert point["strategy"] in [x["strategy"] for x in point["candidates"] if x["feasible"]]
    for words, message in (
        ((), "NxHxW[xC]... is missing: give the shapes to bind"),
        (
            ("--explain", "--shapes", "batch=1"),
            "a single shape is not a grid: give a range, like --shapes height",
        ),
        (("1x8x8", "--layer", "add_3"), "--layer needs --explain."),
        (("--explain", "--shapes", "width=8..9", "--layer", "none"), "none: no such layer of"),
    ):
        code, out, err = tpulite("bind", CNN_DIGITS, *words)
        assert (code, out) == (2, "")
        assert message in err


def test_a_grid_that_nobody_named_goes_from_the_shapes_of_the_file_on(tpulite):
    for network, words, limits in (
        (CNN_DIGITS, (), "height=16..32,width=16..32"),
        (CNN_DIGITS, ("1x15x33",), "height=15..32,width=16..33"),
        ("mlp_digits", (), "batch=1..16"),
    ):
        code, out, err = tpulite("bind", network, "--explain", *words)
        assert code == 0
        assert (
            err == f"tpulite: note: the grid is --shapes {limits}; give --shapes for another one\n"
        )
        assert out.startswith("layer ")


def test_a_folder_is_made_when_there_are_programs_for_it(tpulite, tmp_path):
    assert tpulite("bind", CNN_DIGITS, "1x8x8", "1x1x1", "-o", "new")[0] == 2
    assert not (tmp_path / "new").exists()
    for options in ((), ("--cores", "2")):
        folder = tmp_path / f"new{len(options)}"
        assert tpulite("bind", CNN_DIGITS, "2x8x8", "-o", folder, *options)[0] == 0
        assert len([*folder.iterdir()]) == max(1, len(options))


def test_bound_programs_run_and_are_profiled_like_networks(tpulite, tmp_path):
    x = np.random.default_rng(1).integers(-128, 128, (4, 16, 16, 1), np.int8)
    np.save("x.npy", x)
    assert tpulite("bind", CNN_DIGITS, "2x16x16", "--json", "bind.json")[0] == 0
    (record,) = json.loads((tmp_path / "bind.json").read_text())
    name = record["program"]
    code, out, err = tpulite("run", name, "--input", "x.npy", "--output", "y.npy", "--mhz", 100)
    assert (code, err) == (0, "")
    due = Model.load(CNN_DIGITS).reference(x)["dense"]
    np.testing.assert_array_equal(np.load("y.npy").reshape(due.shape), due)
    assert f"cycle model: {record['cycles']:,} cycles per batch of 2; at 100 MHz" in out
    assert [line for line in out.splitlines() if line.startswith("x.npy")] == [
        "x.npy[0]",
        "x.npy[1]",
    ]
    words = ("--trace", "t.pftrace", "--json", "profile.json", "--html", "page.html")
    code, out, err = tpulite("profile", name, *words)
    assert (code, err) == (0, "")
    profile = json.loads((tmp_path / "profile.json").read_text())
    layers = [(each["name"], each["cycles"]) for each in profile["layers"][1:-1]]
    assert layers == [(each["name"], each["cycles"]) for each in record["layers"]]
    assert (profile["cycles"], profile["batch"]) == (record["cycles"], 2)
    assert b"conv_2d_0" in (tmp_path / "t.pftrace").read_bytes()
    assert "conv_2d_0" in (tmp_path / "page.html").read_text()
    code, out, _ = tpulite("disasm", name)
    assert (code, len(out.splitlines())) == (0, record["commands"])
    assert "input image: int8 [2, 16, 16, 1]" in tpulite("info", name)[1]


def test_shapes_that_are_none(tpulite):
    for words, message in (
        *(
            (
                (text,),
                f"'{text}' is not a shape: it must be BATCHxHEIGHTxWIDTH, like 1x96x96, or that "
                "and xCHANNELS",
            )
            for text in ("8x8", "1x8x8x1x1", "1x-8x8", "1x8x8xC")
        ),
        *(
            (
                ("--shapes", text, "1x8x8"),
                f"'{text}' is not a range of batch, height, width, channels: it must be like "
                "height=96..224",
            )
            for text in ("depth=3..4", "height=3..", "height=..4", "height=-1..4", "height")
        ),
        (
            ("--shapes", "height=9..8", "1x8x8"),
            "Range of height must be two numbers in order from 0 on, not (9, 8)",
        ),
        (
            ("--shapes", "channels=1..16", "1x8x8"),
            "has 1 channels, not 1..16: those of several layers do not vary",
        ),
        (
            ("--shapes", "height=12..16", "1x17x16"),
            "height must be in 12..16, for which the program is compiled, not 17",
        ),
    ):
        code, out, err = tpulite("bind", CNN_DIGITS, *words)
        assert (code, out) == (2, "")
        assert err.startswith("tpulite: ")
        assert err.endswith(f"{message}\n")


@pytest.mark.parametrize("cores", [1, 2])
def test_no_program_is_written_if_a_later_shape_cannot_be_bound(tpulite, tmp_path, cores):
    words = ("--shapes", "height=12..16", "2x12x12", "2x17x12", "--cores", cores)
    code, out, err = tpulite("bind", CNN_DIGITS, *words)
    assert (code, out) == (2, "")
    assert err.endswith("height must be in 12..16, for which the program is compiled, not 17\n")
    assert list(tmp_path.iterdir()) == []


def test_a_note_says_where_same_padding_would_differ():
    net = Builder(np.random.default_rng(1), (24, 24, 16))
    graph = net.graph(net.conv(net.conv("x", 16, 3), 16, 3, 2, padding=(0, 1, 1, 1)))
    program = compile_range(graph, ShapeRange((1, 1), (9, 26), (9, 26)), Config())
    assert list(padding_notes(program, 26, 9)) == []
    assert list(padding_notes(program, 25, 24)) == [
        "Layer 'layer1' pads its height by (0, 1), as in the file; if that is SAME padding for 24, "
        "SAME for 25 is (1, 1)"
    ]
