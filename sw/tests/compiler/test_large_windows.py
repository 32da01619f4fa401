"""Pooling over windows that no single command can express, or that do not fit the buffer."""

import itertools

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.group.candidates import Candidates
from tpulite.compiler.group.graph_table import GraphTable
from tpulite.compiler.group.group_costs import GroupCosts
from tpulite.compiler.options import Options
from tpulite.compiler.plan.requantizations import average_requantization
from tpulite.golden.layers import run_layers
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Activation, Conv, Layer, LayerGraph, Lut, Pool
from tpulite.program import Program
from tpulite.runtime.session import Session
from tpulite_testing.compiling.forced_groups import forced_groups
from tpulite_testing.kept import kept_program
from tpulite_testing.oracles.plain_layers import plain_pool, random_requantization
from tpulite_testing.quick_options import quick_options
from tpulite_testing.regress import thinned

SMALL = Config(ub_rows=1024)
MACHINES = {
    "4": Config(array_size=4, ub_rows=256, acc_rows=64, ub_banks=4, queue_depth=4),
    "8 with few lanes": Config(array_size=8, requant_lanes=2, vector_lanes=4, ub_rows=512),
    "16": Config(ub_rows=1024, acc_rows=64),
    "32": Config(array_size=32, ub_rows=512),
}
OPS = ("average", "max", "sum")
ONE = quick_options()


def pool(op: str, window: tuple[int, int], source: str = "x", **geometry) -> Pool:
    """Return a layer; if it is a sum, with a scale that leaves few results at the clamps."""
    rng = np.random.default_rng(window[0] * window[1])
    reach = max(64, 4 * window[0] * window[1])
    scale = random_requantization(rng, 1, reach) if op == "sum" else None
    return Pool(
        name="pool",
        inputs=(source,),
        output="y",
        op=op,
        window=window,
        requantization=scale,
        **geometry,
    )


def alone(layer: Layer, shape: tuple[int, int, int]) -> LayerGraph:
    images = {"x": Activation(shape), "y": layer._infer(Activation(shape))}
    return LayerGraph("net", (layer,), images, ("x",), ("y",))


def check_bits(graph: LayerGraph, config: Config, options: Options = ONE) -> Program:
    """Compare every image of a batch with the golden layers, and pools with plain loops, too."""
    program = kept_program(graph, config, options)
    rng = np.random.default_rng(0)
    (name,), (output,) = graph.inputs, graph.outputs
    x = rng.integers(-128, 128, (options.batch, *graph.activations[name].shape)).astype(np.int8)
    results = Session(program).run(x.reshape(program.inputs[0].shape))
    assert results.fault is None
    expected = np.stack([run_layers(graph, {name: each})[output] for each in x])
    layer = graph.layers[0]
    if isinstance(layer, Pool) and not layer.offset:
        extents = graph.activations[output].shape[:2]
        plain = [plain_pool(each, layer, extents) for each in x]
        np.testing.assert_array_equal(expected, np.stack(plain))
    np.testing.assert_array_equal(results.outputs[output].reshape(expected.shape), expected)
    return program


def engines(program: Program) -> set[Opcode]:
    """Return which of the two engines that compute have commands."""
    return {command.opcode for command in program.commands} & {Opcode.CONV, Opcode.VECTOR}


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(
    ("op", "window"), [("average", (30, 20)), ("max", (30, 20)), ("sum", (29, 9))]
)
def test_channel_blocks_come_one_by_one_if_one_of_them_fits(
    op: str, window: tuple[int, int], batch: int
) -> None:
    """As in networks that scale channels by their averages."""
    graph = alone(pool(op, window), (30, 20, 100))
    assert 4 * SMALL.ub_rows < 30 * 20 * 7
    program = check_bits(graph, SMALL, quick_options(batch=batch))
    if batch == 1:  # results of several images leave less room
        assert engines(program) == {Opcode.VECTOR}


