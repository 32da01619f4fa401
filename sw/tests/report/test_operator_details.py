"""What a page says of tensors: scales, zero points and histograms are those of the file."""

import numpy as np
import pytest

from tpulite.graph.graph import Graph, Node, Quantization, Tensor
from tpulite.report.operator_details import Histogram, describe_operators


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_each_integer_of_a_narrow_range_has_a_bin(dtype: str) -> None:
    values = np.repeat(np.arange(3, 8), [1, 5, 0, 7, 20]).astype(dtype)
    assert Histogram.of(values) == Histogram(3, 7, (1, 5, 0, 7, 20))


def test_the_ends_of_int8_are_in_the_first_and_last_bin() -> None:
    found = Histogram.of(np.arange(-128, 128, dtype=np.int8))
    assert found == Histogram(-128, 127, (8,) * 32)


def test_floats_have_bins_of_equal_width_and_others_do_not_count() -> None:
    values = np.append(np.linspace(0, 1, 64), [np.nan, np.inf]).astype(np.float32)
    found = Histogram.of(values)
    assert found is not None and (found.low, found.high) == (0, 1)
    assert sum(found.counts) == 64 and set(found.counts) == {2}


@pytest.mark.parametrize("values", [np.arange(16), np.full(20, np.nan), np.full(20, "a")])
def test_few_values_and_what_is_no_number_have_no_histogram(values: np.ndarray) -> None:
    assert Histogram.of(values) is None


def test_scales_of_channels_are_a_range() -> None:
    scales = np.array([0.5, 0.25, 2.0], np.float32)
    channels = Quantization(scales, np.zeros(3, np.int64), 0)
    one = Quantization(np.array([0.1], np.float32), np.array([-3]))
    tensors = {
        "x": Tensor("x", (1, 4), "int8", one),
        "w": Tensor("w", (3, 4), "int8", channels, np.zeros((3, 4), np.int8)),
        "y": Tensor("y", (1, 3), "float32"),
    }
    attributes = {
        "keep_dims": True,
        "axes": (1, 2),
        "alpha": 0.1,
        "steps": (("a", 1), ("b", 2)),
        "ids": 20 * (1,),
    }
    node = Node("dense", "dense", ("x", "w", ""), ("y",), attributes)
    details = describe_operators(Graph("net", (node,), tensors, ("x",), ("y",), "tflite"))["dense"]
    assert details.attributes == {
        **{"keep dims": "yes", "axes": "1, 2", "alpha": "0.1"},
        **{"steps": "2 values", "ids": "20 values"},
    }
    found = [(x.role, x.name, x.shape, x.scale, x.zero_point) for x in details.tensors]
    assert found == [
        ("input", "x", "1x4", "0.1", "-3"),
        ("constant", "w", "3x4", "0.25 to 2 (3 along axis 0)", "0"),
        ("output", "y", "1x3", "", ""),
    ]
