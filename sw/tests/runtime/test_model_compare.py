"""What counts in a comparison: the untouched file, and what can be exposed without a change."""

import numpy as np
import pytest

from tpulite.compiler.options import Options
from tpulite.models import CNN_DIGITS
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import Comparing, compare_device, compare_model
from tpulite.runtime.oracles.oracle import Oracle


@pytest.fixture(scope="module")
def model():
    return Model.load(CNN_DIGITS).compile()


@pytest.fixture(scope="module")
def inputs(model):
    values = random_inputs(model.graph, 3, 7)
    return [{name: array[i : i + 1] for name, array in values.items()} for i in range(3)]


def tensors_of(model):
    return lambda values: model.reference(values)


def outputs_of(model):
    return lambda values: {"dense": model.reference(values)["dense"]}


def test_exposed_tensors_are_compared_while_outputs_stay(model, inputs):
    compared = compare_model(model, Oracle(outputs_of(model), tensors_of(model)), inputs)
    assert compared.same and len(compared.layers) == 7 and not compared.left_out
    assert [tensor.name for tensor in compared.tensors][-1] == "dense"


def test_exposed_tensors_do_not_count_if_an_output_changes(model, inputs):
    calls = []

    def exposed(values):
        tensors = model.reference(values)
        tensors["stem"] = tensors["stem"] ^ 1
        calls.append(1)
        return tensors | {"dense": tensors["dense"] ^ (len(calls) == 2)}

    oracle = Oracle(outputs_of(model), exposed)
    compared = compare_model(model, oracle, inputs)
    assert compared.same and len(calls) == 2
    assert [x.name for x in compared.layers] == [x.name for x in compared.tensors] == ["dense"]
    assert compared.reasons() == {
        "not exposed by the library: its outputs change when they are outputs, too": 6
    }


def test_a_session_that_fails_shows_nothing(model, inputs):
    def exposed(values):
        raise RuntimeError("no kernel")

    compared = compare_model(model, Oracle(outputs_of(model), exposed), inputs)
    (why,) = compared.reasons()
    assert compared.same and "it fails when they are outputs (no kernel)" in why


def test_differences_of_the_program_and_of_the_definition_are_apart(model, inputs):
    def wrong(values):
        tensors = model.reference(values)
        return tensors | {"stem": tensors["stem"] ^ 1}

    oracle = Oracle(outputs_of(model), wrong)
    compared = compare_model(model, oracle, inputs)
    assert [tensor.name for tensor in compared.different_layers] == ["stem"]
    assert not compared.same and not compared.explained
    oracle.known = {"stem": "it cannot do stems"}
    assert compare_model(model, oracle, inputs).explained


def test_a_batch_is_compared_input_by_input(inputs):
    model = Model.load(CNN_DIGITS, options=Options(batch=2))
    compared = compare_model(model, Oracle(outputs_of(model)), inputs)
    (dense,) = compared.tensors
    assert compared.same and (dense.elements, dense.top1) == (30, (3, 3))


def test_a_device_shows_every_tensor(model, inputs):
    compared = compare_device(model, inputs, Comparing("golden"))
    assert compared.same and len(compared.tensors) == 7


def test_figures_are_those_of_the_two_sides(model, inputs):
    def wrong(values):
        dense = model.reference(values)["dense"].astype(int)
        dense[0, :2] += np.where(dense[0, :2] > 0, -3, 4)
        return {"dense": dense.astype(np.int8)}

    compared = compare_model(model, Oracle(wrong), inputs[:1])
    (dense,) = compared.tensors
    zero = int(model.graph.tensors["dense"].quantization.zero_point[0])
    ours = model.reference(inputs[0])["dense"].astype(float) - zero
    theirs = wrong(inputs[0])["dense"].astype(float) - zero
    gaps = np.abs(ours - theirs)
    assert dense.largest == gaps.max() and dense.figures.mean == pytest.approx(gaps.mean())
    assert dense.figures.rmse == pytest.approx(np.sqrt((gaps**2).mean()))
    cosine = (ours * theirs).sum() / np.linalg.norm(ours) / np.linalg.norm(theirs)
    assert dense.figures.cosine == pytest.approx(cosine)
    snr = 10 * np.log10((theirs**2).sum() / (gaps**2).sum())
    assert dense.figures.snr == pytest.approx(snr)
    tolerant = compare_model(model, Oracle(wrong), inputs[:1], Comparing(tolerance=4))
    assert tolerant.same and tolerant.tensors[0].different == 2
