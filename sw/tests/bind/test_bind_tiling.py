"""What a plan says of tiles and buffers is what the commands of the program do."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.bind import ShapeRange, compile_range
from tpulite_testing.drawn.range_cases import KINDS, draw_case
from tpulite_testing.drawn.range_networks import Builder
from tpulite_testing.graphs.range_networks import resnet8

HOLDS = {
    Window.INPUT: ("input", "tile"),
    Window.OUTPUT: ("output", "tile"),
    Window.CONSTANTS: ("weights", "tile"),
}


def rows_of(command) -> tuple[int, int]:
    """Return the rows of the buffer that a transfer touches: from one to another."""
    return command["row"], command["row"] + (command["lines"] - 1) * command["pitch"] + command[
        "rows"
    ]


def check_buffers(program, tiling) -> None:
    """Check that transfers touch buffers of their kind alone, and each buffer is used."""
    touched = set()
    for command in program.commands:
        if command.opcode not in (Opcode.LOAD, Opcode.STORE):
            continue
        low, high = rows_of(command)
        kinds = [b for b in tiling.buffers if b.holds in HOLDS[command["window"]]]
        found = [
            (b.holds, i)
            for b in kinds
            for i, begin in enumerate(b.begins)
            if begin <= low and high <= begin + b.rows
        ]
        if command["window"] != Window.CONSTANTS:  # parameters of all tiles have rows of their own
            assert len(found) == 1, (command, tiling)
        touched.update(found)
    assert touched == {(b.holds, i) for b in tiling.buffers for i in range(b.count)}


def stores(program) -> Counter:
    commands = (c for c in program.commands if c.opcode == Opcode.STORE)
    return Counter(c["lines"] * c["rows"] for c in commands)


def expected_stores(tiling, kind: str, size: int, vector_rows: int) -> Counter:
    """Return the rows that tiles have; convolutions store each channel block by itself."""
    parts = [
        [
            -(-part // size) if cut.axis == "channels" else part
            for part in np.diff(cut.bounds).tolist()
        ]
        for cut in tiling.cuts
    ]
    found: Counter = Counter()
    for *extents, blocks in product(*parts):
        vectors = int(np.prod(extents)) * vector_rows
        if kind == "conv":
            found[vectors] += blocks
        else:
            found[vectors * blocks] += 1
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "config", [Config(), Config(ub_rows=512, acc_rows=32), Config(array_size=4, ub_rows=4096)]
)
def test_tiles_and_buffers_are_those_of_the_commands(kind, config):
    rng = np.random.default_rng(KINDS.index(kind))
    for _ in range(4):
        case = draw_case(rng, kind)
        while case.broadcast:
            case = draw_case(rng, kind)
        shapes = case.range(3, 14, 30)
        graph = case.graph(shapes.height[1], shapes.width[1])
        program = compile_range(graph, shapes, config).plain
        for batch in (1, 3):
            extents = shapes.height[1], int(rng.integers(shapes.width[0], shapes.width[1] + 1))
            (layer,) = program.plan(*extents, batch=batch).layers
            bound = program.bind(*extents, batch=batch)
            check_buffers(bound, layer.tiling)
            raw = 4 if bound.outputs[0].dtype == "int32" else 1
            assert stores(bound) == expected_stores(layer.tiling, kind, config.array_size, raw)
            (spec,) = bound.outputs
            assert np.prod([cut.bounds[-1] for cut in layer.tiling.cuts]) == np.prod(spec.shape)


def test_a_depthwise_layer_stores_a_block_of_a_slab_at_a_time():
    net = Builder(np.random.default_rng(1), (30, 17, 40))
    program = compile_range(
        net.graph(net.depthwise("x", 3)), ShapeRange((1, 2), (3, 30), (3, 17)), Config(ub_rows=1024)
    )
    for batch, height in ((1, 30), (2, 11)):
        (layer,) = program.plan(height, 17, batch=batch).layers
        bound = program.bind(height, 17, batch=batch)
        check_buffers(bound, layer.tiling)
        assert stores(bound) == expected_stores(layer.tiling, "depthwise", 16, 1)


def test_buffers_of_a_network_lie_beside_the_tensors_that_stay():
    program = compile_range(resnet8(), ShapeRange((1, 4), (32, 32), (32, 32)), Config())
    plan, bound = program.plan(32, 32, batch=4), program.bind(32, 32, batch=4)
    assert [each.node.layer.name for each in plan.layers] == [x.name for x in bound.layers]
    for layer, info in zip(plan.layers, bound.layers, strict=True):
        rows = {
            command["row"]
            for command in (bound.commands[i] for i in info.others)
            if command.opcode == Opcode.LOAD and command["window"] == Window.INPUT
        }
        begins = {row for b in layer.tiling.buffers if b.holds == "input" for row in b.begins}
        assert rows <= begins or not rows
