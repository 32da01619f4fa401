"""From a Keras network to an int8 TFLite file.

Run it with ``python examples/keras_digits.py``, where tensorflow is installed. It trains a small
classifier of the handwritten digits that come with tpulite, and writes ``digits.tflite`` and
``held_out_keras.npz``: images that it has not seen and their classes, for ``tpulite evaluate``.
"""

# pyright: reportMissingImports=false, reportMissingModuleSource=false

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from tpulite.models import DigitsTest

TRAINING, SAMPLES = 320, 100


def train(x: np.ndarray, y: np.ndarray) -> keras.Model:
    """Return a trained network; x [n, 16, 16, 1] in 0..1, y [n] classes."""
    keras.utils.set_random_seed(2024)
    layers = keras.layers
    network = keras.Sequential(
        [
            keras.Input((16, 16, 1)),
            layers.Conv2D(16, 3, padding="same"),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    network.compile(optimizer=keras.optimizers.Adam(3e-3), loss=loss, metrics=["accuracy"])
    network.fit(x, y, epochs=40, batch_size=64, verbose=0)
    return network


# begin quantize
def quantize(network: keras.Model, samples: np.ndarray) -> bytes:
    """Return the network as an int8 TFLite file, with the ranges that the samples have."""
    converter = tf.lite.TFLiteConverter.from_keras_model(network)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([sample[None]] for sample in samples)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    return converter.convert()


# end quantize


def main() -> None:
    """Train, quantize and write."""
    digits = DigitsTest.load()
    x = (digits.images.astype(np.float32) / 127).reshape(-1, 16, 16, 1)
    y = digits.labels.astype(np.int64)
    network = train(x[:TRAINING], y[:TRAINING])
    right = network.evaluate(x[TRAINING:], y[TRAINING:], verbose=0)[1]
    print(f"float: {right:.1%} of {len(x) - TRAINING} held-out digits are right")
    Path("digits.tflite").write_bytes(quantize(network, x[:SAMPLES]))
    np.savez_compressed("held_out_keras.npz", x=x[TRAINING:], y=y[TRAINING:])


if __name__ == "__main__":
    main()
