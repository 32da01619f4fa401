"""Activations: vectors of channels in DRAM, blocked by the width of the array."""

import numpy as np

from tpulite.arch.config import Config
from tpulite.program import Patches, TensorSpec


def pack_activations(values: np.ndarray, spec: TensorSpec, config: Config) -> np.ndarray:
    """Lay a tensor out as the machine reads it.

    Parameters
    ----------
    values : ndarray, [m, channels] or [height, width, channels]
        The tensor as the host has it; a batch has an axis in front.
    spec : TensorSpec
        What it must look like.

    Returns
    -------
    ndarray of uint8, [spec.nbytes(config)]
        ``[block][m][N]`` elements, blocks padded to 16 bytes, all padding is zero; or packed rows.
        A patch of pixels counts as a pixel. Images of a batch follow one another, unless they are
        stacked.

    Raises
    ------
    ValueError
        If dtype or shape are not those of ``spec``.

    Examples
    --------
    >>> from tpulite.arch.memory import Window
    >>> spec = TensorSpec("x", Window.INPUT, 0, m=1, channels=6)
    >>> values = np.arange(6, dtype=np.int8)[None]
    >>> pack_activations(values, spec, Config(array_size=4)).tolist()[:20]
    [0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 5, 0, 0]
    """
    if values.dtype != spec.dtype:
        raise ValueError(f"Tensor {spec.name!r} must be {spec.dtype}, not {values.dtype}")
    if values.shape != spec.shape:
        raise ValueError(f"Tensor {spec.name!r} must have shape {spec.shape}, not {values.shape}")
    if spec.stacked:
        matrix = spec.matrix
        return pack_activations(values.reshape(matrix.shape), matrix, config)
    if spec.batch > 1:
        return np.concatenate([pack_activations(image, spec.one, config) for image in values])
    if spec.patches is not None:
        images = values.reshape(-1, *values.shape[-3:])
        values = np.stack([_pack_patches(image, spec.patches) for image in images])
    if spec.packed_rows is not None:
        return _pack_rows(values, spec, config)
    n, blocks = config.array_size, spec.blocks(config)
    padded = np.zeros((spec.m, blocks * n), spec.dtype)
    padded[:, : spec.depth] = values.reshape(spec.m, spec.depth)
    rows = padded.reshape(spec.m, blocks, n).transpose(1, 0, 2).reshape(blocks, spec.m * n)
    image = np.zeros((blocks, spec.block_bytes(config)), np.uint8)
    data = np.ascontiguousarray(rows).view(np.uint8)
    image[:, : data.shape[1]] = data
    return image.reshape(-1)


def unpack_activations(image: np.ndarray, spec: TensorSpec, config: Config) -> np.ndarray:
    """Return the tensor in ``spec.shape``; the inverse of :func:`pack_activations`.

    ValueError if the image has not the size that ``spec`` asks for, or lies in packed rows, or in
    patches that are not beside each other: these may lack pixels.
    """
    apart = spec.patches is not None and not spec.patches.tile
    for found, kind in ((spec.packed_rows is not None, "packed rows"), (apart, "patches")):
        if found:
            raise ValueError(f"Tensor {spec.name!r} is stored as {kind}, and cannot be read back")
    if image.size != spec.nbytes(config):
        raise ValueError(
            f"Tensor {spec.name!r} must have {spec.nbytes(config)} bytes, not {image.size}"
        )
    if spec.stacked:
        return unpack_activations(image, spec.matrix, config).reshape(spec.shape)
    if spec.batch > 1:
        images = image.reshape(spec.batch, -1)
        return np.stack([unpack_activations(one, spec.one, config) for one in images])
    n, blocks = config.array_size, spec.blocks(config)
    used = spec.m * n * np.dtype(spec.dtype).itemsize
    rows = image.reshape(blocks, spec.block_bytes(config))
    data = np.ascontiguousarray(rows[:, :used]).view(spec.dtype)
    channels = data.reshape(blocks, spec.m, n).transpose(1, 0, 2).reshape(spec.m, blocks * n)
    vectors = channels[:, : spec.depth]
    if spec.patches is not None:
        return _unpack_patches(vectors, spec, spec.patches)
    return np.ascontiguousarray(vectors).reshape(spec.shape)


def _pack_patches(values: np.ndarray, patches: Patches) -> np.ndarray:
    """Return the channels of all patches, [rows, columns, channels of a patch]."""
    depth = values.shape[2]
    reach = [
        (count - 1) * step + size
        for count, step, size in zip(patches.count, patches.step, patches.size, strict=True)
    ]
    padded = np.full((*reach, depth), patches.fill, values.dtype)
    top, left = patches.pad
    # A kernel with strides may not reach the last pixels, or none beyond the padding.
    used = values[: max(0, reach[0] - top), : max(0, reach[1] - left)]
    padded[top : top + used.shape[0], left : left + used.shape[1]] = used
    windows = np.lib.stride_tricks.sliding_window_view(padded, patches.size, axis=(0, 1))
    chosen = windows[:: patches.step[0], :: patches.step[1]]  # [y, x, channel, row, column]
    return chosen.transpose(0, 1, 3, 4, 2).reshape(*patches.count, -1)


def _unpack_patches(vectors: np.ndarray, spec: TensorSpec, patches: Patches) -> np.ndarray:
    """Return the image of patches that lie beside each other; the last ones may be cut."""
    whole = vectors.reshape(*patches.count, *patches.size, spec.channels).transpose(0, 2, 1, 3, 4)
    height, width = (n * size for n, size in zip(patches.count, patches.size, strict=True))
    rows, columns, _ = spec.shape
    return np.ascontiguousarray(whole.reshape(height, width, -1)[:rows, :columns])


def _pack_rows(values: np.ndarray, spec: TensorSpec, config: Config) -> np.ndarray:
    packed_rows = spec.packed_rows
    assert packed_rows is not None
    if packed_rows.transposed:
        values = values.swapaxes(-3, -2)  # of each image, and of its patches
    pixels = values.reshape(spec.m, -1)
    start, size = packed_rows.pad * spec.depth, packed_rows.vectors * config.array_size
    image = np.full((spec.m, size), packed_rows.fill, spec.dtype)
    # A kernel with strides may not reach the last pixels, or none beyond the padding.
    used = max(0, min(size - start, pixels.shape[1]))
    image[:, start : start + used] = pixels[:, :used]
    data = image.view(np.uint8).reshape(-1)
    return np.pad(data, (0, spec.nbytes(config) - data.size))
