"""ONNX Runtime's own static quantizer, and ONNX Runtime as its users run it."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnxruntime import quantization

from tpulite_testing.oracles.onnx_session import open_onnx

__all__ = ["quantize_statically", "run_library"]

_TYPES = {"u8": quantization.QuantType.QUInt8, "s8": quantization.QuantType.QInt8}


class _Samples(quantization.CalibrationDataReader):
    """Passes samples on, one at a time."""

    def __init__(self, samples: list[dict[str, np.ndarray]]) -> None:
        self.samples = iter(samples)

    def get_next(self) -> dict[str, np.ndarray] | None:  # type: ignore[override]
        return next(self.samples, None)


def quantize_statically(
    data: bytes, samples: list[dict[str, np.ndarray]], types: str = "u8s8", **options: Any
) -> bytes:
    """Return a float network as ``quantize_static`` makes it of integers.

    Parameters
    ----------
    data : bytes
        The float network.
    samples : list of dict of str to ndarray
        Inputs to calibrate with.
    types : str
        Types of activations and weights, for example ``u8s8``.
    options
        Others of ``quantize_static``.
    """
    activations, weights = _TYPES[types[:2]], _TYPES[types[2:]]
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder, "float.onnx"), Path(folder, "quantized.onnx")
        source.write_bytes(data)
        quantization.quantize_static(
            source,
            result,
            _Samples(samples),
            activation_type=activations,
            weight_type=weights,
            **options,
        )
        return result.read_bytes()


def run_library(data: bytes, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Run an untouched file with the default options of ONNX Runtime."""
    session = open_onnx(data)
    return [np.asarray(value) for value in session.run(None, dict(inputs))]
