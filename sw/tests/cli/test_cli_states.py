"""Streaming networks on the command line."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.frontend.files import load_graph
from tpulite.models import CNN_DIGITS
from tpulite_testing.files.streaming import STREAMS, litert_frames

pytest_plugins = ("tpulite_testing.command_line",)

FRAMES = 5


@pytest.fixture
def stream(tmp_path):
    """Write a network and frames; return both files, the network's bytes and the frames."""
    file, frames = tmp_path / "net.tflite", tmp_path / "frames.npy"
    file.write_bytes(STREAMS["one_stream"]())
    x = np.random.default_rng(4).integers(-128, 128, (FRAMES, 1, 1, 8)).astype(np.int8)
    np.save(frames, x)
    return file, frames, x


def test_a_sequence_of_frames_keeps_states_and_reset_does_not(tpulite, stream, tmp_path):
    file, frames, x = stream
    each = np.split(x, FRAMES)
    compiled = tmp_path / "net.tpulite"
    tpulite("compile", file, "--output", compiled)
    due = np.concatenate([y for (y,) in litert_frames(file.read_bytes(), each)])
    alone = np.concatenate([litert_frames(file.read_bytes(), [one])[0][0] for one in each])
    assert (due != alone).any()
    for network in (file, compiled):
        output = tmp_path / "y.npy"
        assert tpulite("run", network, "--input", frames, "--output", output)[0] == 0
        assert (np.load(output) == due).all()
        assert tpulite("run", network, "--input", frames, "--output", output, "--reset")[0] == 0
        assert (np.load(output) == alone).all()


def test_a_file_may_give_states(tpulite, stream, tmp_path):
    file, frames, x = stream
    tpulite("run", file, "--input", frames, "--output", tmp_path / "whole.npy")
    whole = np.load(tmp_path / "whole.npy")
    held = x[:2].reshape(1, 2, 1, 8)
    (name,) = load_graph(file).inputs
    np.savez(tmp_path / "rest.npz", **{name: x[2:], "s0": held})
    output = tmp_path / "y.npy"
    assert tpulite("run", file, "--input", "rest.npz", "--output", output)[0] == 0
    assert (np.load(output) == whole[2:]).all()
    np.savez(tmp_path / "bad.npz", **{name: x, "s0": held[:, :1]})
    code, _, err = tpulite("run", file, "--input", "bad.npz")
    assert code == 2 and "bad.npz: State 's0' must be int8 [1, 2, 1, 8], not int8 [1, 1" in err


def test_states_are_listed(tpulite, stream):
    file, _, _ = stream
    code, _, _ = tpulite("inspect", file, "--json", "facts.json")
    facts = json.loads(Path("facts.json").read_text())["facts"]
    assert code == 0 and "state s0: 1x2x1x8 int8, scale 0.05, zero point -3" in facts


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "{net}", "--batch", "4"), "net keeps states between runs: --batch must be 1"),
        (("run", "{net}", "--state", "y"), "'y' must be OUTPUT=INPUT, like h_next=h"),
        (("inspect", "{net}", "--state", "t=t3"), "net.tflite: t: no such output to use"),
        (("run", CNN_DIGITS, "--reset"), "cnn_digits has no states: leave out --reset"),
    ],
)
def test_bad_states_are_one_line(tpulite, stream, words, message):
    code, _, err = tpulite(*(str(word).format(net=stream[0]) for word in words))
    assert code == 2
    assert len(err.splitlines()) == 1 and message in err, err
