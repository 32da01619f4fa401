"""The storyteller in LiteRT: logits after each word of a text, by its reference kernels."""

from collections.abc import Sequence

import numpy as np

from tpulite.frontend.tflite.file import load_tflite
from tpulite_testing.files.streaming import litert_frames

__all__ = ["litert_logits"]


def litert_logits(data: bytes, tokens: Sequence[int]) -> np.ndarray:
    """Return the logits after each token, float32 [n, vocabulary].

    The interpreter keeps the states, which begin as the file says.

    Parameters
    ----------
    data : bytes
        A TFLite file whose input is a row with a 1 for the token, int8 [1, vocabulary].
    tokens : sequence of int
        What it reads.
    """
    tensors = load_tflite(data).tensors
    rows = np.zeros((len(tokens), *tensors["word"].shape), np.int8)
    rows[np.arange(len(tokens)), 0, list(tokens)] = 1
    found = np.concatenate([frame[0] for frame in litert_frames(data, list(rows))])
    quantization = tensors["logits"].quantization
    assert quantization is not None
    steps = found.astype(np.int32) - quantization.zero_point[0]
    return steps.astype(np.float32) * quantization.scale[0]
