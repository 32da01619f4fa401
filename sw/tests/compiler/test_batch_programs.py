"""Networks compiled for several images a run: the same bits, and no more cycles for an image."""

from functools import cache

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.memory import Window
from tpulite.compiler.options import Options
from tpulite.golden.timing import predict_cycles
from tpulite.models import CNN_DIGITS
from tpulite.report.traffic import dram_traffic
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite_testing.quick_options import quick_options
from tpulite_testing.zoo_networks import zoo_network

INPUTS = 5
"""One more than a batch: the last run has room for three others."""


@cache
def load(name, batch):
    """Return a network that is compiled for a batch."""
    path = CNN_DIGITS if name == "cnn" else zoo_network(name)
    return Model.load(path, options=Options(batch=batch)).compile()


def cycles_of_an_image(model):
    batch = model.options.batch
    return sum(predict_cycles(p.commands, p.config) for p in model.programs) / batch


def constant_bytes(model):
    """Return the bytes of weights, records and tables that are loaded in a run."""
    return sum(dram_traffic(program).loads[Window.CONSTANTS] for program in model.programs)


@pytest.mark.parametrize("name", ["cnn", "kws", "resnet8"])
def test_a_batch_gives_the_same_bits_in_fewer_cycles(name):
    model = load(name, 4)
    assert [program.batch for program in model.programs] == [4] * len(model.programs)
    x = random_inputs(model.graph, INPUTS, seed=11)
    results, reference = model.run(x), model.reference(x)
    assert results.batch == 4 and len(results.segments) == 2
    for output, values in results.outputs.items():
        np.testing.assert_array_equal(values, reference[output])
    assert cycles_of_an_image(model) <= cycles_of_an_image(load(name, 1))


def test_weights_are_loaded_once():
    # One image alone may load some of them again, where its plan is faster for it.
    assert 0 < constant_bytes(load("cnn", 4)) <= constant_bytes(load("cnn", 1))


@pytest.mark.parametrize("batch", [2, 3])
@pytest.mark.parametrize("size", [4, 16])
def test_buffers_that_do_not_hold_the_batch(batch, size):
    """Images of the batch go to DRAM, or the groups through their slices, one after the other."""
    config = Config(array_size=size, ub_rows=512 * 16 // size, acc_rows=64)
    model = Model.load(CNN_DIGITS, config=config, options=quick_options(batch=batch))
    x = random_inputs(model.graph, 2 * batch - 1, seed=12)
    np.testing.assert_array_equal(model.run(x).output, model.reference(x)["dense"])


def test_reports_count_all_images():
    one, four = load("cnn", 1).programs[0], load("cnn", 4).programs[0]
    assert four.macs == 4 * one.macs
    assert [layer.name for layer in four.layers] == [layer.name for layer in one.layers]
