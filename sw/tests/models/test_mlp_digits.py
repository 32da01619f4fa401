import numpy as np

from tpulite.frontend.files import load_graph
from tpulite.models import CLASSES, MLP_DIGITS, MODELS, DigitsTest
from tpulite.runtime.model import Model
from tpulite_testing.files.npz import members

INT8_ACCURACY = 438 / 448


def evaluate(images: np.ndarray) -> np.ndarray:
    """Evaluate the network with nothing but numpy.

    No accumulator exceeds 24 bits, so float32 holds it exactly and numpy rounds as FLOAT32 does.
    """
    values = images
    with np.load(MLP_DIGITS) as file:
        assert file["classes"] == CLASSES
        for i, low in enumerate((0, 0, -128), start=1):
            weight, bias, scale = (file[f"{name}{i}"] for name in ("W", "b", "scale"))
            sums = values.astype(np.int32) @ weight.astype(np.int32) + bias
            assert np.abs(sums).max() < 1 << 24
            values = np.clip(np.rint(sums.astype(np.float32) * scale), low, 127).astype(np.int8)
    return values


def test_the_machine_computes_what_the_file_says():
    graph = load_graph(MLP_DIGITS)
    assert [graph.tensors[node.inputs[1]].shape for node in graph.nodes] == [
        *((64, 256), (32, 64), (16, 32))
    ]
    images = DigitsTest.load().images[:64]
    output = Model.load(graph).reference(images)["output"]
    np.testing.assert_array_equal(output, evaluate(images))


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
    assert members(tmp_path / "test.npz") == members(MODELS / "mlp_digits_test.npz")
