"""Softmax on the Verilated chip: every share, and the cycles that the model says."""

import numpy as np
import pytest

from tpulite.golden.layers import run_layers
from tpulite.golden.timing import predict
from tpulite.graph.layers import Activation, LayerGraph, Softmax
from tpulite.quant.exactness.softmax import fixed_point_exponentials
from tpulite.runtime.session import Session
from tpulite_tb.machines import DEFAULT, FEW_LANES
from tpulite_testing.drawn.range_cases import config_name
from tpulite_testing.kept import kept_program
from tpulite_verilated.rtl_device import RtlDevice


@pytest.mark.parametrize("config", [FEW_LANES, DEFAULT], ids=config_name)
def test_the_chip_computes_softmax(config):
    """Of few and many channels, of blocks that are full or not, alike, far apart and drawn."""
    device, rng = RtlDevice(config, dram_bytes=1 << 22), np.random.default_rng(11)
    for shape, scale in (
        ((3, 20, 29), 0.05),
        ((1, 7, 5), 0.4),
        ((2, 9, 64), 0.01),
        ((1, 40, 150), 2),
    ):
        x = rng.integers(-128, 128, shape).astype(np.int8)
        x[0, 0], x[0, 1] = 127, -128
        x[0, 2] = np.where(np.arange(shape[2]) == 1, 127, -128)
        words = fixed_point_exponentials(scale, 1.0).astype(np.int32)
        layer = Softmax(name="softmax", inputs=("x",), output="y", words=words)
        images = {"x": Activation(shape), "y": Activation(shape)}
        layers = LayerGraph("softmax", (layer,), images, ("x",), ("y",))
        program = kept_program(layers, config)
        results = Session(program, device).run({"x": x})
        assert results.fault is None
        np.testing.assert_array_equal(results.outputs["y"], run_layers(layers, {"x": x})["y"])
        predicted = predict(program.commands, config).cycles
        assert results.cycles is not None
        assert abs(predicted / results.cycles - 1) <= 0.01, (shape, predicted, results.cycles)
