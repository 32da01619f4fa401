import numpy as np
import pytest

from tpulite.quant.exactness import Exactness
from tpulite.runtime.inputs import as_inputs, check_inputs, random_inputs
from tpulite_testing.graphs.model_graphs import single, tensor


def graph(shape=(1, 9, 6, 2), dtype="int8"):
    return single("relu", [tensor("x", shape, dtype)], [tensor("y", shape, dtype)])


def test_random_integers_cover_their_range_and_repeat():
    drawn = random_inputs(graph(), 40, seed=7)["x"]
    assert drawn.shape == (40, 9, 6, 2) and drawn.dtype == np.int8
    assert drawn.min() == -128 and drawn.max() == 127
    np.testing.assert_array_equal(drawn, random_inputs(graph(), 40, seed=7)["x"])
    assert (drawn != random_inputs(graph(), 40, seed=8)["x"]).any()
    assert random_inputs(graph(dtype="uint8"), 8, seed=7)["x"].max() == 255


def test_every_other_image_is_coarse():
    fine, coarse = random_inputs(graph(), 2, seed=7)["x"]
    assert (coarse[:4, :4] == coarse[0, 0]).all() and (coarse[8:, 4:] == coarse[8, 5]).all()
    assert (coarse[:4, :4] != coarse[4:8, :4]).any()
    assert (fine[:4, :4] != fine[0, 0]).any()


def test_random_floats_reach_beyond_what_can_be_quantized():
    x, y = tensor("x", (1, 500), "float32"), tensor("y", (1, 500), "int8", (0.5, -28))
    drawn = random_inputs(single("quantize", [x], [y]), 20, seed=7)["x"]
    assert drawn.dtype == np.float32
    assert -52 < drawn.min() < -50 and 77.5 < drawn.max() < 79


@pytest.mark.parametrize(("batch", "rows", "count"), [(1, 1, 1), (1, 3, 3), (2, 2, 1), (2, 6, 3)])
def test_inputs_are_counted_along_the_first_axis(batch, rows, count):
    values = np.zeros((rows, 4), np.int8)
    checked, found = check_inputs(graph((batch, 4)), values)
    assert found == count
    assert checked["x"].shape == (count, batch, 4)


@pytest.mark.parametrize("batch", [1, 2])
def test_each_input_may_have_its_batch(batch):
    """Samples for ``quantize`` may have, too."""
    values = np.arange(12 * batch, dtype=np.int8).reshape(3, batch, 4)
    checked, found = check_inputs(graph((batch, 4)), values)
    assert found == 3
    np.testing.assert_array_equal(checked["x"], values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((1, 4), np.uint8), r"^Input 'x' must be int8, not uint8$"),
        (np.zeros((2, 5), np.int8), r"^Input 'x' must have shape \[n, 4\], not \[2, 5\]$"),
        (np.zeros(4, np.int8), r"^Input 'x' must have shape \[n, 4\], not \[4\]$"),
        (np.zeros((0, 4), np.int8), r"^Input 'x' has no elements: its shape is \[0, 4\]$"),
        ({"z": np.zeros((1, 4), np.int8)}, r"^Inputs must be \['x'\], not \['z'\]$"),
    ],
)
def test_wrong_inputs_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        check_inputs(graph((1, 4)), values)


def test_int8_of_a_file_becomes_the_uint8_that_the_library_has_made_of_it():
    values = np.array([[-128, -1, 0, 127]], np.int8)
    uint8 = tensor("x/uint8.nhwc", (1, 4), "uint8")
    found, said = as_inputs(values, uint8, Exactness.ORT)
    assert found.dtype == np.uint8 and found.tolist() == [[0, 127, 128, 255]]
    assert said == "int8 in the file, with 128 added"
    with pytest.raises(ValueError, match="is uint8, 0 to 255, and the values"):
        as_inputs(values, tensor("x.nhwc", (1, 4), "uint8"), Exactness.ORT)
