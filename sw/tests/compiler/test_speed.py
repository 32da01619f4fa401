"""What a command costs the compiler, measured in work that any Python does as fast as this one.

The limits are about three times what was measured. They are there for a loop over rows where a
slice was, or for a search through all commands in every one.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, Opcode
from tpulite.command_columns import encode_commands
from tpulite.compiler.encode.tokens import insert_tokens
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.place.constants import channel_records
from tpulite.golden.check import check
from tpulite.golden.timing import predict_cycles
from tpulite.golden.timing.clockwork import Clockwork
from tpulite.graph.layers import Activation, Conv, LayerGraph, Requantization
from tpulite.models import CNN_DIGITS
from tpulite.models.architectures import mobilenet_v2
from tpulite.program import Program
from tpulite.runtime.model import Model
from tpulite_testing.drawn.plain_graphs import GraphBuilder
from tpulite_testing.timing import yardsticks

CONFIG = Config()
END = Command.make(Opcode.END)
TOKENS = {"wait": 0, "signal": 0}


def requantization(channels: int) -> Requantization:
    return Requantization(
        multiplier=np.arange(channels) + (1 << 30), shift=np.full(channels, -8, np.int64)
    )


@pytest.fixture(scope="module")
def layers() -> LayerGraph:
    """Three convolutions of images of many rows and columns."""
    rng = np.random.default_rng(1)
    shapes = [(28, 28, 64), (28, 28, 64), (14, 14, 128), (14, 14, 256)]
    kernels, strides = [3, 3, 1], [1, 2, 1]
    layers = []
    for i, (kernel, stride) in enumerate(zip(kernels, strides, strict=True)):
        weight = rng.integers(-128, 128, (kernel, kernel, shapes[i][2], shapes[i + 1][2]))
        layers.append(
            Conv(
                name=f"conv{i}",
                inputs=(f"x{i}",),
                output=f"x{i + 1}",
                weight=weight.astype(np.int8),
                stride=(stride, stride),
                padding=(kernel // 2,) * 4,
                requantization=requantization(shapes[i + 1][2]),
            )
        )
    images = {f"x{i}": Activation(shape) for i, shape in enumerate(shapes)}
    return LayerGraph("three", tuple(layers), images, ("x0",), ("x3",))


@pytest.fixture(scope="module")
def program(layers) -> Program:
    return compile_layers(layers, CONFIG)


def bare(program: Program, times: int) -> tuple[Command, ...]:
    """Return the commands of a program, several times, without tokens."""
    fields = [(command.opcode, command.fields | TOKENS) for command in program.commands[:-1]]
    return (*(Command(*each) for _ in range(times) for each in fields), END)


def repeated(program: Program, times: int) -> Program:
    commands = insert_tokens(bare(program, times), CONFIG)
    return replace(program, commands=commands, layers=())


STAGES = {
    "tokens": (lambda program: insert_tokens(program.commands, CONFIG), 30),
    "check": (check, 50),
    "predict": (lambda program: predict_cycles(program.commands, CONFIG), 100),
    "encode": (lambda program: encode_commands(program.commands), 4),
}
"""Work on a program, and its limit for each command, in yardsticks."""


@pytest.mark.parametrize("stage", STAGES)
def test_a_command_costs_little_even_in_long_programs(program, stage):
    work, limit = STAGES[stage]
    long = repeated(program, 8)
    assert not check(long)
    cost = yardsticks(lambda: work(long)) / len(long.commands)
    print(f"{stage}: {cost:.1f} yardsticks a command, the limit is {limit}")
    assert cost < limit


def test_compiling_costs_little_for_each_command(layers, program):
    """Everything, with the search for groups and the trials of schedules, without any for plans."""
    options = Options(effort=0)
    cost = yardsticks(lambda: compile_layers(layers, CONFIG, options)) / len(program.commands)
    print(f"compiling: {cost:.1f} yardsticks a command of {len(program.commands)}")
    assert cost < 170


NETWORKS = {
    "cnn": (lambda: Model.load(CNN_DIGITS).layers[0], 800_000),
    "mobilenet_v2": (lambda: mobilenet_v2(96), 1_000_000),
}
"""Networks, and limits in yardsticks."""


@pytest.mark.parametrize("name", NETWORKS)
def test_compiling_a_network_costs_little(name):
    make, limit = NETWORKS[name]
    network = make()
    cost = yardsticks(lambda: compile_layers(network, CONFIG), tries=3)
    print(f"{name}: {cost:,.0f} yardsticks, the limit is {limit:,}")
    assert cost < limit


def test_no_program_is_predicted_twice(monkeypatch):
    """Passes ask again and again; with and without delay lines, by tiles, bound, vectors early."""
    predicted, begin = [], Clockwork.__init__

    def count(clockwork: Clockwork, commands: tuple[Command, ...], *others: Any) -> None:
        predicted.append(commands)
        begin(clockwork, commands, *others)

    monkeypatch.setattr(Clockwork, "__init__", count)
    builder = GraphBuilder((12, 12, 16))
    builder.depthwise(builder.conv(builder.depthwise("x"), 48, 1))
    compile_layers(builder.graph(), CONFIG)
    assert len(predicted) > 5
    assert len({id(each) for each in predicted}) == len(predicted)


def test_a_channel_record_costs_next_to_nothing():
    channels = 4096
    scale, bias = requantization(channels), np.zeros(channels, np.int64)
    cost = yardsticks(lambda: channel_records(scale, bias, CONFIG)) / channels
    assert cost < 1
