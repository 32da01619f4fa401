"""The program that is bound to the shape is a candidate of the compiler."""

from dataclasses import replace

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler import bound_choice
from tpulite.compiler.dump.stages import bound_text
from tpulite.compiler.encode.repeat import repeat_program
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers, compile_pair
from tpulite.compiler.stages import traffic
from tpulite.compiler.state import BoundChoice
from tpulite.compiler.translation import validate_translation
from tpulite.configs import named_config
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Activation, LayerGraph, Pool
from tpulite.program import Program
from tpulite.runtime.session import Session
from tpulite_testing.drawn.plain_graphs import GraphBuilder
from tpulite_testing.drawn.range_networks import resized
from tpulite_testing.graphs.range_layers import pool
from tpulite_testing.oracles.plain_layers import plain_conv, plain_pool

WITHOUT = Options(without=("choose-bound",))


def pools(size: tuple[int, int] = (14, 10)) -> LayerGraph:
    """Return an average of 3x3, which bound programs take on the array, and a maximum."""
    first = Pool(
        name="average",
        inputs=("x",),
        output="a",
        op="average",
        window=(3, 3),
        stride=(1, 1),
        padding=(1, 1, 1, 1),
    )
    last = replace(first, name="max", inputs=("a",), output="y", op="max")
    shapes = dict.fromkeys("xay", Activation((*size, 32)))
    return LayerGraph("pools", (first, last), shapes, ("x",), ("y",), unsigned=frozenset("xy"))


def chosen(layers: LayerGraph, config: Config, options: Options) -> tuple[Program, object]:
    stages: dict[str, object] = {}
    program = compile_layers(layers, config, options, dump=stages.__setitem__)
    return program, stages["choose-bound"]


@pytest.fixture
def eager(monkeypatch):
    """Take every bound program, whatever it costs."""
    for name in ("_OVER", "_FAR"):
        monkeypatch.setattr(bound_choice, name, np.inf)
    monkeypatch.setattr(bound_choice, "_better", lambda *_: True)


@pytest.mark.parametrize("config", [Config(), Config(array_size=4, ub_rows=2048, acc_rows=64)])
def test_a_bound_program_computes_the_network(config, eager):
    layers = pools()
    program, choice = chosen(layers, config, Options())
    assert program.bound and isinstance(choice, BoundChoice) and choice.program is not None
    assert bound_text(choice).startswith("taken: bound to the shape\ncompiled: ")
    x = np.random.default_rng(1).integers(0, 256, (14, 10, 32)).astype(np.uint8)
    a = plain_pool((x ^ 128).view(np.int8), layers.layers[0], (14, 10))
    due = plain_pool(a, layers.layers[1], (14, 10))
    results = Session(program, "golden").run({"x": x})
    np.testing.assert_array_equal(results.outputs["y"], due.view(np.uint8) ^ 128)


def test_a_bound_program_is_proved_like_any_other(eager):
    builder = GraphBuilder((5, 4, 16))
    builder.pool(builder.depthwise("x", padding=(1, 1, 1, 1)), name="y", stride=(2, 2))
    layers = builder.graph()
    program = compile_layers(layers, Config())
    assert program.bound and not validate_translation(layers, program, Options())
    wrong = replace(program, constants=bytes(len(program.constants)))
    assert validate_translation(layers, wrong, Options())


@pytest.mark.parametrize("batch", [1, 3])
def test_convolutions_and_their_batches_are_exact(batch, eager):
    builder = GraphBuilder((12, 10, 3))
    first = builder.conv("x", 24, padding=(1, 1, 1, 1), stride=(2, 2))
    builder.conv(first, 40, 1, name="y")
    layers = builder.graph()
    program = repeat_program(compile_layers(layers, Config(ub_rows=512)), batch)
    assert program.bound and program.macs == batch * sum(layers.macs().values())
    plain = compile_layers(layers, Config(ub_rows=512), replace(WITHOUT, batch=batch))
    assert [x.shape for x in program.outputs] == [x.shape for x in plain.outputs]
    x = np.random.default_rng(2).integers(-128, 128, (batch, 12, 10, 3)).astype(np.int8)
    found = Session(program, "golden").run({"x": x if batch > 1 else x[0]}).outputs["y"]
    for one, image in zip(found.reshape(batch, 6, 5, 40), x, strict=True):
        hidden = plain_conv(image, layers.layers[0], (6, 5))
        np.testing.assert_array_equal(one, plain_conv(hidden, layers.layers[1], (6, 5)))


def test_it_is_taken_where_it_is_faster_and_files_say_so(tmp_path):
    layers, config = resized(pool((3, 3), "max"), 14, 14), named_config("16x16,ub_rows=512")
    program = compile_layers(layers, config)
    other = compile_layers(layers, config, WITHOUT)
    cycles, before = (predict_cycles(x.commands, config) for x in (program, other))
    assert program.bound and not other.bound and cycles < 0.8 * before
    for each in (program, other):
        each.save(tmp_path / "program")
        assert Program.load(tmp_path / "program") == each


def test_little_traffic_comes_first_if_it_is_asked_for():
    layers, config = pools((56, 56)), Config(ub_rows=2048)
    programs = [
        compile_layers(layers, config, replace(options, optimize="memory"))
        for options in (Options(), WITHOUT)
    ]
    moved, before = (traffic(each.commands, config) for each in programs)
    assert moved <= before


@pytest.mark.parametrize(
    "options",
    [
        WITHOUT,
        Options(effort=0),
        Options(rolling=False),
        Options(allocator="longest"),
        Options(order="document"),
    ],
    ids=["left out", "no effort", "a mechanism", "an allocator", "an order"],
)
def test_it_is_no_candidate_where_something_else_was_asked_for(options, eager):
    program, choice = chosen(pools(), Config(), options)
    assert choice is None and not program.bound


def test_constants_that_stay_need_the_compiled_program(eager):
    builder = GraphBuilder((6, 6, 16))
    builder.conv("x", 16, name="y")
    assert not any(each.bound for each in compile_pair(builder.graph(), Config()))


def test_what_cannot_be_bound_is_compiled(eager):
    """The second input has other extents than the first one, which no range can have."""
    builder = GraphBuilder((8, 6, 16))
    builder.activations["z"] = Activation((4, 3, 16))
    half = builder.conv("x", 16, padding=(1, 1, 1, 1), stride=(2, 2))
    builder.add(half, builder.conv("z", 16, 1), name="y")
    layers = LayerGraph("two", tuple(builder.layers), builder.activations, ("x", "z"), ("y",))
    program, choice = chosen(layers, Config(), Options())
    assert isinstance(choice, BoundChoice) and choice.plan is None and not program.bound
    assert "cannot be bound" in bound_text(choice)
