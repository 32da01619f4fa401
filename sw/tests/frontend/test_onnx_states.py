"""ONNX networks whose outputs are inputs of the next run: frame by frame as ONNX Runtime."""

import numpy as np
import pytest

from tpulite_testing.oracles.onnx_session import open_onnx

pytest.importorskip("onnx", reason="ONNX is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")

from tpulite.cli.reading import Reading
from tpulite.frontend.onnx.file import load_onnx
from tpulite.frontend.states import with_states
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import load_model_file, save_model
from tpulite_testing.files.onnx_builder import OnnxBuilder

FRAMES = 7


def window_of_frames() -> tuple[bytes, list[tuple[str, str]]]:
    """Convolve the last frames, which go in and out in floats."""
    b = OnnxBuilder()
    rng = np.random.default_rng(5)
    frame, held = b.input("frame", (1, 8, 1, 4)), b.input("held", (1, 8, 2, 4))
    joined = b.node("Concat", *(b.quantize(x, 0.05, 3) for x in (held, frame)), axis=2)
    joined = b.quantize(joined, 0.05, 3)
    weight = rng.integers(-127, 128, (6, 8, 3, 1)).astype(np.int8)
    y = b.quantize(b.node("Conv", joined, b.weight(weight, 0.004)), 0.1, -5)
    ends = (np.array([n], np.int64) for n in (1, 3, 2))
    last = b.quantize(b.node("Slice", joined, *ends, name="held_next"), 0.05, 3)
    return b.build(y, last, dtype="float32"), [(last, "held")]


def recurrence() -> tuple[bytes, list[tuple[str, str]]]:
    """Step a GRU, which only the library computes; its output is the state and nothing else."""
    rng = np.random.default_rng(6)
    b = OnnxBuilder()
    x, h = b.input("x", (1, 1, 5)), b.input("h", (1, 1, 4))
    w, r = (rng.normal(size=(1, 12, n)).astype(np.float32) for n in (5, 4))
    zero = np.zeros((1, 24), np.float32)
    y = b.node("GRU", x, w, r, zero, "", h, hidden_size=4)
    out = b.node("Squeeze", y, np.array([1], np.int64))
    return b.build(out, dtype="float32"), [(out, "h")]


NETWORKS = {make.__name__: make for make in (window_of_frames, recurrence)}


@pytest.mark.parametrize("name", NETWORKS)
def test_every_frame_has_the_librarys_bits(name, tmp_path):
    data, pairs = NETWORKS[name]()
    model = Model.load(load_onnx(data, name), states=dict(pairs))
    graph = model.graph
    inputs = random_inputs(graph, FRAMES, 1)
    results = model.run(inputs)
    save_model(model, tmp_path / "net.tpulite")
    again = load_model_file(tmp_path / "net.tpulite").run(inputs)
    session = open_onnx(data)
    names = [each.name for each in session.get_outputs()]
    state = {state.input: state.initial for state in graph.states}
    for number in range(FRAMES):
        frame = {name: values[number : number + 1] for name, values in inputs.items()}
        due = dict(zip(names, session.run(names, frame | state), strict=True))
        state = {state.input: due[state.output] for state in graph.states}
        for output in graph.outputs:
            for found in (results, again):
                mine = found.outputs[output][number : number + 1]
                assert mine.tobytes() == due[output].tobytes(), (output, number)
    assert len({row.tobytes() for row in results.output}) == FRAMES


def test_outputs_that_are_states_are_outputs_only_if_there_is_no_other():
    data, pairs = window_of_frames()
    graph = load_onnx(data, "net")
    kept = with_states(graph, pairs)
    assert kept.inputs == ("frame",) and kept.outputs == graph.outputs[:1]
    data, pairs = recurrence()
    graph = load_onnx(data, "net")
    assert with_states(graph, pairs).outputs == graph.outputs


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (("y0=held",), "y0: no such output to use as a state; choose from "),
        (("{last}=hold",), r"hold: no such input to use as a state \(did you mean held\?\)"),
        (("{y}=held",), r"is float32 \[1, 6, 1, 4\], and input 'held' is float32 \[1, 8, 2, 4\]"),
        (("{last}=held", "{last}=held"), "input 'held' is given two states"),
    ],
)
def test_what_cannot_be_a_state_is_refused(states, message, tmp_path):
    data, ((last, _),) = window_of_frames()
    (tmp_path / "net.onnx").write_bytes(data)
    y, _ = load_onnx(data, "net").outputs
    pairs = tuple(tuple(x.format(last=last, y=y).split("=")) for x in states)
    with pytest.raises(ValueError, match=message) as error:
        Reading(states=pairs).graph(tmp_path / "net.onnx")
    assert str(error.value).startswith(f"{tmp_path}/net.onnx: ")
