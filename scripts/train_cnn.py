"""Train a small convolutional classifier of digits and write it, quantized, as a TFLite file.

Digits and held-out images are those of scripts/train_mlp.py. The network has one of everything: a
convolution, a depthwise and a pointwise one beside a residual connection, pooling, a dense layer.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from tpulite.models import CLASSES, MODELS
from tpulite.runtime.model import Model
from tpulite_testing.files.tflite_builder import Builder
from train_mlp import TEST_IMAGES, enlarge, to_int8

BATCH = 32
EPOCHS = 120
LEARNING_RATE = 3e-3
WEIGHT_DECAY = 3e-4
SMALLEST_WEIGHT = 1e-3  # of a channel that training has silenced: its scale must not vanish


class Layer:
    """A convolution with SAME padding as TFLite defines it, as a sum over the kernel's taps.

    Parameters
    ----------
    kernel, inputs, outputs, stride : int
        Extent of the kernel, channels, step; a depthwise layer has ``inputs`` 0.
    relu : bool
        Whether negative results become 0.
    """

    def __init__(self, rng, kernel: int, inputs: int, outputs: int, stride=1, relu=True) -> None:
        self.depthwise, self.stride, self.relu = inputs == 0, stride, relu
        shape = (kernel, kernel, outputs) if self.depthwise else (kernel, kernel, inputs, outputs)
        fan_in = kernel * kernel * max(inputs, 1)
        self.weight = rng.normal(0, np.sqrt(2 / fan_in), shape).astype(np.float32)
        self.bias = np.zeros(outputs, np.float32)

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return ``[n, rows, columns, outputs]``, and keep what backward needs."""
        kernel, (height, width) = len(self.weight), x.shape[1:3]
        total = max(kernel - self.stride, 0)
        self.before = total // 2
        margin = (self.before, total - self.before)
        self.x, self.inside = np.pad(x, ((0, 0), margin, margin, (0, 0))), (height, width)
        self.size = (-(-height // self.stride), -(-width // self.stride))
        y = self.bias + sum(self._times(self.x[at], tap) for tap, at in self._taps())
        self.live = y > 0 if self.relu else np.ones_like(y, bool)
        return y * self.live

    def backward(self, gradient: np.ndarray) -> np.ndarray:
        """Return the gradient of the input; leave those of weights and bias behind."""
        gradient = gradient * self.live
        self.bias_gradient = gradient.sum(axis=(0, 1, 2))
        self.weight_gradient = np.empty_like(self.weight)
        result = np.zeros_like(self.x)
        of_input = "nhwc,c->nhwc" if self.depthwise else "nhwo,co->nhwc"
        of_weight = "nhwc,nhwc->c" if self.depthwise else "nhwc,nhwo->co"
        for tap, at in self._taps():
            self.weight_gradient[tap] = np.einsum(of_weight, self.x[at], gradient, optimize=True)
            result[at] += np.einsum(of_input, gradient, self.weight[tap], optimize=True)
        inside = [slice(self.before, self.before + extent) for extent in self.inside]
        return result[:, inside[0], inside[1]]

    def _times(self, x: np.ndarray, tap: tuple[int, int]) -> np.ndarray:
        return x * self.weight[tap] if self.depthwise else x @ self.weight[tap]

    def _taps(self) -> Iterator[tuple[tuple[int, int], tuple[slice, ...]]]:
        for tap in np.ndindex(self.weight.shape[:2]):
            window = [
                slice(start, start + (extent - 1) * self.stride + 1, self.stride)
                for start, extent in zip(tap, self.size, strict=True)
            ]
            yield tap, (slice(None), *window)


class Network:
    """The classifier: images ``[n, 16, 16, 1]`` to logits ``[n, 10]``."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.stem = Layer(rng, 3, 1, 32, stride=2)
        self.depthwise = Layer(rng, 3, 0, 32)
        self.pointwise = Layer(rng, 1, 32, 32, relu=False)
        self.conv = Layer(rng, 3, 32, 64, stride=2)
        self.dense = Layer(rng, 1, 64, CLASSES, relu=False)
        self.layers = (self.stem, self.depthwise, self.pointwise, self.conv, self.dense)

    def forward(self, images: np.ndarray) -> dict[str, np.ndarray]:
        """Return the results of all layers by name."""
        y = {"stem": self.stem.forward(images)}
        y["depthwise"] = self.depthwise.forward(y["stem"])
        y["pointwise"] = self.pointwise.forward(y["depthwise"])
        y["add"] = np.maximum(y["stem"] + y["pointwise"], 0)
        y["conv"] = self.conv.forward(y["add"])
        y["pool"] = y["conv"].mean(axis=(1, 2), keepdims=True)
        y["dense"] = self.dense.forward(y["pool"])[:, 0, 0]
        return y

    def backward(self, y: dict[str, np.ndarray], gradient: np.ndarray) -> None:
        """Leave in each layer the gradients that follow from that of the logits."""
        gradient = self.dense.backward(gradient[:, None, None])
        positions = y["conv"].shape[1] * y["conv"].shape[2]
        gradient = np.broadcast_to(gradient / positions, y["conv"].shape)
        gradient = self.conv.backward(gradient) * (y["add"] > 0)
        inner = self.depthwise.backward(self.pointwise.backward(gradient))
        self.stem.backward(gradient + inner)

    def accuracy(self, images: np.ndarray, labels: np.ndarray) -> float:
        """Return the share of images that it classifies right."""
        return float((self.forward(images)["dense"].argmax(axis=1) == labels).mean())


def train(network: Network, images: np.ndarray, labels: np.ndarray, rng) -> None:
    """Minimize the cross entropy with Adam, the images shifted at random by up to a pixel."""
    moments = [[0.0, 0.0, 0.0, 0.0] for _ in network.layers]
    steps, step = EPOCHS * (len(images) // BATCH), 0
    for _ in range(EPOCHS):
        order = rng.permutation(len(images))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            chosen, shifts = order[start : start + BATCH], rng.integers(-1, 2, (BATCH, 2))
            pairs = zip(images[chosen], shifts, strict=True)
            batch = np.stack([np.roll(image, shift, (0, 1)) for image, shift in pairs])
            y = network.forward(batch)
            odds = np.exp(y["dense"] - y["dense"].max(axis=1, keepdims=True))
            gradient = odds / odds.sum(axis=1, keepdims=True)
            gradient[np.arange(BATCH), labels[chosen]] -= 1
            network.backward(y, gradient / BATCH)
            step += 1
            rate = LEARNING_RATE * (1 + np.cos(np.pi * step / steps)) / 2
            for layer, moment in zip(network.layers, moments, strict=True):
                decayed = layer.weight_gradient + WEIGHT_DECAY * layer.weight
                layer.weight -= rate * adam(moment, 0, decayed, step)
                layer.bias -= rate * adam(moment, 2, layer.bias_gradient, step)


def adam(moment: list, at: int, gradient: np.ndarray, step: int) -> np.ndarray:
    """Return the step of Adam (Kingma and Ba, 2015, algorithm 1) and update its moments."""
    moment[at] = 0.9 * moment[at] + 0.1 * gradient
    moment[at + 1] = 0.999 * moment[at + 1] + 0.001 * gradient**2
    mean, variance = moment[at] / (1 - 0.9**step), moment[at + 1] / (1 - 0.999**step)
    return (mean / (np.sqrt(variance) + 1e-8)).astype(np.float32)


def quantize(network: Network, images: np.ndarray) -> bytes:
    """Quantize to int8: weights by channel, activations by their range over ``images``."""
    file = Builder()
    scales = {"image": np.float32(1 / 127)}
    x = file.rename(file.input((1, *images.shape[1:]), scales["image"]), "image")
    zero_points = {}
    for name, values in network.forward(images).items():
        low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
        scales[name] = np.float32((high - low) / 255)
        zero_points[name] = round(-128 - low / scales[name])

    def convolve(operand: int, name: str, source: str) -> int:
        layer: Layer = getattr(network, name)
        weight = layer.weight[None] if layer.depthwise else np.moveaxis(layer.weight, 3, 0)
        weight, scale = quantize_weight(weight, 3 if layer.depthwise else 0)
        y = file.conv(
            operand,
            weight,
            np.rint(layer.bias / (scales[source] * scale)),
            weight_scale=scale,
            scale=scales[name],
            zero_point=zero_points[name],
            stride=(layer.stride, layer.stride),
            activation="RELU" if layer.relu else "NONE",
            depthwise=layer.depthwise,
        )
        return file.rename(y, name)

    stem = convolve(x, "stem", "image")
    pointwise = convolve(convolve(stem, "depthwise", "stem"), "pointwise", "depthwise")
    y = file.add(stem, pointwise, scales["add"], zero_points["add"], activation="RELU")
    y = convolve(file.rename(y, "add"), "conv", "add")
    window = file.shape(y)[1:3]
    pool = file.rename(file.pool("AVERAGE_POOL_2D", y, window, stride=window), "pool")
    weight, scale = quantize_weight(network.dense.weight[0, 0].T, None)
    y = file.dense(
        pool,
        weight,
        np.rint(network.dense.bias / (scales["conv"] * scale)),
        weight_scale=scale,
        scale=scales["dense"],
        zero_point=zero_points["dense"],
    )
    return file.build(file.rename(y, "dense"), name="cnn_digits")


def quantize_weight(weight: np.ndarray, axis: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return int8 weights, and a scale for each channel of an axis, or one for all."""
    others = tuple(i for i in range(weight.ndim) if i != axis)
    largest = np.maximum(np.abs(weight).max(axis=others), SMALLEST_WEIGHT)
    scale = (largest / 127).astype(np.float32)
    return np.rint(weight / np.expand_dims(scale, others)).astype(np.int8), scale


def main() -> None:
    """Train, quantize, score, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=2024, help="seed of split and training")
    parser.add_argument("--output", type=Path, default=MODELS, help="folder to write to")
    options = parser.parse_args()
    digits = load_digits()
    images = enlarge(digits.images / 16)[..., None].astype(np.float32)
    fit, test, fit_labels, test_labels = train_test_split(
        images, digits.target, test_size=TEST_IMAGES, stratify=digits.target,
        random_state=options.seed,
    )  # fmt: skip
    rng = np.random.default_rng(options.seed)
    network = Network(rng)
    with threadpool_limits(1):  # sums in another order round otherwise
        train(network, fit, fit_labels, rng)
    path = options.output / "cnn_digits.tflite"
    path.write_bytes(quantize(network, fit))
    print(f"{path}: {path.stat().st_size} bytes")
    print(f"float: {network.accuracy(test, test_labels):.2%} of {len(test)} held-out images")
    model = Model.load(path)
    classes = model.reference(to_int8(test))["dense"].argmax(axis=1)
    print(f"int8, numerics {model.exactness}: {(classes == test_labels).mean():.2%}")


if __name__ == "__main__":
    main()
