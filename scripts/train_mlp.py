"""Train the digit classifier 256-64-32-16 and write it, quantized, to sw/tpulite/models.

The digits are those that scikit-learn carries, 8 x 8 pixels, enlarged to 16 x 16. Held-out images
serve for the score only; the weight decay is chosen on a validation part of the training images.
"""

import argparse
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from tpulite.arch.numerics import INT8
from tpulite.frontend.dense_chain import dense_chain, save_dense_chain
from tpulite.graph.graph import Graph
from tpulite.models import CLASSES, MLP_DIGITS, MODELS, DigitsTest

HIDDEN = (64, 32)
OUTPUTS = 16
TEST_IMAGES = 448
WEIGHT_DECAYS = (1e-2, 1e-1, 1.0, 3.0, 10.0)
EPOCHS = 60
INT8_MAX = INT8[-1]


@dataclass(frozen=True)
class FloatNetwork:
    """The trained network: ReLU between layers, logits at the end."""

    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]

    def activations(self, images: np.ndarray) -> list[np.ndarray]:
        """Return the output of each layer; the last one holds the logits."""
        outputs = []
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            images = images @ weight + bias
            if i < len(self.weights) - 1:
                images = np.maximum(images, 0)
            outputs.append(images)
        return outputs

    def classify(self, images: np.ndarray) -> np.ndarray:
        """Return the class of each image."""
        return self.activations(images)[-1].argmax(axis=1)


def enlarge(images: np.ndarray) -> np.ndarray:
    """Double both extents of ``[n, 8, 8]`` images by bilinear interpolation between pixel centers.

    Examples
    --------
    >>> enlarge(np.array([[[0.0, 4.0], [0.0, 4.0]]]))[0, 0]
    array([0., 1., 3., 4.])
    """
    size = images.shape[1]
    centers = np.clip((np.arange(2 * size) - 0.5) / 2, 0, size - 1)
    rows = np.stack([np.interp(centers, np.arange(size), unit) for unit in np.eye(size)], axis=1)
    return rows @ images @ rows.T


def augment(images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Add the images shifted by a pixel in each of the four directions."""
    shifts = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)]
    planes = images.reshape(-1, 16, 16)
    shifted = [np.roll(planes, shift, axis=(1, 2)).reshape(len(images), -1) for shift in shifts]
    return np.concatenate(shifted), np.tile(labels, len(shifts))


def train(images: np.ndarray, labels: np.ndarray, decay: float, seed: int) -> FloatNetwork:
    """Train on pixels between 0 and 1."""
    classifier = MLPClassifier(HIDDEN, alpha=decay, max_iter=EPOCHS, random_state=seed)
    with warnings.catch_warnings():
        # It says that more epochs might help; the validation images say that these suffice.
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier.fit(*augment(images, labels))
    return FloatNetwork(tuple(classifier.coefs_), tuple(classifier.intercepts_))


def choose_decay(images: np.ndarray, labels: np.ndarray, seed: int) -> float:
    """Return the weight decay that does best on a fifth of the training images."""
    fit, check, fit_labels, check_labels = train_test_split(
        images, labels, test_size=0.2, stratify=labels, random_state=seed
    )
    scores = {}
    for decay in WEIGHT_DECAYS:
        network = train(fit, fit_labels, decay, seed)
        scores[decay] = float((network.classify(check) == check_labels).mean())
        print(f"weight decay {decay:g}: {scores[decay]:.2%} of the validation images")
    return max(scores, key=lambda decay: scores[decay])


def quantize(network: FloatNetwork, images: np.ndarray) -> Graph:
    """Quantize to int8, one scale a tensor, activations by their range over ``images``.

    The outputs beyond the classes, whose weights and bias are 0, are 0.
    """
    weights, biases, scales = [], [], []
    input_scale = 1 / INT8_MAX
    for i, activation in enumerate(network.activations(images)):
        weight, bias = network.weights[i], network.biases[i]
        if i == len(HIDDEN):
            weight = np.pad(weight, ((0, 0), (0, OUTPUTS - CLASSES)))
            bias = np.pad(bias, (0, OUTPUTS - CLASSES))
        weight_scale = np.abs(weight).max() / INT8_MAX
        output_scale = np.abs(activation).max() / INT8_MAX
        weights.append(np.rint(weight / weight_scale).astype(np.int8))
        biases.append(np.rint(bias / (input_scale * weight_scale)).astype(np.int32))
        scales.append(np.float32(input_scale * weight_scale / output_scale))
        input_scale = output_scale
    return dense_chain(weights, biases, scales, classes=CLASSES, name=MLP_DIGITS.stem)


def to_int8(images: np.ndarray) -> np.ndarray:
    """Quantize pixels between 0 and 1."""
    return np.rint(images * INT8_MAX).astype(np.int8)


def main() -> None:
    """Train, quantize, score, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=2024, help="seed of split and training")
    parser.add_argument("--output", type=Path, default=MODELS, help="folder to write to")
    options = parser.parse_args()

    digits = load_digits()
    images = enlarge(digits.images / 16).reshape(len(digits.images), -1)
    fit, test, fit_labels, test_labels = train_test_split(
        images, digits.target, test_size=TEST_IMAGES, stratify=digits.target,
        random_state=options.seed,
    )  # fmt: skip
    decay = choose_decay(fit, fit_labels, options.seed)
    network = train(fit, fit_labels, decay, options.seed)

    quantized = quantize(network, fit)
    float_predictions = network.classify(test)
    score = DigitsTest(
        images=to_int8(test),
        labels=test_labels.astype(np.uint8),
        float_predictions=float_predictions.astype(np.uint8),
    )
    save_dense_chain(options.output / MLP_DIGITS.name, quantized)
    score.save(options.output / "mlp_digits_test.npz")
    print(f"float network: {score.float_accuracy:.2%} of {len(test)} held-out images")


if __name__ == "__main__":
    main()
