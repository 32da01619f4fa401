"""Weights of 4 bits make up for each other's errors on texts, and the float model is the file's."""

import numpy as np
import pytest

pytest.importorskip("gguf", reason="gguf is missing (pip install gguf)")
pytest.importorskip("tokenizers", reason="tokenizers is missing (pip install tokenizers)")
import onnxruntime

from tpulite.language.int4_llama import int4_weights, kept_int4_weights, run_llama
from tpulite.language.step import int8_rows, state_names, step_file
from tpulite.language.tokenizer import read_tokenizer
from tpulite.language.weights import read_llama
from tpulite_testing.files.llama_files import LlamaFile

_TOKENS = [72, 101, 108, 108, 111, 32, 119, 111]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    LlamaFile(width=64, hidden=96, heads=4, key_heads=2).save_gguf(path, "F16")
    return path


@pytest.fixture(scope="module")
def model(path):
    return read_llama(path)


def product_of(weights):
    """Products with matrices of integers and scales, by name."""

    def product(x, *names):
        return [x @ (rows * scale[:, None]).T for rows, scale in map(weights.__getitem__, names)]

    return product


def test_the_float_model_is_that_of_the_file(model):
    """The file of eight tokens has the same weights in int8, and activations of 16 bits."""
    session = onnxruntime.InferenceSession(step_file(model, 8, tokens=8))
    shapes = {x.name: x.shape for x in session.get_inputs()}
    given = {name: np.zeros(shapes[name], np.float32) for name in state_names(2).values()}
    given |= {"token": np.array(_TOKENS), "position": np.array([0]), "count": np.array([8])}
    wanted = np.asarray(session.run(["logits"], given)[0])
    weights = {name: int8_rows(x) for name, x in model.weights.items() if x.ndim == 2}
    rows, scale = weights["embedding"]
    whole = {**model.weights, "embedding": (rows * scale[:, None]).astype(np.float32)}
    product = product_of(weights)
    # A text of its own in front changes nothing.
    hidden = run_llama(type(model)(model.name, model.sizes, whole), [[1, 2, 3], _TOKENS], product)
    (logits,) = product(hidden[-1:], "head")
    np.testing.assert_allclose(logits, wanted, rtol=0, atol=2e-3 * np.abs(wanted).max())


def test_weights_make_up_for_errors_on_texts(path, model):
    texts = read_tokenizer(path).calibration()
    assert len(texts) == 32 and min(map(len, texts)) > 1
    right, lost = run_llama(model, texts), []
    for weights in int4_weights(model, ()), int4_weights(model, texts):
        matrices = {name for name, x in model.weights.items() if x.ndim == 2}
        assert weights.keys() == matrices - {"embedding"}
        assert all(x.min() >= -8 and x.max() <= 7 for x, _ in weights.values())
        lost.append(np.square(run_llama(model, texts, product_of(weights)) - right).mean())
    assert lost[1] < 0.7 * lost[0]


def test_weights_are_kept(tmp_path, monkeypatch, model):
    monkeypatch.setenv("TPULITE_CACHE", str(tmp_path))
    steps = []
    one, other = (
        kept_int4_weights(model, [_TOKENS], cache=True, progress=steps.append) for _ in range(2)
    )
    assert steps == ["layer 1 of 2", "layer 2 of 2"]
    for name, pair in one.items():
        assert all(np.array_equal(a, b) for a, b in zip(pair, other[name], strict=True))
    assert len(list((tmp_path / "int4").iterdir())) == 1
    kept_int4_weights(model, [_TOKENS[1:]], cache=True, progress=steps.append)
    assert len(steps) == 4
