"""The script that measures what int8 costs an encoder, and the sentences that it measures with."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
pytest.importorskip("safetensors", reason="safetensors is missing (pip install safetensors)")
pytest.importorskip("tokenizers", reason="tokenizers is missing (pip install tokenizers)")

from tpulite.language.encoder import load_encoder
from tpulite.language.sentences import calibration_texts
from tpulite_testing.files.bert_files import BertFile
from tpulite_testing.oracles.numpy_bert import bert_vector

ROOT = Path(__file__).resolve().parents[3]
_PAIRS = ROOT / "scripts/sentence_pairs.txt"
_FILE = BertFile(layers=1)


def measured(folder, *words):
    command = [sys.executable, ROOT / "scripts/sentences.py", *words]
    environment = os.environ | {"TPULITE_CACHE": str(folder / "cache"), "COLUMNS": "80"}
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, env=environment
    )


def test_the_list_has_32_pairs_and_none_of_the_texts_that_calibrate():
    parts = _PAIRS.read_text().strip().split("\n\n")
    assert [part.count("\n") for part in parts] == [1] * 32
    sentences = _PAIRS.read_text().split("\n")
    sentences = [each for each in sentences if each]
    assert len({*sentences}) == 64
    assert not {*sentences} & {*calibration_texts()}


def test_what_is_printed_is_what_numpy_computes(tmp_path, monkeypatch):
    texts = _PAIRS.read_text().split("\n")[:17]
    _FILE.save(tmp_path / "tiny", [*texts, *calibration_texts()])
    (tmp_path / "pairs.txt").write_text("\n".join(texts))
    done = measured(tmp_path, tmp_path / "pairs.txt", "--model", tmp_path / "tiny")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    monkeypatch.setenv("TPULITE_CACHE", str(tmp_path / "cache"))
    encoder = load_encoder(tmp_path / "tiny", cache=True)
    embedder, vectors = encoder.embedder(), []
    for text in filter(None, texts):
        feed = encoder.sentences.feed(text)
        floats = bert_vector(_FILE, feed["input_ids"][feed["attention_mask"] > 0])
        vectors.append((floats, embedder.embed(text).astype(np.float64)))
    floats, int8 = map(np.stack, zip(*vectors, strict=True))
    cosines = (floats * int8).sum(axis=1)
    assert "6 pairs of sentences" in done.stdout
    rows = {" ".join(line.split()) for line in done.stdout.splitlines()}
    assert f"closest is the other of the pair {_found(floats)} {_found(int8)}" in rows
    for name, value in (("mean", cosines.mean()), ("least", cosines.min())):
        (printed,) = re.findall(rf"cosine to float, {name} +(0\.\d+)", done.stdout)
        assert float(printed) == pytest.approx(value, abs=2e-4)
    assert f"cycles of a text {encoder.cycles:,}" in rows


def _found(vectors):
    """Return the share of sentences whose closest other one is beside them."""
    count = 0
    for index, vector in enumerate(vectors):
        others = [each for each in range(len(vectors)) if each != index]
        closest = max(others, key=lambda each: float(vectors[each] @ vector))
        count += closest // 2 == index // 2
    return f"{count / len(vectors):.1%}"


def test_bad_pairs_and_quantized_networks_are_one_line(tmp_path):
    _FILE.save(tmp_path / "tiny")
    (tmp_path / "odd.txt").write_text("one\ntwo\n\nthree\n")
    for words, message in (
        ((tmp_path / "odd.txt",), "a pair has two lines, not 1: ['three']"),
        ((tmp_path / "none.txt",), "none.txt"),
        (("--model", tmp_path / "none"), "No such file"),
    ):
        done = measured(tmp_path, *words)
        assert done.returncode and not done.stdout
        assert message in done.stderr and done.stderr.count("\n") == 1
