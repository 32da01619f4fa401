"""Models of the llama family are read as they were written, and what is none is refused."""

from importlib import import_module

import numpy as np
import pytest

pytest.importorskip("gguf", reason="gguf is missing (pip install gguf)")
pytest.importorskip("safetensors", reason="safetensors is missing (pip install safetensors)")
from tpulite.language.weights import read_llama
from tpulite_testing.files.llama_files import LlamaFile


@pytest.mark.parametrize("kind", ["F32", "F16", "Q8_0", "Q4_0", "Q4_1"])
def test_blocks_of_a_gguf_file_mean_what_their_format_says(tmp_path, kind):
    path, file = tmp_path / "tiny.gguf", LlamaFile()
    meant = file.save_gguf(path, kind)
    model = read_llama(path)
    assert model.weights.keys() == meant.keys()
    for name, weight in meant.items():
        assert np.array_equal(model.weights[name], weight), name
    sizes = model.sizes
    assert (sizes.layers, sizes.width, sizes.hidden, sizes.depth) == (2, 64, 96, 16)
    assert (sizes.heads, sizes.key_heads, sizes.vocabulary, sizes.positions) == (4, 2, 259, 64)
    assert (sizes.base, sizes.epsilon) == (10000.0, pytest.approx(1e-5))


@pytest.mark.parametrize("tied", [True, False])
def test_safetensors_and_gguf_files_are_the_same_model(tmp_path, tied):
    file = LlamaFile(tied=tied)
    file.save_gguf(tmp_path / "tiny.gguf")
    file.save_safetensors(tmp_path / "tiny")
    one, other = read_llama(tmp_path / "tiny.gguf"), read_llama(tmp_path / "tiny")
    again = read_llama(tmp_path / "tiny/model.safetensors")
    assert one.weights.keys() == other.weights.keys() == again.weights.keys()
    for name, weight in file.weights().items():
        for model in (one, other, again):
            assert np.array_equal(model.weights[name], weight), name


def test_what_is_no_llama_is_refused_with_its_name(tmp_path):
    path = tmp_path / "other.gguf"
    LlamaFile().save_gguf(path, family="gpt2")
    with pytest.raises(ValueError, match="family 'gpt2'"):
        read_llama(path)
    path.write_bytes(b"GGUF")
    with pytest.raises(ValueError, match="is not a GGUF file"):
        read_llama(path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="it is empty"):
        read_llama(path)
    other = tmp_path / "model.bin"
    other.write_bytes(b"GGUF")
    with pytest.raises(ValueError, match="no language model"):
        read_llama(other)
    with pytest.raises(OSError):
        read_llama(tmp_path / "none.bin")


def test_unknown_and_missing_weights_are_named(tmp_path):
    folder, arrays = tmp_path / "tiny", import_module("safetensors.numpy")
    LlamaFile().save_safetensors(folder)
    tensors = arrays.load_file(folder / "model.safetensors")
    bias = {"model.layers.0.self_attn.q_proj.bias": np.zeros(64, np.float32)}
    arrays.save_file(tensors | bias, folder / "model.safetensors")
    with pytest.raises(ValueError, match=r"q_proj\.bias' is no weight of a llama"):
        read_llama(folder)
    del tensors["model.layers.1.mlp.up_proj.weight"]
    arrays.save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ValueError, match=r"weights '1\.up' are missing"):
        read_llama(folder)
