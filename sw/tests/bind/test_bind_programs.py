"""Bound programs: legal, and exact to the bit like programs compiled for the shape."""

from collections import Counter

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.bind import Shape, compile_range
from tpulite.golden.check import check
from tpulite.program import Program
from tpulite.runtime.golden_device import GoldenDevice
from tpulite.runtime.session import Session
from tpulite_testing.drawn.range_cases import (
    EVERY_KIND,
    config_name,
    draw_case,
    draw_inputs,
    expected,
)
from tpulite_testing.kept import kept_program
from tpulite_testing.regress import thinned

CONFIGS = (
    Config(),
    Config(array_size=8, requant_lanes=2, vector_lanes=4, ub_rows=4096),
    Config(array_size=4, ub_rows=4096, acc_rows=64),
    Config(array_size=32, ub_rows=4096),
    Config(ub_rows=1024, acc_rows=32),
    Config(array_size=4, ub_rows=256, acc_rows=16, ub_banks=4, queue_depth=1),
    Config(array_size=8, ub_rows=256, acc_rows=32, queue_depth=2),
    Config(ub_rows=256, acc_rows=16),
)
DRAM_BYTES = 1 << 22


def run(program: Program, inputs: dict[str, np.ndarray]) -> np.ndarray:
    results = Session(program, GoldenDevice(program.config, dram_bytes=DRAM_BYTES)).run(inputs)
    return results.outputs["y"]


def draw_shapes(rng, case, config):
    """Compile a layer for a range, and draw shapes of it; nothing if the buffer is too small."""
    shapes = case.range(5, int(rng.choice([6, 12, 30])), int(rng.choice([6, 12, 30, 90])))
    try:
        dynamic = compile_range(case.graph(shapes.height[1], shapes.width[1]), shapes, config)
    except ValueError as error:
        assert "bytes of the unified buffer" in str(error)
        assert config.ub_bytes <= 1 << 14
        return
    for batch in (1, int(rng.integers(2, 6))):
        yield (
            dynamic,
            batch,
            *(int(rng.integers(a, b + 1)) for a, b in (shapes.height, shapes.width)),
        )


@pytest.mark.parametrize("seed", thinned(range(6), 0, reason="others like them"))
@pytest.mark.parametrize("kind", EVERY_KIND)
@pytest.mark.parametrize("config", CONFIGS, ids=config_name)
def test_random_shapes(config, kind, seed):
    rng = np.random.default_rng((seed, EVERY_KIND.index(kind), CONFIGS.index(config)))
    case = draw_case(rng, kind)
    for dynamic, batch, height, width in draw_shapes(rng, case, config):
        program = dynamic.bind(height, width, batch=batch)
        assert check(program) == []
        inputs = draw_inputs(rng, program)
        np.testing.assert_array_equal(run(program, inputs), expected(case, inputs))


@pytest.mark.parametrize("seed", thinned(range(25), *range(4), reason="others like them"))
@pytest.mark.parametrize("kind", EVERY_KIND)
def test_like_programs_compiled_for_the_shape(kind, seed):
    rng = np.random.default_rng((seed, EVERY_KIND.index(kind), 99))
    case = draw_case(rng, kind)
    config = Config(array_size=(16, 32)[seed % 2])
    for dynamic, batch, height, width in draw_shapes(rng, case, config):
        program = dynamic.bind(height, width, batch=batch)
        static = kept_program(case.graph(height, width), config)
        inputs = draw_inputs(rng, program)
        got = run(program, inputs)
        for i in range(batch):
            one = {name: x[i if len(x) > 1 else 0] for name, x in inputs.items()}
            np.testing.assert_array_equal(got[i], run(static, one))


@pytest.mark.parametrize("channels", [1, 5, 15, 16, 17, 33, 40])
@pytest.mark.parametrize("config", CONFIGS, ids=config_name)
def test_batch_norm_of_fewer_channels(config, channels):
    rng = np.random.default_rng(channels)
    case = draw_case(rng, "affine")
    while case.channels < 40 or case.unsigned:
        case = draw_case(rng, "affine")
    shapes = case.range(2, 9, 9)
    shapes = type(shapes)(shapes.batch, shapes.height, shapes.width, (1, case.channels))
    dynamic = compile_range(case.graph(9, 9), shapes, config)
    program = dynamic.bind(7, 5, batch=2, channels=channels)
    assert check(program) == []
    inputs = draw_inputs(rng, program)
    got = run(program, inputs)
    np.testing.assert_array_equal(got, expected(case.first(channels), inputs))
    # What pads the last block comes out as zeros, like everywhere.
    size, spec = config.array_size, program.outputs[0]
    session = Session(program, GoldenDevice(config, dram_bytes=DRAM_BYTES))
    session.run(inputs)
    base = session.job.windows[Window.OUTPUT].base
    image = session.device.read(base, spec.nbytes(config)).reshape(-1, spec.block_bytes(config))
    last = image[-1][: spec.m * size].reshape(spec.m, size)
    assert not last[:, (channels - 1) % size + 1 :].any()


