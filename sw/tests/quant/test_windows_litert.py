"""Averages that the array sums, and maxima in two passes, against LiteRT on the file itself."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("flatbuffers", reason="flatbuffers is missing (pip install flatbuffers)")
from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.runtime.model import Model
from tpulite_testing.files.tflite_builder import Builder
from tpulite_testing.oracles.model_tensors import equals_library

MACHINES = {
    "16": Config(),
    "16, small": Config(ub_rows=512, acc_rows=64),
    "8, few lanes": Config(array_size=8, requant_lanes=2, vector_lanes=4, ub_rows=1024),
    "4": Config(array_size=4, ub_rows=512, acc_rows=64, ub_banks=4),
}
AVERAGES = {
    "3x3": ((13, 14, 20), (3, 3), {"padding": "SAME"}),
    "5x5": ((11, 12, 20), (5, 5), {"padding": "SAME"}),
    "4x3 VALID": ((12, 17, 9), (4, 3), {"activation": "RELU"}),
    "1x7": ((9, 20, 5), (1, 7), {"padding": "SAME", "activation": "RELU6"}),
    "3x3 s2": ((25, 52, 17), (3, 3), {"padding": "SAME", "stride": (2, 2)}),
    "4x4 s1x2": ((16, 23, 6), (4, 4), {"padding": "SAME", "stride": (1, 2)}),
}


def file_of(code: str, shape, window, *, dtype: str = "int8", between: bool = False, **fields):
    """Return a file with a pool; ``between``: behind a convolution and before one."""
    b, rng = Builder(dtype), np.random.default_rng(sum(window))
    zero = 3 if dtype == "int8" else 131
    x = b.input((1, *shape), 0.05, zero)

    def product(x: int) -> int:
        weight = rng.integers(-127, 128, (shape[2], 1, 1, shape[2])).astype(np.int8)
        bias = rng.integers(-500, 500, shape[2])
        return b.conv(x, weight, bias, weight_scale=0.004, scale=0.05, zero_point=zero)

    y = b.pool(code, product(x) if between else x, window, **fields)
    return b.build(product(y) if between else y)


def opcodes(model: Model) -> set[Opcode]:
    return {command.opcode for program in model.programs for command in program.commands}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("case", AVERAGES)
def test_averages_on_the_array(case: str, machine: str, tmp_path: Path) -> None:
    shape, window, fields = AVERAGES[case]
    data = file_of("AVERAGE_POOL_2D", shape, window, **fields)
    model = equals_library(tmp_path, data, config=MACHINES[machine])
    assert Opcode.CONV in opcodes(model) or machine != "16"


@pytest.mark.parametrize("machine", MACHINES)
def test_averages_between_convolutions(machine: str, tmp_path: Path) -> None:
    data = file_of("AVERAGE_POOL_2D", (13, 14, 20), (3, 3), between=True, padding="SAME")
    equals_library(tmp_path, data, config=MACHINES[machine])


def test_averages_of_uint8(tmp_path: Path) -> None:
    data = file_of("AVERAGE_POOL_2D", (13, 14, 20), (4, 4), dtype="uint8", padding="SAME")
    assert Opcode.CONV in opcodes(equals_library(tmp_path, data, config=MACHINES["16"]))


MAXIMA = {
    "5x5": ((11, 12, 20), (5, 5), {"padding": "SAME"}),
    "3x7": ((9, 20, 17), (3, 7), {"padding": "SAME", "activation": "RELU6"}),
    "13x13": ((7, 9, 5), (13, 13), {"padding": "SAME", "activation": "RELU"}),
    "5x3 VALID": ((12, 17, 9), (5, 3), {}),
    "6x6 s1x2": ((16, 23, 6), (6, 6), {"padding": "SAME", "stride": (1, 2)}),
}


@pytest.mark.parametrize("machine", ["16", "16, small", "4"])
@pytest.mark.parametrize("case", MAXIMA)
def test_maxima_along_one_axis_and_the_other(case: str, machine: str, tmp_path: Path) -> None:
    shape, window, fields = MAXIMA[case]
    data = file_of("MAX_POOL_2D", shape, window, **fields)
    model = equals_library(tmp_path, data, config=MACHINES[machine])
    windows = {
        (command["window_rows"], command["window_columns"])
        for program in model.programs
        for command in program.commands
        if command.opcode == Opcode.VECTOR
    }
    assert all(1 in window for window in windows) or machine != "16"
    assert windows


def test_maxima_between_convolutions(tmp_path: Path) -> None:
    """Tiles of what is in the buffer altogether have nothing to load."""
    for shape in ((13, 14, 20), (14, 14, 480)):
        data = file_of("MAX_POOL_2D", shape, (5, 5), between=shape[2] < 100, padding="SAME")
        equals_library(tmp_path, data, config=MACHINES["16"])
