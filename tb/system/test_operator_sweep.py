"""Operators on the Verilated chip against LiteRT itself, element by element."""

import os
from collections.abc import Iterable

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.arch.config import Config
from tpulite.arch.numerics import Rounding
from tpulite.frontend.tflite.file import load_tflite
from tpulite.quant.exactness import Exactness
from tpulite.quant.place import place
from tpulite.runtime.model import Model
from tpulite.runtime.session import Session
from tpulite_tb.machines import DEFAULT, SMALL
from tpulite_testing.drawn.movement_cases import movement_case
from tpulite_testing.drawn.operator_cases import WINDOWS, Case, cases
from tpulite_testing.drawn.range_cases import config_name
from tpulite_testing.graphs.lowered import lower_graph
from tpulite_testing.kept import kept_program
from tpulite_testing.oracles.litert import KERNELS, moved_by_litert, run_litert
from tpulite_testing.quick_options import quick_options
from tpulite_testing.regress import REGRESS, breadth
from tpulite_verilated.rtl_device import RtlDevice

CASES = int(os.environ.get("TPULITE_RTL_SWEEP", "200"))
"""Cases of each machine; TPULITE_RTL_SWEEP=5000 draws more."""

LARGE_CASES = CASES // 4 if REGRESS else 12
"""Of windows that no command can express: seconds each, so `make regress` draws the others."""

SEED = int(os.environ.get("TPULITE_SWEEP_SEED", "1000"))


@pytest.mark.parametrize(
    "config",
    [
        SMALL,
        DEFAULT,
        *breadth(
            "its simulator takes half a minute, and 8x8 has no form of its own",
            Config(array_size=8),
        ),
    ],
    ids=config_name,
)
def test_the_chip_equals_litert(config, capsys):
    """Kernel sets take turns; what the machine leaves to the host must be the exception."""
    ran, left = compare(config, cases(CASES, seed=SEED))
    with capsys.disabled():
        print(f"\n{ran} operators equal LiteRT's from seed {SEED}, {len(left)} left out: {config}")
    assert ran >= 0.8 * CASES, sorted(left)


def test_the_chip_equals_litert_in_windows_that_no_command_can_express():
    """With a buffer of so few rows that most images come by tiles."""
    drawn = cases(LARGE_CASES, seed=SEED, operators=WINDOWS, large=True)
    ran, left = compare(SMALL, drawn)
    assert ran >= 0.8 * LARGE_CASES, sorted(left)


def test_the_chip_equals_litert_in_layers_of_few_outputs():
    """They compute several pixels at once, which the host puts in place."""
    drawn = cases(CASES // 2, seed=SEED, operators=("conv", "transposed_conv"))
    few = [case for case in drawn if 2 * case.graph.tensors["w"].shape[0] <= DEFAULT.array_size]
    ran, left = compare(DEFAULT, few)
    assert ran >= 10, sorted(left)


@pytest.mark.parametrize("op", ["resize_between", "dilated", "dilated_row"])
def test_the_chip_equals_litert_in_operators_that_become_others(op):
    config = DEFAULT
    device = RtlDevice(config, dram_bytes=1 << 24)
    for seed in range(4):
        case = movement_case(op, seed)
        model = Model.load(load_tflite(case.model), config=config, options=quick_options())
        inputs = dict(zip(model.graph.inputs, case.inputs, strict=True))
        ours = model.run(inputs, device=device).outputs
        for name, theirs in zip(model.graph.outputs, moved_by_litert(case), strict=True):
            np.testing.assert_array_equal(ours[name], theirs, err_msg=f"seed {seed}")


def compare(config: Config, drawn: Iterable[Case]) -> tuple[int, list[str]]:
    """Return how many cases are equal, and the operators that run on the host."""
    device = RtlDevice(config, dram_bytes=1 << 24)
    ran, left = 0, []
    for index, case in enumerate(drawn):
        exactness = list(KERNELS)[index % len(KERNELS)]
        node = case.graph.nodes[-1]
        if place(case.graph, exactness).placements[node.name].engine == "host":
            left.append(node.op)
            continue
        layers = lower_graph(case.graph, exactness)
        if any(set(record.roundings) - _has(config) for record in _records(layers)):
            left.append("rounding")
            continue
        try:
            program = kept_program(layers, config, quick_options())
        except ValueError as error:
            assert "the unified buffer of" in str(error) or "must stay in" in str(error)
            left.append("room")
            continue
        inputs = {
            name: value.reshape(layers.activations[name].shape)
            for name, value in zip(case.graph.inputs, case.inputs, strict=True)
            if name in layers.inputs
        }
        results = Session(program, device).run(inputs)
        assert results.fault is None, case.name
        ours = results.outputs[case.graph.outputs[0]]
        theirs = run_litert(case, exactness)
        differ = int((ours.reshape(theirs.shape) != theirs).sum())
        assert ours.dtype == theirs.dtype
        assert not differ, f"{case.name} ({exactness}): {differ} of {theirs.size} elements differ"
        ran += 1
    return ran, left


def test_the_sweep_can_fail():
    """A bias that is one unit off, which only some elements notice, is found."""
    exactness = Exactness.LITERT_REF
    config = DEFAULT
    drawn = cases(50, seed=SEED, operators=("dense",))
    case = next(case for case in drawn if len(np.unique(run_litert(case, exactness))) > 20)
    layers = lower_graph(case.graph, exactness)
    (layer,) = layers.layers
    layer.requantization.bias.setflags(write=True)
    layer.requantization.bias[:] += 1 << 12
    program = kept_program(layers, config)
    inputs = {layers.inputs[0]: case.inputs[0].reshape(layers.activations[layers.inputs[0]].shape)}
    ours = Session(program, "golden").run(inputs).outputs[case.graph.outputs[0]]
    theirs = run_litert(case, exactness)
    assert not np.array_equal(ours.reshape(theirs.shape), theirs)


def _has(config) -> set[int]:
    return {int(Rounding[name.upper()]) for name in config.roundings}


def _records(layers):
    for layer in layers.layers:
        record = getattr(layer, "requantization", None)
        if record is not None:
            yield record
