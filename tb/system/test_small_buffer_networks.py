"""A network that is cut into columns and channel blocks, on the Verilated chip."""

import numpy as np
import pytest
from compiler.plain_layers import random_requantization
from compiler.random_compilations import Compilation

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.graph.layers import Concat, Conv, Depthwise, Image, LayerGraph, Pool
from tpulite_rtl.verilated.rtl_device import RtlDevice

# A machine of the other system tests, whose simulator is there.
CONFIG = Config(array_size=4, ub_rows=256, acc_rows=64, ub_banks=4, queue_depth=4)


def network() -> LayerGraph:
    """Return layers of which a row of all channels, or all records, would fill the buffer."""
    rng = np.random.default_rng(3)

    def weights(*shape: int) -> np.ndarray:
        return rng.integers(-128, 128, shape, dtype=np.int8)

    def names(output: str, *inputs: str) -> dict:
        return {"name": output, "inputs": inputs, "output": output}

    layers = (
        Conv(
            **names("wide", "x"),
            weight=weights(3, 3, 5, 60),
            requantization=random_requantization(rng, 60, 30_000),
            padding=(1, 1, 1, 1),
            input_zero_point=7,
        ),
        Depthwise(
            **names("filtered", "wide"),
            weight=weights(5, 5, 60),
            requantization=random_requantization(rng, 60, 30_000),
            padding=(2, 2, 2, 2),
            weight_zero_point=-4,
        ),
        Pool(**names("pooled", "filtered"), op="max", window=(3, 3), padding=(1, 1, 1, 1)),
        Concat(**names("joined", "x", "pooled"), axis=2),
    )
    shapes = {"x": 5, "wide": 60, "filtered": 60, "pooled": 60, "joined": 65}
    images = {name: Image((6, 40, channels)) for name, channels in shapes.items()}
    return LayerGraph("small", layers, images, ("x",), ("joined",))


@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_layers_cut_into_columns_and_channels(stall: float) -> None:
    case = Compilation(network(), CONFIG, Options())
    program = case.compile()
    device = RtlDevice(CONFIG, dram_bytes=1 << 22, stall=stall, jitter=int(50 * stall), seed=1)
    case.run(program, "golden")
    case.run(program, device)
