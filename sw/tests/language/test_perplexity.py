"""The script that measures what 8 and 4 bits cost a language model."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gguf", reason="gguf is missing (pip install gguf)")
pytest.importorskip("tokenizers", reason="tokenizers is missing (pip install tokenizers)")
import onnxruntime

from tpulite.language.sentences import calibration_texts
from tpulite.language.step import state_names, step_file
from tpulite.language.weights import read_llama
from tpulite_testing.files.llama_files import LlamaFile

ROOT = Path(__file__).resolve().parents[3]
_TEXT = "a cab, a bead and a face"


def measured(folder, *words):
    command = [sys.executable, ROOT / "scripts/perplexity.py", "--model", *words]
    environment = os.environ | {"TPULITE_CACHE": str(folder / "cache")}
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, env=environment
    )


def perplexity_of_the_file(path):
    """The mean of -log p of each token, by ONNX Runtime on the file of all but the last one."""
    tokens = [*_TEXT.encode()]  # a token of this model is a byte
    session = onnxruntime.InferenceSession(step_file(read_llama(path), 64))
    names = [each.name for each in session.get_outputs()]
    shapes = {each.name: each.shape for each in session.get_inputs()}
    states = {name: np.zeros(shapes[name], np.float32) for name in state_names(2).values()}
    lost = []
    for position, (token, after) in enumerate(pairwise(tokens)):
        given = {"token": np.array([token]), "position": np.array([position]), **states}
        found = dict(zip(names, session.run(None, given), strict=True))
        states = {before: found[name] for name, before in state_names(2).items()}
        logits = np.asarray(found["logits"], np.float64)[0]
        lost.append(np.log(np.exp(logits).sum()) - logits[after])
    return np.exp(np.mean(lost))


def test_the_table_has_the_perplexity_of_the_file(tmp_path):
    LlamaFile().save_gguf(tmp_path / "tiny.gguf", "F16")
    (tmp_path / "text.txt").write_text(_TEXT)
    done = measured(tmp_path, tmp_path / "tiny.gguf", tmp_path / "text.txt")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split() for line in done.stdout.splitlines()[3:] if line.strip()]
    assert [row[0] for row in rows] == ["floats", "int8", "int4,", "int4,"]
    assert rows[1][1] == f"{perplexity_of_the_file(tmp_path / 'tiny.gguf'):.2f}"


def test_a_text_that_is_too_long_is_refused(tmp_path):
    LlamaFile().save_gguf(tmp_path / "tiny.gguf", "F16")
    (tmp_path / "text.txt").write_text(_TEXT * 9)
    done = measured(tmp_path, tmp_path / "tiny.gguf", tmp_path / "text.txt")
    assert done.returncode == 1 and "takes 2 to 64" in done.stderr


def test_the_prose_calibrates_nothing():
    prose = (ROOT / "scripts/prose.txt").read_text()
    assert not [text for text in calibration_texts() if text in prose]
