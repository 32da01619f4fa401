"""Batches through sessions and models: what the host sees of several images a run."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.golden.check import check
from tpulite.graph.graph import Node
from tpulite.quant.exactness import Exactness
from tpulite.runtime.golden_device import GoldenDevice
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import load_model_file, save_model
from tpulite.runtime.model_run import Runner
from tpulite.runtime.session import Session
from tpulite_testing.compiling.batch_programs import lut_program
from tpulite_testing.graphs.model_graphs import chain, tensor

SHAPE = (3, 5, 7)
RELU = np.arange(-128, 128).clip(-5, None).astype(np.int8)
"""ReLU of a zero point of -5."""


class Counting(GoldenDevice):
    """A device whose clock counts the runs: run n takes n cycles."""

    runs = 0

    def run(self, job):
        self.runs += 1
        result = super().run(job)
        return type(result)(result.fault, {"cycles": self.runs})


def images(count, *, seed=0, dtype="int8"):
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    return rng.integers(limits.min, limits.max, (count, *SHAPE), dtype, endpoint=True)


def model(batch):
    """QUANTIZE and DEQUANTIZE on the host, RELU on the machine by a program of a batch."""
    shape, meaning = (1, *SHAPE), (0.5, -5)
    tensors = [
        tensor("in", shape),
        tensor("x", shape, "int8", meaning),
        tensor("y", shape, "int8", meaning),
        tensor("out", shape),
    ]
    nodes = [
        Node("quantize", "quantize", ("in",), ("x",), {}, "QUANTIZE"),
        Node("relu", "relu", ("x",), ("y",), {}, "RELU"),
        Node("dequantize", "dequantize", ("y",), ("out",), {}, "DEQUANTIZE"),
    ]
    config = Config(array_size=4, ub_rows=256)
    program = lut_program(RELU, config, SHAPE, batch=batch)
    return Model(chain(nodes, tensors), Exactness("litert-ref"), config, compiled=(program,))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(("batch", "size"), [(1, 4), (2, 8), (3, 16), (5, 4)])
def test_a_run_takes_a_batch(batch, size, dtype):
    table = np.random.default_rng(9).permutation(RELU)
    program = lut_program(table, Config(array_size=size), SHAPE, batch=batch, dtype=dtype)
    assert check(program) == [] and program.batch == batch
    x = images(batch, dtype=dtype)
    expected = table[x.view(np.int8).astype(int) + 128].view(dtype)
    given = x[0] if batch == 1 else x
    got = Session(program).run(given).output
    assert got.dtype == dtype and got.shape == given.shape
    np.testing.assert_array_equal(got.reshape(x.shape), expected)


def test_a_batch_must_be_whole():
    program = lut_program(RELU, Config(), SHAPE, batch=3)
    message = r"^Tensor 'x' must have shape \(3, 3, 5, 7\), not \(2, 3, 5, 7\)$"
    with pytest.raises(ValueError, match=message):
        Session(program).run(images(2))


@pytest.mark.parametrize("batch", [1, 2, 4, 7, 8])
def test_models_run_inputs_in_batches(batch):
    """Seven inputs: the last run may lack some, and nobody sees what it computes instead."""
    net = model(batch)
    x = {"in": np.random.default_rng(1).uniform(-80, 80, (7, *SHAPE)).astype(np.float32)}
    device = Counting(net.config)
    results = net.run(x, device)
    assert results.output.shape == x["in"].shape
    np.testing.assert_array_equal(results.output, net.reference(x)["out"])
    runs = -(-7 // batch)
    assert results.batch == batch and device.runs == runs
    assert results.cycles == tuple(range(1, runs + 1))
    assert [len(each) for each in results.segments] == [1] * runs
    assert results.segments[-1][0].output.shape == ((batch, *SHAPE) if batch > 1 else SHAPE)


def test_a_runner_takes_no_more_than_a_batch():
    net = model(2)
    runner = Runner(net, "golden")
    x = [{"in": np.full((1, *SHAPE), value, np.float32)} for value in (3, -90, 7)]
    assert runner.batch == 2
    (first, second) = runner.runs(x)
    assert first.output[:, 0, 0, 0].tolist() == [3, 0] and second.output[:, 0, 0, 0].tolist() == [7]
    for wrong in ([], x):
        with pytest.raises(ValueError, match=rf"^a run takes 1 to 2 inputs, not {len(wrong)}$"):
            runner.run(*wrong)


def test_saved_models_keep_their_batch(tmp_path):
    save_model(model(3), tmp_path / "net")
    loaded = load_model_file(tmp_path / "net")
    x = np.linspace(-70, 70, 4 * 105).reshape(4, *SHAPE).astype(np.float32)
    results = loaded.run(x)
    assert results.batch == 3 and len(results.segments) == 2
    np.testing.assert_array_equal(results.output, loaded.reference(x)["out"])
