"""Pooling windows that do not fit the unified buffer, on the Verilated chip: bits and cycles."""

import numpy as np
import pytest

from tpulite.arch.numerics import Rounding
from tpulite.golden.layers import run_layers
from tpulite.golden.timing import predict_cycles
from tpulite.graph.layers import Activation, LayerGraph, Pool, Requantization
from tpulite.runtime.session import Session
from tpulite_tb.machines import FEW_LANES, FEW_ROWS, SMALL
from tpulite_testing.kept import kept_program
from tpulite_testing.regress import thinned
from tpulite_verilated.rtl_device import RtlDevice

MACHINES = {
    "4x4": SMALL,
    "8x8": FEW_LANES,
    "16x16": FEW_ROWS,
}
# The smallest one is busy fetching commands of 16 cycles each, which the model is not made for.
TOLERANCE = {"4x4": 0.05, "8x8": 0.02, "16x16": 0.02}

# Activation, window and stride; the last one has lines that are too long for a tile.
GEOMETRIES = {
    "all of an image": ((48, 50, 20), (48, 50), (1, 1)),
    "side by side": ((60, 64, 16), (60, 32), (60, 32)),
    "overlapping": ((64, 40, 16), (50, 30), (7, 5)),
    "long rows": ((3, 900, 8), (3, 800), (1, 50)),
}
MEAN = Requantization(
    multiplier=np.array([1 << 30]),
    shift=np.array([-9]),
    bias=np.array([1000], np.int32),
    rounding=Rounding.TFLITE,
    zero_point=5,
)


@pytest.mark.parametrize("op", ["average", "max", "sum"])
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize(
    "machine", thinned(MACHINES, "4x4", "8x8", reason="its simulator takes a minute")
)
def test_large_windows_are_exact_and_as_fast_as_predicted(
    machine: str, geometry: str, op: str, capsys
) -> None:
    config = MACHINES[machine]
    shape, window, stride = GEOMETRIES[geometry]
    layer = Pool(
        name="pool",
        inputs=("x",),
        output="y",
        op=op,
        window=window,
        stride=stride,
        requantization=MEAN if op == "sum" else None,
    )
    images = {"x": Activation(shape), "y": layer._infer(Activation(shape))}
    graph = LayerGraph("pool", (layer,), images, ("x",), ("y",))
    program = kept_program(graph, config)
    x = np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)
    results = Session(program, RtlDevice(config, dram_bytes=1 << 20)).run({"x": x})
    expected = run_layers(graph, {"x": x})["y"]
    np.testing.assert_array_equal(results.outputs["y"].reshape(expected.shape), expected)
    predicted = predict_cycles(program.commands, config)
    with capsys.disabled():
        print(f"\n{machine}, {geometry}, {op}: {results.cycles:,} predicted cycles {predicted:,}")
    assert results.cycles == pytest.approx(predicted, rel=TOLERANCE[machine])