CASES = {
    "all of an image": ((40, 37), (40, 37), (1, 1), (0, 0, 0, 0)),
    "beside each other": ((40, 45), (20, 22), (20, 22), (0, 0, 0, 0)),
    "overlapping": ((40, 30), (30, 20), (5, 5), (0, 0, 0, 0)),
    "clipped": ((45, 30), (35, 20), (10, 8), (6, 3, 5, 7)),
    "tall": ((300, 5), (280, 2), (10, 3), (0, 0, 0, 0)),
    "tall and clipped": ((300, 3), (290, 3), (60, 1), (280, 1, 100, 2)),
    "wide": ((3, 310), (2, 270), (1, 9), (0, 0, 0, 0)),
    "in rows too long": ((3, 1100), (2, 500), (1, 200), (0, 0, 0, 0)),
    "overlapping in rows too long": ((6, 300), (6, 70), (1, 12), (0, 9, 0, 20)),
    "a row too long": ((1, 1801), (1, 1801), (1, 1), (0, 0, 0, 0)),
    "one column": ((1300, 1), (600, 1), (250, 1), (100, 0, 100, 0)),
}


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(
    ("machine", "name"),
    thinned(
        itertools.product(MACHINES, CASES),
        *((("4", "8 with few lanes")[i % 2], name) for i, name in enumerate(CASES)),
        reason="so do other sizes; each case has one of them",
    ),
)
def test_windows_of_any_size_are_exact(machine: str, name: str, op: str) -> None:
    config = MACHINES[machine]
    size, window, stride, padding = CASES[name]
    clamp = {} if op == "sum" else {"low": -3, "high": 90}
    layer = pool(op, window, stride=stride, padding=padding, **clamp)
    channels = config.array_size * 3 // 2
    program = check_bits(alone(layer, (*size, channels)), config)
    if name in ("all of an image", "wide", "a row too long"):
        assert engines(program) == {Opcode.VECTOR if op == "max" else Opcode.CONV}


