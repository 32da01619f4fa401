from itertools import pairwise

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.memory import PAGE_BYTES
from tpulite.arch.numerics import Rounding
from tpulite.compiler import compile_layers
from tpulite.golden.layers import run_layers
from tpulite.graph.layers import Activation, Conv, LayerGraph
from tpulite.quant.exactness.scaling import make_requantization
from tpulite.runtime.golden_device import GoldenDevice
from tpulite.runtime.session import Session

CONFIG = Config()


LAYER = Conv(
    name="fc",
    inputs=("input",),
    output="output",
    weight=np.arange(-60, 60, dtype=np.int8).reshape(1, 1, 20, 6),
    requantization=make_requantization(0.01, Rounding.FLOAT32, bias=np.arange(6) * 100),
)
LAYERS = LayerGraph(
    "net",
    (LAYER,),
    {"input": Activation((3, 1, 20)), "output": Activation((3, 1, 6))},
    ("input",),
    ("output",),
)


def due(values):
    return run_layers(LAYERS, {"input": values})["output"]


@pytest.fixture(scope="module")
def program():
    return compile_layers(LAYERS, CONFIG)


def inputs(seed=0):
    return np.random.default_rng(seed).integers(-128, 128, (3, 1, 20), dtype=np.int8)


def test_runs_again_with_other_inputs(program):
    session = Session(program)
    for seed in range(3):
        results = session.run(inputs(seed))
        np.testing.assert_array_equal(results.output, due(inputs(seed)))
        assert results.fault is None
        assert results.cycles is None
        assert session.run({"input": inputs(seed)}).outputs.keys() == {"output"}


def test_programs_lie_side_by_side(program):
    device = GoldenDevice(CONFIG)
    first = Session(program, device)
    second = Session(program, device, base=first.end)
    assert second.job.windows[0].base >= first.end
    spans = sorted(
        (window.base, window.base + window.size)
        for session in (first, second)
        for window in session.job.windows
    )
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    for session in (first, second, first):
        np.testing.assert_array_equal(session.run(inputs()).output, due(inputs()))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (inputs().astype(np.uint8), "Tensor 'input' must be int8, not uint8"),
        (inputs()[:2], "Tensor 'input' must have shape (3, 1, 20), not (2, 1, 20)"),
        ({"x": inputs()}, "Inputs must be ['input'], not ['x']"),
        ({}, "Inputs must be ['input'], not []"),
    ],
)
def test_wrong_inputs_are_named_and_not_written(program, values, message):
    session = Session(program)
    session.run(inputs())
    before = session.device.read(0, session.end)
    with pytest.raises(ValueError) as error:
        session.run(values)
    assert str(error.value) == message
    np.testing.assert_array_equal(session.device.read(0, session.end), before)


def test_other_machines_are_refused(program):
    with pytest.raises(ValueError) as error:
        Session(program, GoldenDevice(Config(array_size=8)))
    assert str(error.value) == (
        f"the program is compiled for the configuration with hash {CONFIG.hash:#010x}, "
        f"and the device has {Config(array_size=8).hash:#010x}"
    )


def test_small_dram_is_refused(program):
    device = GoldenDevice(CONFIG, dram_bytes=3 * PAGE_BYTES)
    with pytest.raises(ValueError, match=r"^The program needs \d+ bytes .* the device has 12288$"):
        Session(program, device)
    assert not device.read(0, device.dram_bytes).any()
    end = Session(program).end
    Session(program, GoldenDevice(CONFIG, dram_bytes=end))
    with pytest.raises(ValueError, match=rf"^The program needs {end} bytes of DRAM"):
        Session(program, GoldenDevice(CONFIG, dram_bytes=end - 1))


def test_unknown_device_is_named(program):
    with pytest.raises(ValueError, match=r"^abacus: no such device; choose from golden, "):
        Session(program, "abacus")


def test_a_fault_has_no_output_and_the_next_run_works(program):
    session = Session(program)
    constants = session.job.windows[0].base
    broken = GoldenDevice(CONFIG, read_errors=[range(constants, constants + 1)])
    results = Session(program, broken).run(inputs())
    assert results.fault is not None and results.fault.code.name == "READ"
    assert not results.outputs
    with pytest.raises(RuntimeError, match="has no output"):
        _ = results.output
    other = Session(program, broken, base=constants + PAGE_BYTES)
    np.testing.assert_array_equal(other.run(inputs()).output, due(inputs()))
