"""Text in pictures: regions of a map, pictures that fit, and letters of shares."""

import numpy as np
import pytest

pytest.importorskip("PIL", reason="Pillow is missing (pip install pillow)")
from PIL import Image

from tpulite.language.reading import Box, find_lines, fit_picture, letters, read_alphabet


def test_letters_are_the_best_without_repetitions_and_gaps():
    steps = [0, 1, 1, 0, 1, 2, 2, 3, 0, 0]
    assert letters(np.eye(4)[steps], ["", "a", "b", " "]) == "aab "


def test_an_alphabet_is_in_the_file_or_the_message_says_that_it_is_not(tmp_path):
    onnx = pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
    graph = onnx.helper.make_graph([], "net", [], [])
    model, path = onnx.helper.make_model(graph), tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match=r"net.onnx: no letters: .* 'character'"):
        read_alphabet(path)
    onnx.helper.set_model_props(model, {"character": "a\nß"})
    path.write_bytes(model.SerializeToString())
    assert read_alphabet(path) == ["", "a", "ß", " "]


def test_a_picture_fits_and_keeps_its_shape():
    for size, inside, scale in (((200, 100), (40, 80), 0.4), ((30, 60), (48, 24), 0.8)):
        pixels, by = fit_picture(Image.new("RGB", size, (255, 0, 255)), 48, 80)
        wanted = np.zeros((3, 48, 80), np.float32)
        wanted[:, : inside[0], : inside[1]] = np.array([1, -1, 1]).reshape(3, 1, 1)
        assert (pixels == wanted).all() and by == scale


def test_lines_are_regions_that_are_sure_with_a_margin():
    shares = np.zeros((40, 60))
    shares[10:14, 5:45] = 0.9
    shares[25:35, 20] = shares[25, 20:30] = 0.9  # an angle is one region
    shares[30, 50] = 0.9  # too small
    shares[2:6, 50:58] = 0.4  # not sure
    margins = round(1.6 * 4 * 40 / 88), round(1.6 * 10 * 10 / 40)
    assert find_lines(shares) == [
        Box(5 - margins[0], 10 - margins[0], 45 + margins[0], 14 + margins[0]),
        Box(20 - margins[1], 25 - margins[1], 30 + margins[1], 35 + margins[1]),
    ]
    assert find_lines(np.zeros((4, 4))) == []


def test_a_box_of_a_scaled_picture_lies_in_the_picture():
    image = Image.new("RGB", (20, 10))
    assert Box(2, 4, 8, 6).unscaled(0.5, image) == Box(4, 8, 16, 10)
    assert Box(16, 8, 400, 200).unscaled(8, image) == Box(2, 1, 20, 10)  # zeros fill the rest
    assert Box(3, 0, 4, 1).unscaled(8, image) == Box(0, 0, 1, 1)
    assert Box(300, 200, 310, 210).unscaled(8, image) == Box(19, 9, 20, 10)
