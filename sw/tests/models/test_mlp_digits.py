import numpy as np

from tpulite.arch.numerics import Rounding
from tpulite.models import CLASSES, MODELS, DigitsTest, mlp_digits

INT8_ACCURACY = 438 / 448


def evaluate(images: np.ndarray) -> np.ndarray:
    """Evaluate the network with nothing but numpy.

    No accumulator exceeds 24 bits, so float32 holds it exactly and numpy rounds as FLOAT32 does.
    """
    values = images
    for layer in mlp_digits().layers:
        sums = values.astype(np.int32) @ layer.weight.astype(np.int32) + layer.bias
        assert np.abs(sums).max() < 1 << 24
        scaled = np.rint(sums.astype(np.float32) * layer.scale)
        values = np.clip(scaled, layer.low, layer.high).astype(np.int8)
    return values


def test_shapes_are_those_of_the_document():
    network = mlp_digits()
    assert [(layer.k, layer.n) for layer in network.layers] == [(256, 64), (64, 32), (32, 16)]
    assert [layer.low for layer in network.layers] == [0, 0, -128]
    assert all(layer.rounding == Rounding.FLOAT32 for layer in network.layers)
    assert all(layer.scale.dtype == np.float32 for layer in network.layers)


def test_the_test_set_is_whole_batches_of_every_digit():
    test = DigitsTest.load()
    assert len(test) == 448
    assert test.images.shape == (448, 256)
    assert test.images.dtype == np.int8
    assert test.images.min() == 0
    assert np.bincount(test.labels, minlength=CLASSES).min() > 40


def test_accuracy_is_as_stated():
    test = DigitsTest.load()
    accuracy = test.accuracy(evaluate(test.images))
    assert accuracy == INT8_ACCURACY
    stated = (MODELS / "README.md").read_text()
    assert f"{accuracy:.2%}" in stated
    assert f"{test.float_accuracy:.2%}" in stated
    assert accuracy > 0.93
    assert abs(accuracy - test.float_accuracy) < 0.01


def test_outputs_beyond_the_classes_are_zero():
    outputs = evaluate(DigitsTest.load().images)
    assert not outputs[:, CLASSES:].any()
    assert outputs[:, :CLASSES].any(axis=0).all()


def test_a_saved_test_set_is_the_same(tmp_path):
    test = DigitsTest.load()
    test.save(tmp_path / "test.npz")
    assert (tmp_path / "test.npz").read_bytes() == (MODELS / "mlp_digits_test.npz").read_bytes()
