"""Vectors of texts: close to the float encoder's, from integers that are LiteRT's to the bit."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
pytest.importorskip("safetensors", reason="safetensors is missing (pip install safetensors)")
pytest.importorskip("tokenizers", reason="tokenizers is missing (pip install tokenizers)")
import onnx
import onnxruntime

from tpulite.frontend.onnx.file import load_onnx
from tpulite.language.bert_file import bert_file
from tpulite.language.bert_weights import read_bert
from tpulite.language.encoder import encoder_key, int8_encoder, load_encoder
from tpulite.language.encoder_files import open_encoder
from tpulite.language.search import Index, Passage
from tpulite.language.sentences import calibration_texts, read_sentences
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import compare_model
from tpulite.runtime.oracles import open_oracle
from tpulite_testing.files.bert_files import BertFile
from tpulite_testing.oracles.numpy_bert import bert_vector

_FILE = BertFile()
_LENGTH = 16
_TEXTS = tuple(text[:60] for text in calibration_texts())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    _FILE.save(folder, _TEXTS)
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TPULITE_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def encoder(folder, cache):
    return load_encoder(folder, length=_LENGTH, cache=True)


@pytest.fixture(scope="module")
def int8(folder, encoder):
    """The int8 file, which is kept since the encoder was loaded."""
    return int8_encoder(open_encoder(folder, _LENGTH), encoder.sentences, cache=True)


def wanted(encoder, text):
    feed = encoder.sentences.feed(text)
    ids = feed["input_ids"][feed["attention_mask"] > 0]
    return bert_vector(_FILE, ids)


def test_the_float_network_is_that_of_its_weights(folder):
    sentences = read_sentences(folder / "tokenizer.json", _LENGTH)
    session = onnxruntime.InferenceSession(bert_file(read_bert(folder), _LENGTH))
    for text in _TEXTS[:8]:
        feed = sentences.feed(text)
        kept = feed["attention_mask"][0] > 0
        (hidden,) = session.run(None, {x: feed[x] for x in ("input_ids", "attention_mask")})
        mean = np.asarray(hidden)[0][kept].mean(axis=0)
        ours = mean / np.linalg.norm(mean)
        assert np.allclose(ours, bert_vector(_FILE, feed["input_ids"][0][kept]), atol=1e-5)


def test_vectors_follow_the_floats_and_have_length_one(encoder):
    embedder = encoder.embedder()
    for text in _TEXTS[:8]:
        vector = embedder.embed(text)
        assert vector.dtype == np.float32 and vector.shape == (_FILE.width,)
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
        assert vector @ wanted(encoder, text) > 0.98


def test_passages_are_ranked_as_by_the_floats(encoder):
    """Where floats prefer a passage clearly, so do integers."""
    passages = [Passage(Path("x.txt"), 1, text) for text in _TEXTS]
    embedder = encoder.embedder()
    index = Index.build(passages, embedder)
    floats = np.stack([wanted(encoder, text) for text in _TEXTS])
    clear = 0
    for question in ("water and salt", "Who wrote the opera?", "a red barn", _TEXTS[4]):
        scores = floats @ wanted(encoder, question)
        found = index.closest(embedder.embed(question), len(_TEXTS))
        ours = {each.passage.text: each.score for each in found}
        assert sorted(ours.values(), reverse=True) == [each.score for each in found]
        best = _TEXTS[scores.argmax()]
        others = np.delete(scores, scores.argmax())
        if scores.max() - others.max() > 0.05:
            clear += 1
            assert found[0].passage.text == best
        given = [ours[text] for text in _TEXTS]
        assert np.corrcoef(given, scores)[0, 1] > 0.97
    assert clear


def test_hidden_states_are_litert_s(encoder, int8, tmp_path):
    pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
    path = tmp_path / "int8.onnx"
    path.write_bytes(int8)
    graph = load_onnx(int8, "int8")
    feeds = [encoder.sentences.feed(text) for text in _TEXTS[:2]]
    feeds = [{name: feed[name] for name in graph.inputs} for feed in feeds]
    model = Model.load(path)
    assert model.crossings == 3 and len(model.programs) == 1
    assert compare_model(model, open_oracle("litert-ref", path, graph), feeds).same


def test_what_ranges_are_chosen_by_does_not_depend_on_the_process(folder):
    """Sets of names have another order in each process, and scores are drawn at random."""
    script = (
        "import hashlib, sys; from pathlib import Path; import onnx\n"
        "from tpulite.language.bert_file import bert_file\n"
        "from tpulite.language.bert_weights import read_bert\n"
        "from tpulite.language.sentences import calibration_texts, read_sentences\n"
        "from tpulite.quant.floats.observe import observe\n"
        "folder = Path(sys.argv[1])\n"
        "sentences = read_sentences(folder / 'tokenizer.json', 16)\n"
        "model = onnx.load_model_from_string(bert_file(read_bert(folder), 16))\n"
        "feeds = [sentences.feed(text) for text in calibration_texts()]\n"
        "names = ('input_ids', 'attention_mask')\n"
        "seen = observe(model, [{x: feed[x] for x in names} for feed in feeds])\n"
        "for name, rows in sorted(seen.scores.items()):\n"
        "    print(name, hashlib.sha256(rows.tobytes()).hexdigest())\n"
    )
    found = []
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", script, str(folder)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found.append(done.stdout)
    assert found[0].count("\n") == _FILE.layers
    assert found[0] == found[1]


def test_what_does_not_fit_is_left_out(encoder):
    sentences = encoder.sentences
    assert sentences.room == _LENGTH - 2
    long, short = " ".join(["water"] * 20), " ".join(["water"] * 14)
    assert sentences.surplus(long) == 6 and sentences.surplus(short) == 0
    for name, values in sentences.feed(long).items():
        assert np.array_equal(values, sentences.feed(short)[name])
    feed = sentences.feed("water")
    assert feed["attention_mask"].sum() == 3
    assert feed["input_ids"][0, 0] == 2 and feed["input_ids"][0, 2] == 3


def test_an_onnx_file_is_the_same_encoder(folder, encoder, int8, tmp_path):
    """Floats with open shapes and token types, and the int8 file that became of floats."""
    model = onnx.load_model_from_string(bert_file(read_bert(folder), _LENGTH))
    for value in model.graph.input:
        for extent, name in zip(
            value.type.tensor_type.shape.dim, ("batch", "sequence"), strict=True
        ):
            extent.dim_param = name
    types = onnx.ValueInfoProto()
    types.CopyFrom(model.graph.input[0])
    types.name = "token_type_ids"
    model.graph.input.append(types)
    floats, integers = tmp_path / "floats.onnx", tmp_path / "int8.onnx"
    floats.write_bytes(model.SerializeToString())
    tokenizer = folder / "tokenizer.json"
    wanted = encoder.embedder().embed(_TEXTS[0])
    other = load_encoder(floats, tokenizer, length=_LENGTH)
    assert np.array_equal(other.embedder().embed(_TEXTS[0]), wanted)
    integers.write_bytes(int8)
    other = load_encoder(integers, tokenizer)
    assert np.array_equal(other.embedder().embed(_TEXTS[0]), wanted)
    with pytest.raises(ValueError, match=r"int8\.onnx has texts of 16 tokens, not 8"):
        load_encoder(integers, tokenizer, length=8)


def test_an_int8_encoder_is_kept_until_something_changes(folder, encoder, cache, tmp_path):
    steps = []
    again = load_encoder(folder, length=_LENGTH, cache=True, progress=steps.append)
    assert not steps and again.key == encoder.key
    assert len(list(cache.glob("encoders/*.onnx"))) == 1
    file, sentences = open_encoder(folder, _LENGTH), encoder.sentences
    assert encoder_key(file, sentences) == encoder.key
    _FILE.save_tokenizer(tmp_path / "tokenizer.json", _TEXTS[1:])
    replace(_FILE, seed=6).save(tmp_path / "tiny", _TEXTS)
    keys = {
        encoder.key,
        encoder_key(open_encoder(folder, 15), sentences),
        encoder_key(open_encoder(tmp_path / "tiny", _LENGTH), sentences),
        encoder_key(file, read_sentences(tmp_path / "tokenizer.json", _LENGTH)),
    }
    assert len(keys) == 4


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "roberta"}, "model_type is 'roberta', and only 'bert' is known"),
        ({"hidden_act": "relu"}, "hidden_act is 'relu', and only 'gelu' is known"),
        ({"position_embedding_type": "relative_key"}, "only 'absolute' is known"),
        ({"num_attention_heads": 3}, "32 elements are no 3 equal heads"),
        ({"num_hidden_layers": 3}, r"the weights '2\.query' are missing"),
        ({"vocab_size": 9}, r"'words' must be \[9, 32\], not \[1024, 32\]"),
    ],
)
def test_other_networks_are_refused_with_what_they_are(tmp_path, config, message):
    _FILE.save(tmp_path / "tiny", **config)
    with pytest.raises(ValueError, match=message):
        load_encoder(tmp_path / "tiny", length=_LENGTH)


def test_damaged_folders_are_refused(tmp_path):
    folder, arrays = tmp_path / "tiny", import_module("safetensors.numpy")
    _FILE.save(folder)
    with pytest.raises(ValueError, match="has up to 24 tokens, not 25"):
        load_encoder(folder, length=25)
    with pytest.raises(ValueError, match="a text needs more than 2 tokens"):
        load_encoder(folder, length=2)
    (folder / "1_Pooling").mkdir()
    modes = {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}
    (folder / "1_Pooling/config.json").write_text(json.dumps(modes))
    with pytest.raises(ValueError, match="only pooling_mode_mean_tokens is known"):
        load_encoder(folder)
    (folder / "1_Pooling/config.json").unlink()
    tensors = arrays.load_file(folder / "model.safetensors")
    arrays.save_file(tensors | {"adapter.weight": np.zeros(3)}, folder / "model.safetensors")
    with pytest.raises(ValueError, match=r"'adapter\.weight' is no weight of a BERT encoder"):
        load_encoder(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json is no JSON"):
        load_encoder(folder)
    (folder / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ValueError, match=r"config\.json lacks 'num_hidden_layers'"):
        load_encoder(folder)


def test_networks_that_are_no_encoders_are_refused(folder, tmp_path):
    tokenizer = folder / "tokenizer.json"
    path = tmp_path / "net.onnx"
    path.write_bytes(b"\x00\x01")
    with pytest.raises(ValueError, match="is no sentence encoder: it must be ONNX"):
        load_encoder(path, tokenizer)
    model = onnx.load_model_from_string(bert_file(read_bert(folder), _LENGTH))
    model.graph.input[0].name = "x"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match="its inputs must be input_ids, attention_mask"):
        load_encoder(path, tokenizer)
    with pytest.raises(ValueError, match=r"tokenizer\.json is missing"):
        load_encoder(folder, tmp_path / "tokenizer.json")
