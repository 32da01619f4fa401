"""Networks with states: frame by frame as LiteRT runs them."""

import importlib.metadata
import json
import zipfile
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.compiler.options import Options
from tpulite.evaluate.network import Images, Network, answer_images
from tpulite.frontend.cut import cut_graph
from tpulite.frontend.tflite.cut import pack
from tpulite.frontend.tflite.file import load_tflite
from tpulite.models import CNN_DIGITS
from tpulite.quant.partition import HostSegment
from tpulite.runtime.example import draw_example
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import load_example, load_model_file, save_model
from tpulite.runtime.model_run import Runner
from tpulite_testing.files.streaming import STREAMS, litert_frames
from tpulite_testing.files.tflite_builder import Builder, schema

FRAMES, SEED = 9, 7


def streamed(name: str) -> tuple[Model, np.ndarray, list[list[np.ndarray]]]:
    """Return a network, frames, and the outputs that LiteRT gives for them."""
    file = STREAMS[name]()
    model = Model.load(load_tflite(file, name))
    (x,) = random_inputs(model.graph, FRAMES, SEED).values()
    return model, x, litert_frames(file, np.split(x, FRAMES))


@pytest.mark.parametrize("name", STREAMS)
def test_every_frame_has_the_librarys_bits(name):
    model, x, expected = streamed(name)
    due = [np.concatenate(each) for each in zip(*expected, strict=True)]
    for results in (model.run(x).outputs, model.reference(x)):
        for output, values in zip(model.graph.outputs, due, strict=True):
            assert results[output].tobytes() == values.tobytes(), output


@pytest.mark.parametrize("name", ["one_stream", "wake_word", "read_after_write"])
def test_nothing_of_a_stream_is_the_cpus(name):
    model, _, _ = streamed(name)
    assert model.layers and not any(isinstance(x, HostSegment) for x in model.segments)


def test_a_sequence_may_come_in_parts():
    model, x, expected = streamed("wake_word")
    parts = [model.run(each).output for each in np.split(x, 3)]
    assert (np.concatenate(parts) == np.concatenate(expected)[:, 0]).all()


def test_inputs_may_have_nothing_to_do_with_each_other():
    model, x, _ = streamed("one_stream")
    file = STREAMS["one_stream"]()
    alone = [litert_frames(file, [frame])[0][0] for frame in np.split(x, FRAMES)]
    assert (model.run(x, reset=True).output == np.concatenate(alone)).all()


def test_states_can_be_read_set_and_reset():
    model, x, _ = streamed("one_stream")
    assert list(model.state) == ["s0"] and (model.state["s0"] == 3).all()
    second = model.run(x[:2]).output[1:]
    kept = model.state["s0"]
    assert (kept == x[:2].reshape(kept.shape)).all()
    model.reset()
    assert (model.state["s0"] == 3).all()
    first = np.concatenate([np.full_like(x[:1], 3), x[:1]], axis=1)
    model.state["s0"] = first  # as if a frame had been before
    assert (model.run(x[1:2]).output == second).all()
    with pytest.raises(
        ValueError, match=r"^State 's0' must be int8 \[1, 2, 1, 8\], not int64 \[\]"
    ):
        model.state["s0"] = np.array(0)
    with pytest.raises(KeyError):
        model.state["other"] = first


def test_runners_of_a_model_have_states_of_their_own():
    model, x, expected = streamed("one_stream")
    runners = [Runner(model, "golden"), Runner(model, "golden", tensors=True)]
    for frame, (due,) in zip(np.split(x, FRAMES), expected, strict=True):
        for runner in runners:
            (name,) = model.graph.inputs
            assert (runner.run({name: frame}).output == due).all()
    assert (model.state["s0"] == 3).all()


def test_all_tensors_of_a_frame_are_the_definitions():
    model, x, _ = streamed("wake_word")
    due = model.reference(x)
    known = model.known_channels()
    for name, values in model.run(x, tensors=True).tensors.items():
        mask = known.get(name, slice(None))
        assert (values[..., mask] == due[name][..., mask]).all(), name


def test_a_batch_of_frames_is_refused():
    file = load_tflite(STREAMS["wake_word"](), "net")
    message = r"^net keeps states between runs: --batch must be 1, not 4$"
    with pytest.raises(ValueError, match=message):
        Model.load(file, options=Options(batch=4))


def test_only_variables_that_outlive_a_run_are_states():
    names = [state.name for state in load_tflite(STREAMS["never_written"]()).states]
    assert names == ["fixed"]


