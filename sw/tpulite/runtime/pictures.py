"""Pictures as inputs of networks."""

from pathlib import Path

import numpy as np

from tpulite.graph.graph import Graph
from tpulite.needs import require_package
from tpulite.quant.exactness import Exactness
from tpulite.runtime.inputs import input_range, quantize_input

__all__ = ["PICTURES", "load_picture", "picture_remark"]

PICTURES = (".png", ".jpg", ".jpeg", ".bmp")
"""Suffixes of pictures, in lower case."""

_MODES = {1: "L", 3: "RGB"}
"""What Pillow calls gray pixels, and colored ones, by their channels."""

_WHITE = 255


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
    height, width, channels, first = _extents(graph)
    values = _read(path, _MODES[channels], (width, height)).reshape(height, width, channels)
    (name,) = graph.inputs
    tensor = graph.tensors[name]
    low, high = pixels or input_range(graph, name)
    real = low + values.astype(np.float64) / _WHITE * (high - low)
    real = real.transpose(2, 0, 1) if first else real
    image = real.astype(np.float32).reshape(tensor.shape)
    if np.issubdtype(tensor.dtype, np.floating):
        return image.astype(tensor.dtype)
    return quantize_input(image, tensor, exact)


def picture_remark(graph: Graph, pixels: tuple[float, float] | None = None) -> str:
    """Say in words what :func:`load_picture` does to each picture."""
    height, width, channels, _ = _extents(graph)
    low, high = pixels or input_range(graph, graph.inputs[0])
    kind = "gray" if channels == 1 else "RGB"
    return (
        f"each picture as a whole becomes {width}x{height} {kind} (bilinear), "
        f"black {low:.4g}, white {high:.4g}"
    )


def _extents(graph: Graph) -> tuple[int, int, int, bool]:
    """Return height, width and channels, and whether the channels come first."""
    if len(graph.inputs) != 1:
        raise ValueError(f"A picture is one input, and {graph.name} has {list(graph.inputs)}")
    tensor = graph.tensors[graph.inputs[0]]
    if len(tensor.shape) == 4 and tensor.shape[0] == 1:
        _, a, b, c = tensor.shape
        if c in _MODES:
            return a, b, c, False
        if a in _MODES:
            return b, c, a, True
    raise ValueError(
        f"Input {tensor.name!r} of {graph.name} is no picture: its shape is {list(tensor.shape)}"
    )


def _read(path: Path, mode: str, size: tuple[int, int]) -> np.ndarray:
    require_package("PIL", "pictures", f"{path}: a picture")
    from PIL import Image, ImageOps

    try:
        with Image.open(path, formats=("PNG", "JPEG", "BMP")) as picture:
            if picture.mode.startswith(("I", "F")):
                raise ValueError(f"its pixels have more than 8 bits ({picture.mode})")
            upright = ImageOps.exif_transpose(picture).convert(mode)
            return np.asarray(upright.resize(size, Image.Resampling.BILINEAR))
    except FileNotFoundError:
        raise
    except Exception as error:  # damaged pictures make its readers raise anything
        raise ValueError(f"{path} is not a whole PNG, JPEG or BMP file: {error}") from error
