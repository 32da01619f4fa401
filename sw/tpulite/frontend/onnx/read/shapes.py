"""Shapes of all tensors of a file, without a copy of its weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import onnx

_LEAST_BYTES = 1 << 16
"""Weights of so many bytes are left out. No shape depends on a matrix, and vectors stay."""


def infer_shapes(model: onnx.ModelProto, *, strict: bool = False, values: bool = False) -> None:
    """Write the shapes of tensors into a model, as far as they can be known.

    Parameters
    ----------
    model : ModelProto
        The model.
    strict : bool
        Whether it must be consistent.
    values : bool
        Whether values of vectors are followed that shapes are computed with.

    Raises
    ------
    onnx.shape_inference.InferenceError
        If shapes contradict each other and ``strict``.
    """
    with _without_weights(model):
        found = onnx.shape_inference.infer_shapes(model, strict_mode=strict, data_prop=values)
        model.CopyFrom(found)


@contextmanager
def _without_weights(model: onnx.ModelProto) -> Iterator[None]:
    """Take the data of large matrices out of a model."""
    taken = {
        index: tensor.raw_data
        for index, tensor in enumerate(model.graph.initializer)
        if len(tensor.dims) > 1 and len(tensor.raw_data) >= _LEAST_BYTES
    }
    for index in taken:
        model.graph.initializer[index].ClearField("raw_data")
    try:
        yield
    finally:
        for index, data in taken.items():
            model.graph.initializer[index].raw_data = data