FIRST = (0, 2, 3, 5, 6, 11, 14, 16, 48, 72, 112, 114, 245, 304, 346, 406)
"""Draws in which some strategy occurs for the first time; where they change, others are drawn."""


def test_every_strategy_occurs_and_is_exact():
    """Small machines and odd rows need what others never do."""
    seen = Counter()
    wanted = {
        *("planes", "slabs"),
        *(f"{kind}/{mode}" for kind in ("rows", "block") for mode in ("image", "images")),
        *("block/through", "lone block/image", "panel/image"),
        *(f"resident/{mode}" for mode in ("image", "images", "through")),
        *(f"streamed/{mode}" for mode in ("image", "images")),
        *("tiles/image", "panels/image", "lone tiles/image"),
    }
    for number in (*FIRST, *range(2000)):
        rng = np.random.default_rng((11, number))
        case = draw_case(rng, ("pool", "conv", "conv", "affine")[number % 4])
        config = CONFIGS[int(rng.integers(len(CONFIGS)))]
        for dynamic, batch, height, width in draw_shapes(rng, case, config):
            strategy = dynamic.strategy(Shape(batch, height, width, case.channels))
            seen[strategy.name] += 1
            if seen[strategy.name] == 1:
                program = dynamic.bind(height, width, batch=batch)
                inputs = draw_inputs(rng, program)
                np.testing.assert_array_equal(run(program, inputs), expected(case, inputs))
        if wanted <= seen.keys():
            return
    assert not wanted - seen.keys()


@pytest.mark.parametrize("kind", ["affine", "elementwise", "pool", "conv"])
def test_no_token_is_superfluous(kind):
    rng = np.random.default_rng(5)
    case = draw_case(rng, kind)
    while case.channels < 40:
        case = draw_case(rng, kind)
    dynamic = compile_range(case.graph(40, 40), case.range(2, 40, 40), Config(ub_rows=1024))
    program = dynamic.bind(40, 33, batch=2)
    commands = program.commands
    assert len(commands) > 20
    pairs = [
        (taker, engine)
        for taker, command in enumerate(commands[:-1])
        for engine in range(4)
        if command["wait"] >> engine & 1
    ]
    for taker, engine in rng.choice(pairs, min(len(pairs), 12), replace=False).tolist():
        mine = commands[taker].engine
        rank = sum(c["wait"] >> engine & 1 for c in commands[:taker] if c.engine == mine)
        givers = [
            i for i, c in enumerate(commands[:-1])
            if c.engine == engine and c["signal"] >> int(mine) & 1
        ]  # fmt: skip
        changed = list(commands)
        giver = givers[rank]
        changed[taker] = changed[taker].replace(wait=changed[taker]["wait"] & ~(1 << engine))
        signal = changed[giver]["signal"] & ~(1 << int(mine))
        changed[giver] = changed[giver].replace(signal=signal)
        assert check(_with(program, changed)), "without this token there is a race"


def _with(program: Program, commands: list) -> Program:
    return Program(
        program.config,
        tuple(commands),
        program.constants,
        program.window_bytes,
        program.inputs,
        program.outputs,
    )


def test_programs_are_encoded_before_anybody_looks():
    case = draw_case(np.random.default_rng(1), "pool")
    dynamic = compile_range(case.graph(20, 20), case.range(1, 20, 20), Config())
    program = dynamic.bind(19, 18)
    stream = program.encode()
    assert "commands" not in vars(program)
    assert b"".join(command.encode() for command in program.commands) == stream
    assert program.commands[-1].opcode == Opcode.END
    assert dynamic.bind(19, 18).encode() == stream
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        program.nothing  # noqa: B018
    (info,) = program.layers
    computed = {command.opcode for command in program.commands} & {Opcode.CONV, Opcode.VECTOR}
    assert {program.commands[i].opcode for i in info.commands} == computed


def test_a_bound_program_is_saved_and_loaded(tmp_path):
    case = draw_case(np.random.default_rng(2), "conv")
    shapes = case.range(3, 20, 20)
    height, width = shapes.height[1], shapes.width[1]
    dynamic = compile_range(case.graph(height, width), shapes, Config())
    program = dynamic.bind(height, width, batch=3)
    program.save(tmp_path / "bound.tpu")
    loaded = Program.load(tmp_path / "bound.tpu")
    assert loaded.encode() == program.encode()
    assert loaded.inputs == program.inputs
    assert check(loaded) == []
