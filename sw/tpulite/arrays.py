"""Arrays of files that others made: no pickles, and no more memory than the file has bytes."""

import io
import math
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy

from tpulite.archive import members

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_array(file: BinaryIO, size: int) -> np.ndarray:
    """Read a .npy file.

    Parameters
    ----------
    file : file
        It begins where the array does.

    Raises
    ------
    Exception
        Of any kind, for the header is Python: if the array is damaged, says that it is larger than
        the file, or holds objects.
    """
    start = file.tell()
    version = npy.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"version {version} of the format is for records, not for numbers")
    shape, _, dtype = _HEADERS[version](file)
    left = size - (file.tell() - start)
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > left:
        raise ValueError(f"{list(shape)} elements of {dtype} need more than {left} bytes")
    file.seek(start)
    return np.load(file, allow_pickle=False)


def read_arrays(data: bytes) -> dict[str, np.ndarray]:
    """Read a .npz file; raises what :func:`read_array` and :func:`tpulite.archive.members` do."""
    return {
        name.removesuffix(".npy"): read_array(io.BytesIO(content), len(content))
        for name, content in members(data).items()
    }