@pytest.mark.parametrize("seed", range(24))
def test_random_windows_are_exact(seed: int) -> None:
    """Any extents; batches; alone, or between layers that compute the image and read the result."""
    rng = np.random.default_rng(seed)
    config = list(MACHINES.values())[seed % len(MACHINES)]
    height = int(rng.choice([1, 7, 40, 290]))
    size = (height, int(rng.integers(1, 1 + min(600, 1800 // height))))
    window = tuple(int(rng.integers(1 + extent // 2, extent + 1)) for extent in size)
    stride = tuple(int(rng.integers(1 + extent // 8, 1 + extent)) for extent in window)
    padding = tuple(int(rng.integers(0, min(9, window[i % 2]))) for i in range(4))
    op = OPS[seed % 3]
    offset = {"offset": 128} if op == "average" and rng.random() < 0.5 else {}
    layer = pool(op, window, stride=stride, padding=padding, **offset)
    shape = (*size, int(rng.integers(1, 2 * config.array_size)))
    graph = alone(layer, shape)
    if rng.random() < 0.5 and max(size) <= 40:
        graph = between(layer, shape, rng)
    check_bits(graph, config, quick_options(batch=int(rng.integers(1, 4))))


def between(layer: Pool, shape: tuple[int, int, int], rng: np.random.Generator) -> LayerGraph:
    """Return a network that computes what a layer reads, and reads what it computes."""
    channels = shape[2]
    conv = Conv(
        name="conv",
        inputs=("i",),
        output="x",
        weight=rng.integers(-128, 128, (1, 1, 4, channels)).astype(np.int8),
        requantization=random_requantization(rng, channels, 20_000),
    )
    table = rng.permutation(256).astype(np.uint8).view(np.int8)
    lut = Lut(name="table", inputs=("y",), output="o", table=table)
    result = layer._infer(Activation(shape))
    images = {"i": Activation((*shape[:2], 4)), "x": Activation(shape), "y": result, "o": result}
    return LayerGraph("net", (conv, layer, lut), images, ("i",), ("o",))


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("window", [(300, 7), (7, 300)])
def test_an_image_on_chip_may_have_windows_beyond_the_fields_of_a_command(
    op: str, window: tuple[int, int]
) -> None:
    rng = np.random.default_rng(0)
    graph = between(pool(op, window), (*window, 20), rng)
    program = check_bits(graph, Config())
    stored = [c for c in program.commands if c.opcode == Opcode.STORE]
    assert sum(c["rows"] * c["lines"] for c in stored) == 2  # nothing but the result


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(("columns", "rolling"), [(1, False), (1, True), (2, False)])
def test_large_windows_inside_groups_are_exact(columns: int, rolling: bool, op: str) -> None:
    """The image is a strip that the group computes, or that it loads column by column."""
    rng = np.random.default_rng(0)
    shape, layer = (280, 18, 10), pool(op, (262, 3), stride=(9, 3), padding=(9, 0, 0, 0))
    graph = between(layer, shape, rng)
    if columns > 1:
        graph = alone(layer, shape)
    group = Group(range(len(graph.layers)), 2, columns, rolling=rolling)

    def choose(layers, config, options, refused) -> tuple[Group, ...]:
        assert not refused
        return (group,)

    with forced_groups(choose):
        check_bits(graph, Config())


@pytest.mark.parametrize("ub_rows", [1024, 4096])
@pytest.mark.parametrize("op", OPS)
def test_pixels_are_loaded_while_others_are_computed(op: str, ub_rows: int) -> None:
    """A LOAD brings a pixel a cycle, and a cycle a pixel is what sums and maxima take."""
    config = Config(ub_rows=ub_rows)
    graph = alone(pool(op, (100, 160)), (100, 160, 16))
    cycles = predict_cycles(kept_program(graph, config).commands, config)
    assert cycles < 1.15 * 100 * 160


def test_windows_beside_each_other_are_read_once() -> None:
    graph = alone(pool("average", (64, 64), stride=(64, 64)), (128, 256, 16))
    program = kept_program(graph, Config(ub_rows=4096))
    loads = [c for c in program.commands if c.opcode == Opcode.LOAD and c["window"] == 1]
    assert sum(c["rows"] * c["lines"] for c in loads) == 128 * 256
    assert predict_cycles(program.commands, Config(ub_rows=4096)) < 1.1 * 128 * 256


def test_small_windows_stay_on_the_vector_path_where_rows_are_long() -> None:
    """Columns of such an image fit, so nothing is read window by window."""
    graph = alone(pool("sum", (3, 3), stride=(2, 2)), (9, 640, 16))
    program = check_bits(graph, SMALL)
    assert engines(program) == {Opcode.VECTOR}


def test_a_single_output_row_needs_no_pitch() -> None:
    """Its windows end long before the row below would begin."""
    graph = alone(pool("max", (5, 90), stride=(90, 90)), (100, 200, 16))
    check_bits(graph, Config())


def test_costs_know_that_large_windows_never_lie_in_the_buffer() -> None:
    graph = alone(pool("sum", (200, 200)), (200, 200, 16))
    costs = GroupCosts(GraphTable(graph, Config(), ONE), Config().ub_rows)
    candidates = Candidates(costs)
    group, cost = candidates.alone(0, frozenset({"y"}))
    assert not group.slices
    assert candidates.fits(group, frozenset({"y"}), strips=2)
    predicted = predict_cycles(kept_program(graph, Config()).commands, Config())
    assert predicted < cost.cycles < 2.1 * predicted


@pytest.mark.parametrize("count", [65_025, 2_097_151, 16_000_001])
def test_averages_are_exact_or_refused(count: int) -> None:
    """Numbers around halves: they are nearest to another result."""
    try:
        record = average_requantization(count, -128, 127)
    except ValueError as error:
        assert count > 2**21
        assert str(error) == f"An average of {count} numbers cannot be exact"
        return
    multiplier, shift = int(record.multiplier[0]), 31 - int(record.shift[0])
    for half in range(-255, 256, 2):  # in halves
        for total in range(half * count // 2 - 1, half * count // 2 + 3):
            if abs(total) > 128 * count:
                continue
            exact = (2 * abs(total) + count) // (2 * count)
            assert (abs(total) * multiplier + (1 << (shift - 1))) >> shift == exact
