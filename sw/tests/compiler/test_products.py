from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tpulite.arch.config import Config
from tpulite.arch.isa import Drain, Opcode
from tpulite.arch.memory import Window
from tpulite.arch.numerics import Rounding
from tpulite.compiler import compile_pair
from tpulite.compiler.options import ORDERS, Options
from tpulite.graph.layers import LayerGraph
from tpulite.models import MLP_DIGITS
from tpulite.program import Program
from tpulite.runtime.golden_device import GoldenDevice
from tpulite.runtime.model import Model
from tpulite.runtime.session import Session
from tpulite_testing.drawn.dense_networks import (
    compile_network,
    random_inputs,
    random_network,
    reference,
)
from tpulite_testing.kept import kept_program
from tpulite_testing.regress import alternate

SIZES = (4, 8, 16, 32)


def run_and_compare(network: LayerGraph, config: Config, **options) -> Program:
    """Compile and run; the golden machine refuses races and reads of unwritten bytes."""
    program = compile_network(network, config, **options)
    values = random_inputs(1, network)
    output = Session(program).run(values).output
    expected = reference(network, values)
    assert output.dtype == expected.dtype
    np.testing.assert_array_equal(output, expected)
    return program


@settings(max_examples=40)
@given(
    size=st.sampled_from(SIZES),
    ub_rows=st.sampled_from([256, 1024, 16384]),
    acc_rows=st.sampled_from([16, 64, 1024]),
    sizes=st.lists(st.integers(1, 90), min_size=2, max_size=4),
    batch=st.integers(1, 40),
    order=st.sampled_from(ORDERS),
    rounding=st.sampled_from(Rounding),
    input_dtype=st.sampled_from(["int8", "uint8"]),
    per_channel=st.booleans(),
    seed=st.integers(0, 1 << 32),
)
def test_any_network_is_exact(
    size, ub_rows, acc_rows, sizes, batch, order, rounding, input_dtype, per_channel, seed
):
    network = random_network(
        seed, sizes, batch, rounding=rounding, input_dtype=input_dtype, per_channel=per_channel
    )
    config = Config(array_size=size, ub_rows=ub_rows, acc_rows=acc_rows, requant_lanes=size // 2)
    run_and_compare(network, config, order=order)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("batch", [1, 16, 37])
def test_raw_accumulators_are_exact(size, batch):
    config = Config(array_size=size)
    run_and_compare(random_network(3, [50, 41], batch, raw=True), config)
    network = random_network(4, [33, 20, 70], batch, raw=True, input_dtype="uint8")
    assert run_and_compare(network, config).outputs[0].dtype == "int32"


@pytest.mark.parametrize(("size", "ub_rows"), alternate(SIZES, [64, 128, 512]))
def test_products_larger_than_the_buffer_are_exact(size, ub_rows):
    config = Config(array_size=size, ub_rows=ub_rows, acc_rows=64)
    k, n, batch = 5 * size + 3, 3 * size + 1, ub_rows // 4 + 3
    assert 5 * batch > ub_rows
    run_and_compare(random_network(5, [k, n, k], batch), config)


def test_tensors_between_layers_stay_on_chip_if_they_fit():
    program = run_and_compare(random_network(6, [64, 64, 64], 16), Config())
    assert program.window_bytes[Window.SCRATCH] == 0
    program = run_and_compare(random_network(6, [64, 64, 64], 64), Config(ub_rows=256))
    assert program.window_bytes[Window.SCRATCH] == 64 * 64


@pytest.mark.parametrize(("size", "order"), alternate(SIZES, ORDERS))
def test_digits_are_exact(size, order):
    options = Options(batch=16, order=order, effort=500)
    model = Model.load(MLP_DIGITS, config=Config(array_size=size), options=options)
    values = np.random.default_rng(1).integers(-128, 128, (16, 256), np.int8)
    np.testing.assert_array_equal(model.run(values).output, model.reference(values)["output"])


def test_document_order_takes_all_n_blocks_for_each_k_tile():
    options = Options(batch=16, order="document")
    (program,) = Model.load(MLP_DIGITS, options=options).programs
    first = [program.commands[i] for i in program.layers[0].commands]
    tiles = [(c["act_row"], c["acc_row"] // 16) for c in first]
    inputs = sorted({row for row, _ in tiles})
    assert tiles == [(inputs[i], j) for i in range(16) for j in range(4)]
    for i, command in enumerate(first):
        assert command["rows"] == 16 and command["blocks"] == 1
        assert command["accumulate"] == (i >= 4)
        assert command["drain"] == (Drain.REQUANTIZE if i >= 60 else Drain.KEEP)


def test_panels_complete_each_block_before_the_next_one():
    options = Options(order="panels", grouping=False)
    layers = random_network(9, [70, 40], 49)
    program = kept_program(layers, Config(), options)
    products = [c for c in program.commands if c.opcode == Opcode.CONV]
    assert [c["rows"] for c in products] == [n for n in (13, 12, 12, 12) for _ in range(3)]
    rows = [c["act_row"] for c in products]
    weights = [c["weight_row"] for c in products]
    assert rows == sorted(rows) and weights == weights[:3] * 4
    assert all(c["blocks"] == 5 and not c["accumulate"] for c in products)
    assert all(c["drain"] == Drain.REQUANTIZE for c in products)


def test_an_order_that_is_asked_for_skips_no_weights():
    layers = random_network(9, [40, 40], 16)
    (layer,) = layers.layers
    zeros = np.full_like(layer.weight, layer.weight_zero_point)
    layers = replace(layers, layers=(replace(layer, weight=zeros),))
    for order, tiles in (("fast", 3), ("document", 9), ("panels", 9)):
        program = kept_program(layers, Config(), Options(order=order, simplify=False))
        products = [c for c in program.commands if c.opcode == Opcode.CONV]
        assert sum(c["blocks"] for c in products) == tiles, order


@pytest.mark.parametrize("size", SIZES)
def test_warm_program_runs_again_and_again(size):
    network = random_network(7, [100, 40, 20], 9)
    config = Config(array_size=size)
    cold, warm = compile_pair(network, config, Options(effort=500))
    assert not cold.resident
    assert all(c["window"] == Window.INPUT for c in warm.commands if c.opcode == Opcode.LOAD)
    device = GoldenDevice(config)
    first = Session(cold, device)
    second = Session(warm, device, base=first.end)
    for seed, session in enumerate((first, second, second, first, second)):
        values = random_inputs(seed, network)
        np.testing.assert_array_equal(session.run(values).output, reference(network, values))


def test_equal_arguments_give_equal_bytes(tmp_path):
    network = random_network(8, [70, 50], 20)
    for name in ("x", "y"):
        compile_network(network, Config()).save(tmp_path / name)
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()
    loaded = Program.load(tmp_path / "x")
    values = random_inputs(1, network)
    np.testing.assert_array_equal(Session(loaded).run(values).output, reference(network, values))


@example(batch=1, k=1, n=1)
@given(batch=st.integers(1, 300), k=st.integers(1, 300), n=st.integers(1, 300))
@settings(max_examples=25)
def test_layers_tell_their_work(batch, k, n):
    network, config = random_network(1, [k, n], batch), Config(acc_rows=64)
    joined = compile_network(network, config, effort=0)
    assert joined.macs == batch * k * n
    program = compile_network(network, config, effort=0, without=("join-outputs",))
    (layer,) = program.layers
    assert program.macs == layer.macs == batch * k * n
    matmuls = [i for i, c in enumerate(program.commands) if c.opcode == Opcode.CONV]
    assert layer.commands == tuple(matmuls)
    tiles = -(-k // 16) * -(-n // 16)
    assert sum(program.commands[i]["rows"] * program.commands[i]["blocks"] for i in matmuls) == (
        batch * tiles
    )


def test_impossible_networks_are_refused():
    network = random_network(1, [40, 30])
    with pytest.raises(ValueError, match=r"^order must be one of fast, document, panels, not 'x'$"):
        compile_network(network, Config(), order="x")
    with pytest.raises(ValueError, match=r"4800000000 bytes of inputs, but DRAM windows have"):
        compile_network(random_network(1, [40, 30], 100_000_000), Config())
    with pytest.raises(ValueError, match=r"^Layer 'fc0': Rounding must be one of \['tflite'\], "):
        compile_network(network, Config(roundings=("tflite",)))
    with pytest.raises(ValueError, match=r"need 13\d rows \(2\d+ bytes\) to stay, the unified"):
        compile_pair(network, Config(ub_rows=64))
