"""Pictures become the values that a network was trained with."""

import numpy as np
import pytest

from tpulite.graph.graph import Graph, Node, Quantization, Tensor
from tpulite.quant.exactness import Exactness
from tpulite.runtime.pictures import load_picture

Image = pytest.importorskip("PIL.Image", reason="Pillow is missing (pip install pillow)")

RAMP = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3) * 4
REF = Exactness.LITERT_REF


def quantization(scale, zero_point):
    return Quantization(np.array([scale], np.float32), np.array([zero_point]))


def graph(shape, dtype, meaning=None, behind=None):
    """Make a graph with one input, perhaps with a QUANTIZE behind it."""
    tensors = {"x": Tensor("x", shape, dtype, meaning)}
    nodes = ()
    if behind is not None:
        tensors["q"] = Tensor("q", shape, "int8", behind)
        nodes = (Node("quantize", "quantize", ("x",), ("q",)),)
    return Graph("net", nodes, tensors, ("x",), ("q" if behind else "x",), "tflite")


@pytest.fixture
def path(tmp_path):
    Image.fromarray(RAMP).save(tmp_path / "ramp.png")
    return tmp_path / "ramp.png"


@pytest.mark.parametrize(("scale", "zero_point"), [(1 / 128, 0), (1 / 255, -128), (1, -128)])
def test_pixels_cover_all_integers_of_the_input(path, scale, zero_point):
    net = graph((1, 4, 5, 3), "int8", quantization(scale, zero_point))
    np.testing.assert_array_equal(load_picture(path, net, REF)[0], RAMP.astype(int) - 128)
    plain = graph((1, 4, 5, 3), "uint8")
    np.testing.assert_array_equal(load_picture(path, plain, REF)[0], RAMP)


def test_floats_have_the_range_that_the_network_quantizes(path):
    net = graph((1, 4, 5, 3), "float32", behind=quantization(1 / 128, 0))
    values = load_picture(path, net, REF)
    np.testing.assert_allclose(values[0], RAMP / 128 - 1, atol=1e-6)
    assert values.dtype == np.float32
    first = load_picture(path, graph((1, 3, 4, 5), "float32"), Exactness.ORT)
    np.testing.assert_allclose(first[0], RAMP.transpose(2, 0, 1) / 255, atol=1e-6)


def test_black_and_white_can_be_said(path):
    net = graph((1, 4, 5, 3), "int8", quantization(1 / 64, 0))
    values = load_picture(path, net, REF, (-1, 1))
    np.testing.assert_array_equal(values[0], np.floor((RAMP / 127.5 - 1) * 64 + 0.5))


def test_pictures_are_resized_grayed_and_turned(tmp_path, path):
    picture = Image.fromarray(RAMP)
    small = picture.convert("L").resize((2, 3), Image.Resampling.BILINEAR)
    values = load_picture(path, graph((1, 3, 2, 1), "uint8"), REF)
    np.testing.assert_array_equal(values[0, ..., 0], np.asarray(small))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned right by 90 degrees
    picture.save(tmp_path / "turned.png", exif=exif)
    values = load_picture(tmp_path / "turned.png", graph((1, 5, 4, 3), "uint8"), REF)
    np.testing.assert_array_equal(values[0], np.rot90(RAMP, -1))


def test_what_is_no_picture_is_refused(tmp_path, path):
    with pytest.raises(
        ValueError, match=r"^Input 'x' of net is not an image: its shape is \[1, 60"
    ):
        load_picture(path, graph((1, 60), "uint8"), REF)
    deep = tmp_path / "deep.png"
    Image.fromarray(np.arange(16, dtype=np.uint16).reshape(4, 4)).save(deep)
    with pytest.raises(ValueError, match=r"deep\.png is not .*more than 8 bits"):
        load_picture(deep, graph((1, 4, 4, 1), "uint8"), REF)
