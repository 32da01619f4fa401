"""Operators and blocks of LiteRT's int16x8 on the golden machine: the library's bits."""

from dataclasses import replace

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.graph.layers import Conv
from tpulite.graph.requantization import IDENTITY
from tpulite.runtime.model import Model
from tpulite_testing.files.tflite_builder import Builder
from tpulite_testing.graphs.int16_blocks import BLOCKS
from tpulite_testing.graphs.int16_operators import OPERATORS
from tpulite_testing.oracles.model_tensors import proven_equal

KERNELS = ("litert-ref", "litert-opt", "litert-xnnpack", "tflm")
CONFIGS = (
    Config(int16=True),
    Config(array_size=4, ub_rows=1024, acc_rows=64, int16=True),
    Config(array_size=4, ub_rows=256, acc_rows=32, ub_banks=4, int16=True),
)


def _compiled(tmp_path, data: bytes, config: Config, kernels: str, seed: int) -> Model:
    """Write a network, and compare its proven programs with the library."""
    path = tmp_path / "wide.tflite"
    path.write_bytes(data)
    return proven_equal(path, config, kernels, seed)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("seed", range(4))
def test_operators_are_those_of_the_library(tmp_path, name: str, seed: int):
    kernels = KERNELS[seed]
    if (name, kernels) == ("relu6", "tflm"):
        pytest.skip("TensorFlow Lite Micro leaves the result as it was")
    config = CONFIGS[seed % len(CONFIGS)]
    model = _compiled(tmp_path, OPERATORS[name](seed), config, kernels, seed)
    doubles = name == "dense behind a reshape" and kernels != "tflm"
    assert doubles or not model.plan.hosts


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("seed", range(2))
def test_blocks_are_those_of_the_library(tmp_path, name: str, seed: int):
    model = _compiled(tmp_path, BLOCKS[name](seed), CONFIGS[0], KERNELS[3 * seed], seed)
    assert not model.plan.hosts


def _sum(scales: tuple[float, float, float], shape: tuple[int, ...], code: str = "ADD") -> bytes:
    m = Builder("int16")
    a, b = (m.input(shape, scale) for scale in scales[:2])
    return m.build(m.elementwise(code, a, b, scales[2]))


@pytest.mark.parametrize("code", ["ADD", "SUB"])
@pytest.mark.parametrize("shift", [1, 2, 5, 8, 9, 15])
def test_sums_are_those_of_the_library_however_far_scales_are_apart(
    tmp_path, shift: int, code: str
):
    kernels = KERNELS[(shift + (code == "SUB")) % len(KERNELS)]
    scales = 0.01, 0.01 / 2**shift * 1.37, 0.01 / 2 ** (shift // 2)
    swapped = (*scales[1::-1], scales[2]) if shift % 2 else scales
    data = _sum(swapped, (1, 8, 16, 5), code)
    _compiled(tmp_path, data, CONFIGS[shift % 3], kernels, shift)


def test_scales_that_are_too_far_apart_stay_with_the_library(tmp_path):
    path = tmp_path / "wide.tflite"
    path.write_bytes(_sum((1.0, 2.0**-17, 1.0), (1, 3, 3, 5)))
    (operator,) = Model.load(path, config=CONFIGS[0]).summary()
    assert "too far apart" in operator.reason


def test_last_elements_that_vector_code_rounds_differently_stay_with_the_library(tmp_path):
    path = tmp_path / "wide.tflite"
    path.write_bytes(_sum((0.01, 0.007, 0.01), (1, 17)))
    (operator,) = Model.load(path, config=CONFIGS[0], exact="litert-opt").summary()
    assert "rounds the last 1 elements differently" in operator.reason
    (operator,) = Model.load(path, config=CONFIGS[0], exact="litert-ref").summary()
    assert operator.where != "host"


@pytest.mark.parametrize(
    ("digits", "wide", "match"),
    [
        pytest.param([0, 4], True, "beyond int32", id="digit"),
        pytest.param([0], True, "digits of its channels", id="length"),
        pytest.param([0, 1], False, "must be of int16", id="int8"),
    ],
)
def test_digits_must_fit_weights(digits: list[int], wide: bool, match: str):
    bits = {"bits": 16, "low": -32768, "high": 32767} if wide else {}
    record = replace(IDENTITY, **bits)
    with pytest.raises(ValueError, match=match):
        Conv(
            name="a",
            inputs=("x",),
            output="y",
            weight=np.ones((1, 1, 2, 3), np.int8),
            requantization=record,
            int16=wide,
            digits=np.array(digits, np.int64),
        )
