from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tpulite.arch.config import COMMAND_BYTES, Config
from tpulite.arch.isa import Command, Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.encode import batch as module
from tpulite.compiler.encode.batch import check_sizes, compile_batch
from tpulite.compiler.encode.repeat import repeat_program, without_tokens
from tpulite.compiler.encode.tokens import insert_tokens
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.golden.check import check
from tpulite.golden.layers import run_layers
from tpulite.graph.layers import Activation
from tpulite.runtime.session import Session
from tpulite_testing.drawn.plain_graphs import GraphBuilder

COSTS = {1: 100, 2: 80, 3: 70, 4: 75, 6: 71, 12: 50}
"""Cycles of an image, by the images that go together: more than 3 seem to be worse."""


@pytest.mark.parametrize(
    ("batch", "tried", "best"),
    [(1, [1], 1), (7, [1, 7], 7), (8, [1, 2, 4, 8], 8), (12, [1, 2, 3, 4, 6], 3)],
)
def test_more_images_go_together_until_two_larger_parts_make_none_cheaper(
    monkeypatch, batch, tried, best
):
    costs, seen = COSTS | {7: 99, 8: 74}, []

    def compile_images(count):
        seen.append(count)
        commands = [costs[count] * count]
        return SimpleNamespace(
            batch=count, config=Config(), commands=commands, inputs=(), outputs=()
        )

    def repeat(program, count, *, prefetch):
        return program, count, prefetch

    monkeypatch.setattr(module, "program_cycles", lambda program: program.commands[0])
    monkeypatch.setattr(module, "repeat_program", repeat)
    result: Any = compile_batch(compile_images, Options(batch=batch, prefetch=False))
    (program, count, prefetch), together = result
    assert seen == tried
    assert (program.batch, count, together, prefetch) == (best, batch // best, best, False)


@pytest.mark.parametrize(("costs", "best"), [({1: 10, 2: 11, 4: 9}, 4), ({1: 10, 2: 10}, 1)])
def test_only_cheaper_images_go_together_but_one_dearer_size_does_not_end_it(
    monkeypatch, costs, best
):
    monkeypatch.setattr(module, "program_cycles", lambda program: program.commands[0])
    monkeypatch.setattr(module, "repeat_program", lambda program, count, *, prefetch: program)

    def compile_images(count):
        return SimpleNamespace(batch=count, config=Config(), commands=[costs[count] * count])

    assert compile_batch(compile_images, Options(batch=max(costs)))[1] == best


def test_little_memory_traffic_counts_rows_that_are_moved(monkeypatch):
    monkeypatch.setattr(module, "program_cycles", lambda program: 0)
    monkeypatch.setattr(module, "repeat_program", lambda program, count, *, prefetch: program)
    rows = {1: 10, 2: 9, 4: 40}

    def compile_images(count):
        moves = [
            Command.make(opcode, lines=count, rows=rows[count])
            for opcode in (Opcode.LOAD, Opcode.STORE, Opcode.CONV)
            if opcode is not Opcode.CONV
        ]
        return SimpleNamespace(batch=count, config=Config(), commands=moves, inputs=(), outputs=())

    assert compile_batch(compile_images, Options(batch=4, optimize="memory"))[1] == 2


def test_what_does_not_fit_together_goes_one_by_one(monkeypatch):
    monkeypatch.setattr(module, "program_cycles", lambda program: 0)
    monkeypatch.setattr(module, "repeat_program", lambda program, count, *, prefetch: program)

    def compile_images(count):
        if count > 1:
            raise ValueError("does not fit")
        return SimpleNamespace(batch=1, config=Config(), commands=[], inputs=(), outputs=())

    program, together = compile_batch(compile_images, Options(batch=4))
    assert (program.batch, together) == (1, 1)


def network(*outputs):
    """Return a network of which an image goes to DRAM, and another output is read later."""
    builder = GraphBuilder((8, 8, 16))
    builder.conv("x", 32, 3, name="a", padding=(1, 1, 1, 1))
    builder.conv("a", 16, 1, name="b")
    return builder.graph(*(outputs or ("b", "a")))


@pytest.mark.parametrize(("prefetch", "outputs"), [(True, ("b", "a")), (False, ("a", "b"))])
def test_a_repeated_program_computes_every_image(prefetch, outputs):
    layers, rng = network(*outputs), np.random.default_rng(0)
    once = compile_layers(layers, Config(ub_rows=128), Options(batch=2, prefetch=prefetch))
    program = repeat_program(once, 3, prefetch=prefetch)
    assert check(program) == []
    assert program.batch == 6
    early = [c["prefetch"] for c in program.commands if c.opcode == Opcode.CONV]
    assert any(early) is prefetch
    assert program.window_bytes[Window.SCRATCH] == once.window_bytes[Window.SCRATCH] > 0
    assert program.window_bytes[Window.INPUT] == 3 * once.window_bytes[Window.INPUT]
    images = rng.integers(-128, 128, (6, 8, 8, 16)).astype(np.int8)
    outputs = Session(program).run({"x": images.reshape(program.inputs[0].shape)}).outputs
    for n, image in enumerate(images):
        for name, values in run_layers(layers, {"x": image}).items():
            if name in layers.outputs:
                got = outputs[name].reshape(6, *values.shape)[n]
                np.testing.assert_array_equal(got, values, err_msg=f"image {n} of {name}")


def test_layers_of_a_repeated_program_have_the_commands_of_all_images():
    once = compile_layers(network(), Config())
    program = repeat_program(once, 3)
    count = len(once.commands) - 1
    assert len(program.commands) == 3 * count + 1
    for layer, whole in zip(once.layers, program.layers, strict=True):
        assert whole.m == 3 * layer.m
        starts = (0, count, 2 * count)
        assert whole.commands == tuple(start + i for start in starts for i in layer.commands)
        assert whole.others == tuple(start + i for start in starts for i in layer.others)
    assert repeat_program(once, 1) is once
    assert program == repeat_program(once, 3, prefetch=True)


def test_tokens_are_taken_off_and_put_on_again():
    program = compile_layers(network(), Config())
    bare = tuple(map(without_tokens, program.commands))
    assert not any(c.fields.get(name) for c in bare for name in ("wait", "signal", "prefetch"))
    assert any(c.fields.get("prefetch") for c in program.commands)
    assert insert_tokens(bare, program.config) == program.commands


def test_dumps_are_those_of_the_images_that_go_together(monkeypatch):
    """Four images together are tried, and dearer; what two have made is what counts."""
    stages = {}
    costs = iter((3.0, 2.0, 9.0))
    monkeypatch.setattr(module, "_cost", lambda program, options: next(costs))
    program = compile_layers(network(), Config(), Options(batch=4), dump=stages.__setitem__)
    assert stages["place"].inputs[0].batch == 2
    assert program.batch == 4 and stages["assemble"] == program.commands
    assert len(stages["schedule"].ops) * 2 == len(program.commands) - 1


def test_a_batch_that_no_address_reaches_is_refused():
    with pytest.raises(ValueError, match=r"^A batch of \d+ images needs \d+ bytes of \w+, but"):
        compile_layers(network(), Config(), Options(batch=1 << 30))


@pytest.mark.parametrize("what", ["inputs", "outputs"])
@pytest.mark.parametrize(
    ("rows", "batch", "who"),
    [(1 << 28, 1, "The network"), (1 << 27, 2, "A batch of 2 images")],
)
def test_tensors_of_four_gigabytes_are_refused_and_a_row_less_is_not(what, rows, batch, who):
    def sizes(rows):
        shapes = {"inputs": (1, 1, 16), "outputs": (1, 1, 16)} | {what: (1, rows, 16)}
        activations = {name: Activation(shape) for name, shape in shapes.items()}
        layers: Any = SimpleNamespace(
            inputs=("inputs",), outputs=("outputs",), activations=activations
        )
        check_sizes(layers, Config(), batch)

    sizes(rows - 1)
    message = f"{who} needs 4294967296 bytes of {what}, but DRAM windows have less than 4294967296"
    with pytest.raises(ValueError, match=f"^{message}$"):
        sizes(rows)


def test_commands_of_four_gigabytes_are_refused():
    def compile_images(count):
        return SimpleNamespace(batch=count, config=Config(), commands=(1,) * 4)

    batch = (1 << 32) // (4 * COMMAND_BYTES)
    message = f"^A batch of {batch} images needs 4294967296 bytes of commands, but"
    with pytest.raises(ValueError, match=message):
        compile_batch(compile_images, Options(batch=batch))
