"""Trained networks that come with the package, and the images that they are scored on."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["CLASSES", "CNN_DIGITS", "MLP_DIGITS", "MODELS", "STORY", "STORY_WORDS", "DigitsTest"]

MODELS = Path(__file__).parent
"""Folder of the network files."""

CNN_DIGITS = MODELS / "cnn_digits.tflite"
"""A small convolutional classifier of the same digits: image [1, 16, 16, 1], logits [1, 10]."""

MLP_DIGITS = MODELS / "mlp_digits.npz"
"""A classifier of handwritten digits, 256-64-32-16: images [1, 256], logits [1, 16]."""

STORY = MODELS / "story.tflite"
"""A decoder that tells stories: word [1, 216], logits of the next one [1, 216].

Keys and values are states.
"""

STORY_WORDS = MODELS / "story.txt"
"""Its words and marks in order, one a line."""

CLASSES = 10
"""Digits; the MLP has 16 outputs, and the last six are always 0."""


@dataclass(frozen=True, eq=False)
class DigitsTest:
    """Held-out digits: no image of them was seen in training."""

    #: Ndarray of int8, [n, 256]. Pixels, row by row, from 0 (white) to 127 (ink).
    images: np.ndarray
    labels: np.ndarray  #: Ndarray of uint8, [n]. Which digit each one is.
    #: Ndarray of uint8, [n]. Classes that the MLP had given before it was quantized.
    float_predictions: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def float_accuracy(self) -> float:
        """Share of the images that the MLP before quantization got right."""
        return float((self.float_predictions == self.labels).mean())

    def accuracy(self, outputs: np.ndarray) -> float:
        """Return the share of right classes, given outputs [n, >= 10] for the first n images."""
        classes = outputs[:, :CLASSES].argmax(axis=1)
        return float((classes == self.labels[: len(classes)]).mean())

    @classmethod
    def load(cls, path: str | Path = MODELS / "mlp_digits_test.npz") -> "DigitsTest":
        """Read the test set."""
        with np.load(path) as archive:
            return cls(**archive)

    def save(self, path: str | Path) -> None:
        """Write the test set."""
        np.savez_compressed(path, **vars(self))
