"""How inputs and outputs of programs lie in memory, as the C of firmware wants it."""

import numpy as np

from tpulite.arch.config import Config
from tpulite.tensor_spec import TensorSpec


def layout_fields(
    spec: TensorSpec, config: Config, *, tensor: int, offset: int, flip: bool = False
) -> dict[str, object]:
    """Return the fields of a ``tpulite_layout``.

    Parameters
    ----------
    spec : TensorSpec
        Where the tensor lies in its window, and how.
    tensor : int
        Which of the host's tensors it is.
    offset : int
        First byte of the window in the memory.
    flip : bool
        Whether the host has uint8 where the machine has int8, or the other way.

    Raises
    ------
    ValueError
        If packed rows and patches of it have different padding.
    """
    itemsize = np.dtype(spec.dtype).itemsize
    height, width = (spec.image or (spec.m, 1))[-2:]
    parts = spec.image[0] if spec.image and len(spec.image) == 3 else 1
    images = 1 if spec.stacked else spec.batch
    rows = {"count": height, "size": 1, "step": 1, "pad": 0}
    columns = rows | {"count": width}
    patches, packed = spec.patches, spec.packed_rows
    if patches is not None:
        rows, columns = (
            dict(zip(rows, extents, strict=True))
            for extents in zip(*(getattr(patches, name) for name in rows), strict=True)
        )
    fills = {lying.fill for lying in (patches, packed) if lying is not None} or {0}
    if len(fills) > 1:
        raise ValueError(f"Tensor {spec.name!r} is padded with {sorted(fills)}")
    return {
        "tensor": tensor,
        "offset": offset + spec.offset,
        "images": images,
        "image_bytes": spec.nbytes(config) // images,
        "parts": parts * (spec.batch if spec.stacked else 1),
        "height": height,
        "width": width,
        "pixel_bytes": spec.channels * itemsize,
        "flip": 0x80 if flip else 0,
        "vector_bytes": config.array_size * itemsize,
        "block_bytes": spec.block_bytes(config),
        "rows": rows,
        "columns": columns,
        "fill": fills.pop() & 0xFF,
        "line_bytes": 0 if packed is None else packed.vectors * config.array_size,
        "line_pad": 0 if packed is None else packed.pad,
        "transposed": int(packed is not None and packed.transposed),
    }
