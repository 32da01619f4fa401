"""Picked rows, columns and channels: parts cost nothing, the rest about a cycle a vector."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Engine
from tpulite.compiler.geometry.progressions import progressions
from tpulite.golden.layers import run_layers
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Activation, Conv, Layer, LayerGraph, Pick
from tpulite.graph.requantization import IDENTITY
from tpulite.program import Program
from tpulite.runtime.session import Session
from tpulite_testing.kept import kept_program

SHAPE = (8, 10, 64)


def pick(name, source, *, shape=SHAPE, rows=None, columns=None, channels=None):
    axes = zip((rows, columns, channels), shape, strict=True)
    y, x, c = (tuple(range(n) if axis is None else axis) for axis, n in axes)
    return Pick(name=name, inputs=(source,), output=name, rows=y, columns=x, channels=c)


def conv(name, source, inputs, outputs):
    weight = np.random.default_rng(5).integers(-1, 2, (3, 3, inputs, outputs)).astype(np.int8)
    ends = {"name": name, "inputs": (source,), "output": name}
    return Conv(**ends, weight=weight, requantization=IDENTITY, padding=(1, 1, 1, 1))


def compiled(layers: list[Layer], outputs: str, shape=SHAPE) -> Program:
    """Compile, and compare a run with the golden layers."""
    images = {"x": Activation(shape)}
    for layer in layers:
        images[layer.output] = layer._infer(*(images[name] for name in layer.inputs))
    graph = LayerGraph("net", tuple(layers), images, ("x",), tuple(outputs.split()))
    program = kept_program(graph, Config())
    x = np.random.default_rng(7).integers(-128, 128, shape).astype(np.int8)
    expected, found = run_layers(graph, {"x": x}), Session(program).run({"x": x})
    for name in graph.outputs:
        np.testing.assert_array_equal(found.outputs[name], expected[name])
    return program


def test_one_pixel_becomes_many_in_about_a_cycle_a_vector():
    layer = pick("y", "x", shape=(1, 1, 64), rows=(0,) * 20, columns=(0,) * 30)
    program = compiled([layer], "y", (1, 1, 64))
    assert predict_cycles(program.commands, Config()) < 1.2 * 20 * 30 * 4


def engines(program: Program) -> set[Engine | None]:
    return {command.engine for command in program.commands}


@pytest.mark.parametrize(
    "parts",
    [
        [{"channels": range(16)}, {"channels": range(16, 64)}],
        [{"rows": range(3)}, {"rows": range(3, 8)}],
        [{"columns": range(1, 5)}, {"columns": range(5, 9), "channels": range(32, 48)}],
    ],
)
def test_parts_that_convolutions_read_cost_nothing(parts):
    layers: list[Layer] = [conv("a", "x", 64, 64)]
    for number, part in enumerate(parts):
        some = pick(f"p{number}", "a", **part)
        layers += [some, conv(f"y{number}", some.output, len(some.channels), 16)]
    program = compiled(layers, "y0 y1")
    assert Engine.VPU not in engines(program)


def test_rows_of_results_are_moved_by_dma_alone():
    assert engines(compiled([pick("y", "x", rows=range(7, 1, -1))], "y")) == {
        Engine.LOAD, Engine.STORE, None,
    }  # fmt: skip


@pytest.mark.parametrize("shape", [(28, 28, 32), (56, 56, 16), (64, 64, 16)])
def test_twice_as_large_takes_little_more_than_its_vectors(shape):
    twice = [tuple(i // 2 for i in range(2 * n)) for n in shape[:2]]
    program = compiled([pick("y", "x", shape=shape, rows=twice[0], columns=twice[1])], "y", shape)
    vectors = 4 * shape[0] * shape[1] * shape[2] // 16
    assert predict_cycles(program.commands, Config()) <= 1.2 * vectors


def test_progressions_cover_all_positions():
    rng = np.random.default_rng(3)
    for _ in range(200):
        count = int(rng.integers(1, 30))
        indices = rng.integers(0, 9, count) if rng.random() < 0.5 else np.arange(count) * 9 // count
        found = {}
        for run in progressions(indices.tolist()):
            for i in range(run.length):
                assert run.start + i * run.step not in found
                found[run.start + i * run.step] = run.first + i * run.stride
        assert [found[i] for i in range(count)] == indices.tolist()


def test_integers_of_numpy_make_the_same_program():
    twice = [i // 2 for i in range(16)]
    ours = pick("y", "x", rows=twice, columns=twice)
    theirs = pick("y", "x", rows=np.array(twice), columns=np.array(twice))
    assert {type(row) for row in theirs.rows} == {int}
    programs = [compiled([layer], "y") for layer in (ours, theirs)]
    assert len({predict_cycles(program.commands, Config()) for program in programs}) == 1
