"""A shape on several cores: every output is computed once, and is that of one core."""

import json
from pathlib import Path

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler.bind import ShapeRange, bind_cores, compile_range
from tpulite.golden.check import check
from tpulite.models import CNN_DIGITS
from tpulite.program import Program
from tpulite.runtime.session import Session
from tpulite_testing.drawn.range_cases import KINDS, draw_case, draw_inputs
from tpulite_testing.drawn.range_networks import Builder
from tpulite_testing.graphs.range_layers import affine

pytest_plugins = ("tpulite_testing.command_line",)

SMALL = Config(array_size=4, ub_rows=1024)


def joined(parts, inputs, whole: np.ndarray) -> np.ndarray:
    """Run all parts, each on a machine of its own; every output must be computed once."""
    found, times = np.zeros_like(whole), np.zeros(whole.shape, int)
    for part in parts:
        assert check(part.program) == []
        own = {
            name: x[part.inputs] if len(x) == len(whole) else x[..., part.inputs[3]]
            for name, x in inputs.items()
        }
        found[part.outputs] = Session(part.program).run(own).output
        times[part.outputs] += 1
    assert (times == 1).all()
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_cores_together_give_what_one_gives(kind):
    rng = np.random.default_rng(KINDS.index(kind))
    for cores in (2, 5):
        case = draw_case(rng, kind)
        while case.features < 5 or max(case.smallest) > 6 or case.channels > 20:
            case = draw_case(rng, kind)
        height, width = (max(least, 6) for least in case.smallest)
        program = compile_range(case.graph(height, width), case.range(3, height, width), SMALL)
        shape = program.shape(height, width, batch=3)
        alone = program.bind(height, width, batch=3)
        inputs = draw_inputs(rng, alone)
        whole = Session(alone).run(inputs).output
        parts = bind_cores(program, shape, cores)
        assert 1 < len(parts) <= cores
        np.testing.assert_array_equal(joined(parts, inputs, whole), whole)


def test_a_network_of_several_layers_is_split_by_images():
    rng = np.random.default_rng(3)
    net = Builder(rng, (8, 8, 5))
    graph = net.graph(net.conv(net.conv("x", 9, 3), 6, 3, 2))
    program = compile_range(graph, ShapeRange((1, 5), (8, 9), (8, 9)), SMALL)
    alone = program.bind(8, 8, batch=5)
    inputs = draw_inputs(rng, alone)
    whole = Session(alone).run(inputs).output
    for cores, sizes in ((1, [5]), (2, [2, 3]), (4, [1, 1, 1, 2]), (9, [1] * 5)):
        parts = bind_cores(program, program.shape(8, 8, batch=5), cores)
        assert [len(part.images) for part in parts] == sizes
        np.testing.assert_array_equal(joined(parts, inputs, whole), whole)


@pytest.mark.parametrize("cores", [2, 8])
@pytest.mark.parametrize("channels", [1, 16, 40, 128])
@pytest.mark.parametrize("batch", [1, 3])
def test_parts_are_balanced_and_none_is_empty(batch, channels, cores):
    program = compile_range(affine(128), ShapeRange((1, 3), (8, 8), (6, 6), (1, 128)), Config())
    shape = program.shape(8, 6, batch=batch, channels=channels)
    parts = bind_cores(program, shape, cores)
    blocks = {-(-len(part.channels) // 16) for part in parts}
    images = {len(part.images) for part in parts}
    assert min(blocks) >= 1
    assert min(images) >= 1
    assert max(blocks) - min(blocks) <= 1
    assert max(images) - min(images) <= 1
    if batch * -(-channels // 16) >= cores:
        assert len(parts) > cores // 2
    else:
        assert len(parts) == batch * -(-channels // 16)


def test_an_empty_shape_is_work_for_one_core():
    program = compile_range(affine(40), ShapeRange((0, 1), (0, 9), (0, 9)), Config())
    (part,) = bind_cores(program, program.shape(0, 9), 4)
    assert len(part.program.commands) == 1


def test_bind_writes_a_program_for_each_core(tpulite):
    words = (CNN_DIGITS, "--cores", "2", "3x8x8", "--json", "cores.json")
    code, out, err = tpulite("bind", *words)
    assert (code, err) == (0, "")
    assert out.startswith("2 cores: ")
    (record,) = json.loads(Path("cores.json").read_text())
    assert [each["images"] for each in record["cores"]] == [[0, 1], [1, 3]]
    for each in record["cores"]:
        first, stop = each["images"]
        (spec,) = Program.load(each["program"]).inputs
        assert spec.shape[-4:] in {(stop - first, 8, 8, 1), (8, 8, 1)}
    assert record["cycles"] == max(each["cycles"] for each in record["cores"])
    assert record["cycles"] < record["cycles_of_one_core"]


def test_bind_says_where_cores_have_no_work(tpulite):
    code, _, err = tpulite("bind", CNN_DIGITS, "--cores", "4", "1x8x8")
    assert code == 0
    assert err == "tpulite: note: 1x8x8 uses 1 of 4 cores: it has no more images to split\n"
    code, out, err = tpulite("bind", CNN_DIGITS, "--cores", "0", "1x8x8")
    assert (code, out) == (2, "")
