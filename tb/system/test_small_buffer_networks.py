"""A network that is cut into columns and channel blocks, on the Verilated chip."""

import numpy as np
import pytest

from tpulite.compiler.options import Options
from tpulite.graph.layers import Activation, Concat, Conv, Depthwise, LayerGraph, Lut
from tpulite_tb.machines import SMALL
from tpulite_testing.drawn.compilations import Compilation
from tpulite_testing.oracles.plain_layers import random_requantization
from tpulite_testing.regress import breadth
from tpulite_verilated.rtl_device import RtlDevice


def network(width: int) -> LayerGraph:
    """Return layers of which a row of all channels, or all records, would fill the buffer."""
    rng = np.random.default_rng(3)

    def weights(*shape: int) -> np.ndarray:
        return rng.integers(-128, 128, shape, dtype=np.int8)

    def names(output: str, *inputs: str) -> dict:
        return {"name": output, "inputs": inputs, "output": output}

    layers = (
        Conv(
            **names("wide", "x"),
            weight=weights(3, 3, 5, 58),
            requantization=random_requantization(rng, 58, 30_000),
            padding=(1, 1, 1, 1),
            input_zero_point=7,
        ),
        Depthwise(
            **names("filtered", "wide"),
            weight=weights(5, 5, 58),
            requantization=random_requantization(rng, 58, 30_000),
            padding=(2, 2, 2, 2),
            weight_zero_point=-4,
        ),
        Lut(**names("table", "filtered"), table=weights(256)),
        Concat(**names("joined", "filtered", "table"), axis=2),
        Conv(
            **names("dense", "joined"),
            weight=weights(6, 4, 116, 8),
            requantization=random_requantization(rng, 8, 300_000),
            stride=(1, 4),
        ),
    )
    shapes = {"x": 5, "wide": 58, "filtered": 58, "table": 58, "joined": 116}
    images = {name: Activation((6, width, channels)) for name, channels in shapes.items()}
    images["dense"] = Activation((1, width // 4, 8))
    return LayerGraph("small", layers, images, ("x",), ("dense",))


@pytest.mark.parametrize(
    ("width", "stall"), [(39, 0.3), *breadth("rows of whole beats are easier", (40, 0.0))]
)
def test_layers_cut_into_columns_and_channels(width: int, stall: float) -> None:
    """Rows of 39 vectors of 4 bytes do not begin at beats; in DRAM there is a gap between them."""
    case = Compilation(network(width), SMALL, Options())
    program = case.compile()
    device = RtlDevice(SMALL, dram_bytes=1 << 22, stall=stall, jitter=int(50 * stall), seed=1)
    case.run(program, "golden")
    case.run(program, device)
