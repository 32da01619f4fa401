"""Pictures of inputs on a page: a tensor's elements become pixels, from black to white."""

import base64
from io import BytesIO

import numpy as np
import pytest

from tpulite.report.html.head import picture_url

PREFIX = "data:image/png;base64,"


def pixels(values: np.ndarray) -> np.ndarray:
    image = pytest.importorskip("PIL.Image")
    png = base64.b64decode(picture_url(values).removeprefix(PREFIX))
    return np.asarray(image.open(BytesIO(png)))


def full_range(*shape: int) -> np.ndarray:
    """Return all bytes from 0 to 255, of which pictures keep each as it is."""
    return np.arange(np.prod(shape)).reshape(shape).astype(np.uint8)


@pytest.mark.parametrize("shape", [(1, 16, 24, 1), (16, 24), (1, 1, 16, 24)])
def test_a_plane_is_a_gray_picture(shape: tuple[int, ...]) -> None:
    assert (pixels(full_range(*shape)) == full_range(16, 24)).all()


def test_three_channels_are_colors_first_or_last() -> None:
    last = full_range(16, 24, 3)
    assert (pixels(last[None]) == last).all()
    assert (pixels(last.transpose(2, 0, 1)[None]) == last).all()


def test_a_square_vector_is_a_picture() -> None:
    assert (pixels(full_range(1, 256)) == full_range(16, 16)).all()


def test_the_least_value_is_black_and_the_largest_white() -> None:
    values = np.linspace(-1.5, 2.5, 256, dtype=np.float32).reshape(1, 16, 16, 1)
    assert (pixels(values) == full_range(16, 16)).all()
    assert (pixels(np.full((4, 4), -7, np.int8)) == 0).all()


@pytest.mark.parametrize(
    "values",
    [
        np.zeros((1, 4, 4, 2), np.int8),
        np.zeros((1, 10), np.int8),
        np.zeros((2, 4, 4, 3), np.int8),
        np.full((1, 4, 4, 1), np.nan, np.float32),
        np.zeros((4, 4), bool),
        np.zeros((), np.int8),
    ],
)
def test_others_are_no_pictures(values: np.ndarray) -> None:
    assert picture_url(values) == ""
