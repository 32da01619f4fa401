"""Programs without the loads of constants that an earlier run has left."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.encode.repeat import without_tokens
from tpulite.compiler.encode.warm import without_loads
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_pair
from tpulite.golden.check import check
from tpulite.golden.layers import run_layers
from tpulite.runtime.golden_device import GoldenDevice
from tpulite.runtime.session import Session
from tpulite_testing.drawn.plain_graphs import GraphBuilder


@pytest.fixture(scope="module")
def layers():
    builder = GraphBuilder((8, 8, 16))
    builder.conv("x", 32, 3, name="a", padding=(1, 1, 1, 1))
    builder.conv("a", 16, 1, name="b")
    return builder.graph("b", "a")


@pytest.fixture(scope="module", params=[True, False])
def cold(request, layers):
    program, _ = compile_pair(layers, Config(), Options(prefetch=request.param))
    return program, request.param


def constants(program):
    """Return where a program loads constants, and the rows that these take."""
    return [
        (place, range(command["row"], command["row"] + command["lines"] * command["rows"]))
        for place, command in enumerate(program.commands)
        if command.opcode == Opcode.LOAD and command["window"] == Window.CONSTANTS
    ]


def test_only_loads_of_constants_in_the_first_rows_are_left_out(cold):
    program, prefetch = cold
    loads = constants(program)
    assert len(loads) > 2
    for left_out in ([], loads[:1], loads):
        rows = max((taken.stop for _, taken in left_out), default=0)
        warm = without_loads(program, rows, prefetch=prefetch)
        kept = [c for i, c in enumerate(program.commands) if i not in dict(left_out)]
        assert list(map(without_tokens, warm.commands)) == list(map(without_tokens, kept))
        assert any(c.fields.get("prefetch") for c in warm.commands) is prefetch
        assert warm.resident == ((0, rows),)
        assert check(warm) == []


def test_every_command_is_of_the_layer_that_it_was_of(cold):
    program, prefetch = cold
    rows = max(taken.stop for _, taken in constants(program))
    warm = without_loads(program, rows, prefetch=prefetch)
    left_out = dict(constants(program))
    for before, after in zip(program.layers, warm.layers, strict=True):
        for kind in ("commands", "others"):
            was, now = getattr(before, kind), getattr(after, kind)
            assert [without_tokens(program.commands[i]) for i in was if i not in left_out] == [
                without_tokens(warm.commands[i]) for i in now
            ]
    named = [i for layer in warm.layers for i in (*layer.commands, *layer.others)]
    assert sorted(named) == list(range(len(warm.commands) - 1))  # all but END


def test_it_computes_the_same_when_the_constants_are_there(cold, layers):
    program, prefetch = cold
    rows = max(taken.stop for _, taken in constants(program))
    warm = without_loads(program, rows, prefetch=prefetch)
    device, rng = GoldenDevice(Config()), np.random.default_rng(0)
    for each in (program, warm, warm):
        x = rng.integers(-128, 128, (8, 8, 16)).astype(np.int8)
        outputs = Session(each, device).run({"x": x}).outputs
        expected = run_layers(layers, {"x": x})
        for name in layers.outputs:
            np.testing.assert_array_equal(outputs[name], expected[name])
