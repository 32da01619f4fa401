"""Networks of several images a run on the Verilated chip: exact, and faster for an image."""

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.models import CNN_DIGITS
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite_testing.zoo_networks import zoo_network
from tpulite_verilated.rtl_device import RtlDevice

BATCH = 4


@pytest.fixture(scope="module")
def device() -> RtlDevice:
    return RtlDevice(Config(), dram_bytes=1 << 24)


@pytest.mark.parametrize("name", ["cnn", "kws", "resnet8"])
def test_a_batch_takes_fewer_cycles_for_an_image(name: str, device: RtlDevice, capsys) -> None:
    path = CNN_DIGITS if name == "cnn" else zoo_network(name)
    alone = Model.load(path)
    model = alone.with_options(Options(batch=BATCH))
    x = random_inputs(alone.graph, BATCH + 1, seed=21)
    results, reference = model.run(x, device), alone.reference(x)
    for output, values in results.outputs.items():
        np.testing.assert_array_equal(values, reference[output])
    assert results.cycles is not None and len(results.cycles) == 2
    # A last run that lacks inputs is a run like any other.
    assert results.cycles[0] == results.cycles[1]
    first = alone.run({key: value[:1] for key, value in x.items()}, device)
    assert first.cycles is not None
    (one,) = first.cycles
    with capsys.disabled():
        print(f"\n{name}: {one:,} cycles, {results.cycles[0] / BATCH:,.0f} in a batch of {BATCH}")
    assert results.cycles[0] <= BATCH * one
