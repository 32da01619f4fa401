"""Pictures as inputs of networks."""

import warnings
from pathlib import Path

import numpy as np

from tpulite.graph.graph import Graph
from tpulite.needs import require_package
from tpulite.quant.exactness import Exactness
from tpulite.runtime.inputs import input_range, quantize_input

PICTURES = (".png", ".jpg", ".jpeg", ".bmp")
"""Suffixes of pictures, in lower case."""

_MODES = {1: "L", 3: "RGB"}
"""What Pillow calls gray pixels, and colored ones, by their channels."""

_WHITE = 255

_MAX_PIXELS = 1 << 26
"""More are no photograph for a small network; they would take a gigabyte."""


def load_picture(
    path: Path, graph: Graph, exact: Exactness, pixels: tuple[float, float] | None = None
) -> np.ndarray:
    """Read a picture as an input of a network: turned upright, resized as a whole, bilinearly.

    Parameters
    ----------
    path : Path
        A PNG, JPEG or BMP file.
    graph : Graph
        A network with one input, [1, height, width, channels] or [1, channels, height, width].
    exact : Exactness
        Whose rounding quantizes the pixels.
    pixels : (float, float), optional
        What black and white are to the network; by default the ends of what its input can hold.

    Returns
    -------
    ndarray
        The picture in shape and dtype of the input.

    Raises
    ------
    ValueError
        If it cannot be read, or the network takes no pictures.
    """
    height, width, channels, _ = _extents(graph)
    values = _read(path, _MODES[channels], (width, height)).reshape(height, width, channels)
    return pixels_to_inputs(values[None], graph, exact, pixels)[0]


def pixels_to_inputs(
    values: np.ndarray, graph: Graph, exact: Exactness, pixels: tuple[float, float] | None = None
) -> np.ndarray:
    """Return pictures that have their size as inputs of a network.

    Parameters
    ----------
    values : ndarray of uint8, [count, height, width, channels]
        Their pixels; one channel may have no axis.
    graph, exact, pixels
        As for :func:`load_picture`.

    Returns
    -------
    ndarray, [count, *shape]
        In shape and dtype of the input.

    Raises
    ------
    ValueError
        If the network takes no pictures, or pictures of another size.
    """
    height, width, channels, first = _extents(graph)
    (name,) = graph.inputs
    size = (height, width, channels)
    if values.shape[1:] != (size if channels > 1 or values.ndim == 4 else size[:2]):
        raise ValueError(
            f"images must be {height}x{width}x{channels} for input {name!r}, "
            f"not {'x'.join(map(str, values.shape[1:]))}"
        )
    values = values.reshape(-1, *size)
    tensor = graph.tensors[name]
    low, high = pixels or input_range(graph, name)
    real = low + values.astype(np.float64) / _WHITE * (high - low)
    real = real.transpose(0, 3, 1, 2) if first else real
    image = real.astype(np.float32).reshape(-1, *tensor.shape)
    if np.issubdtype(tensor.dtype, np.floating):
        return image.astype(tensor.dtype)
    return quantize_input(image, tensor, exact)


def picture_remark(graph: Graph, pixels: tuple[float, float] | None = None) -> str:
    """Say in words what :func:`load_picture` does to each picture."""
    height, width, channels, _ = _extents(graph)
    kind = "gray" if channels == 1 else "RGB"
    said = pixel_remark(graph, pixels)
    return f"images resized to {width}x{height} {kind} (bilinear), {said}"


def pixel_remark(graph: Graph, pixels: tuple[float, float] | None = None) -> str:
    """Say in words what pixels are to a network."""
    low, high = pixels or input_range(graph, graph.inputs[0])
    return f"pixel range {low:.4g} to {high:.4g}"


def _extents(graph: Graph) -> tuple[int, int, int, bool]:
    """Return height, width and channels, and whether the channels come first."""
    if len(graph.inputs) != 1:
        raise ValueError(f"an image is one input, and {graph.name} has {list(graph.inputs)}")
    tensor = graph.tensors[graph.inputs[0]]
    if len(tensor.shape) == 4 and tensor.shape[0] == 1:
        _, a, b, c = tensor.shape
        if c in _MODES:
            return a, b, c, False
        if a in _MODES:
            return b, c, a, True
    raise ValueError(
        f"Input {tensor.name!r} of {graph.name} is not an image: its shape is {list(tensor.shape)}"
    )


def _read(path: Path, mode: str, size: tuple[int, int]) -> np.ndarray:
    require_package("PIL", "pictures", f"{path}: an image")
    from PIL import Image, ImageOps

    try:
        with (
            warnings.catch_warnings(action="ignore"),  # of many pixels, which are refused here
            Image.open(path, formats=("PNG", "JPEG", "BMP")) as picture,
        ):
            if (pixels := picture.width * picture.height) > _MAX_PIXELS:
                raise ValueError(f"it has {pixels:,} pixels, more than {_MAX_PIXELS:,}")
            if picture.mode.startswith(("I", "F")):
                raise ValueError(f"its pixels have more than 8 bits ({picture.mode})")
            upright = ImageOps.exif_transpose(picture).convert(mode)
            return np.asarray(upright.resize(size, Image.Resampling.BILINEAR))
    except FileNotFoundError:
        raise
    except Exception as error:  # damaged pictures make its readers raise anything
        raise ValueError(f"{path} is not a complete PNG, JPEG or BMP file: {error}") from error