def stream_without(first: bool, *, wrong_scale: bool = False) -> bytes:
    b = Builder()
    if first:
        b.variable("h", b.constant(np.zeros((1, 4), np.int8), 0.5, 0))
    x = b.input((1, 4), 0.5)
    handle = b.variable("h")
    if wrong_scale:
        b.assign(handle, x)
    y = b.read(handle, b.tensor((1, 4), 0.25) if wrong_scale else x)
    return b.build(b.add(y, x, 1.0))


def test_variables_that_cannot_be_followed_are_refused():
    with pytest.raises(ValueError, match=r"^variable 'h' is read, but has no initial value$"):
        load_tflite(stream_without(first=False))
    with pytest.raises(ValueError, match="reads a variable with another type than 't"):
        load_tflite(stream_without(first=True, wrong_scale=True))


def test_a_compiled_network_has_its_states_and_an_example(tmp_path):
    model, x, expected = streamed("wake_word")
    path = tmp_path / "net.tpulite"
    save_model(model, path, draw_example(model))
    loaded, example = load_model_file(path), load_example(path)
    assert (loaded.run(x).output == np.concatenate(expected)[:, 0]).all()
    loaded.reset()
    assert example is not None and list(example.inputs) == list(model.graph.inputs)
    for name, values in loaded.run(example.inputs).outputs.items():
        assert values.tobytes() == example.outputs[name].tobytes()
    for name, values in loaded.state.items():
        assert values.tobytes() == example.states[name].tobytes()
    save_model(model, path)
    assert load_example(path) is None


def test_a_compiled_network_says_whose_numerics_it_has(tmp_path):
    for exact, package in (("litert-ref", "ai-edge-litert"), ("bm1684x", None)):
        save_model(Model.load(CNN_DIGITS, exact=exact), tmp_path / "net.tpulite")
        with zipfile.ZipFile(tmp_path / "net.tpulite") as archive:
            library = json.loads(archive.read("model.json"))["library"]
        version = None if package is None else importlib.metadata.version(package)
        assert library == {"name": package, "version": version}


def test_a_part_of_a_network_has_the_states_that_it_needs():
    file = STREAMS["wake_word"]()
    graph = load_tflite(file, "net")
    names = [node.name for node in graph.nodes]
    convolutions = [x for x in names if "conv" in x]
    begin = cut_graph(graph, outputs=convolutions[1:2])
    assert [state.name for state in begin.states] == ["s/0", "s/1"]
    end = cut_graph(graph, inputs=convolutions[1:2])
    assert [state.name for state in end.states] == ["s/2"]
    whole, first, second = (Model.load(x) for x in (graph, begin, end))
    (x,) = random_inputs(graph, FRAMES, SEED).values()
    assert (second.run(first.run(x).output).output == whole.run(x).output).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda once, main: once[0].outputs.clear(), "'var_handle_0': it must have 0 inputs and 1"),
        (lambda once, main: main[3].inputs.clear(), "'read_variable_3': it must have 1 inputs"),
        (lambda once, main: once[1].inputs.pop(), "'assign_variable_1': it must have 2 inputs"),
        (lambda once, main: once[1].inputs.__setitem__(1, 99), "CALL_ONCE uses tensor 99 of 2"),
        (lambda once, main: main[3].inputs.__setitem__(0, 0), "is not created by VAR_HANDLE"),
        (lambda once, main: call(main[0], 0), "CALL_ONCE calls the network itself"),
        (lambda once, main: call(main[0], 7), "subgraph 7 is used, and the file has 2"),
    ],
)
def test_damaged_variables_are_refused(change, message):
    model: Any = schema.ModelT.InitFromObj(schema.Model.GetRootAs(STREAMS["one_stream"]()))
    once, main = model.subgraphs[1].operators, model.subgraphs[0].operators
    for operator in (*once, *main):
        for ports in ("inputs", "outputs"):
            values = getattr(operator, ports)
            setattr(operator, ports, [] if values is None else list(map(int, values)))
    change(once, main)
    with pytest.raises(ValueError, match=message):
        load_tflite(pack(model))


def call(operator, index: int) -> None:
    operator.builtinOptions.initSubgraphIndex = index


def test_samples_of_an_evaluation_have_nothing_to_do_with_each_other():
    file = load_tflite(STREAMS["one_stream"](), "net")
    model = Model.load(file)
    inputs = random_inputs(file, FRAMES, SEED)
    (x,) = inputs.values()
    images = Images("drawn", {name: x[:, None] for name, x in inputs.items()})
    record = answer_images(Network.of(model, "golden", "litert-ref", file), images)
    assert record["equal"] == [True] * FRAMES
    scores = model.run(x, reset=True).output.reshape(FRAMES, -1)
    assert [ranked[0] for ranked in record["ranked"]] == scores.argmax(axis=1).tolist()
