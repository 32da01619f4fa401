"""A drawn tenth of the operator sweep on the Verilated chip: predicted cycles, exact bits."""

import random

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.configs import named_config
from tpulite.golden.timing import predict_cycles
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite_testing.plain.check import run_untouched
from tpulite_testing.regress import REGRESS
from tpulite_testing.sweep.cases import MACHINE, cases
from tpulite_testing.sweep.table import read_rows
from tpulite_verilated.rtl_device import RtlDevice

SEED = 47

MOST = 0.003
"""How far from the chip's counters the cycle model may be."""

FEW = 12
"""Of the tenth, those of the fewest cycles; `make regress` runs all."""


def drawn() -> list[tuple[str, str, str]]:
    """Return keys of a tenth of the recorded cases that run wholly on the machine.

    SUM is left out: LiteRT's reference kernel reads int8 as uint8 (docs/exactness.md).
    """
    rows = {key[1:]: row for key, row in read_rows().items() if key[0] == MACHINE and not row.host}
    rows = {key: row for key, row in rows.items() if key[0] != "SUM"}
    keys = random.Random(SEED).sample(sorted(rows), len(rows) // 10)
    keys.sort(key=lambda key: rows[key].cycles)
    return keys if REGRESS else keys[:FEW]


@pytest.fixture(scope="module")
def chip():
    return RtlDevice(named_config(MACHINE), dram_bytes=1 << 26)


@pytest.mark.parametrize("key", drawn(), ids=" ".join)
def test_the_chip_takes_the_predicted_cycles(chip, tmp_path, key):
    path = tmp_path / "case.tflite"
    path.write_bytes(cases()[key].build())
    model = Model.load(path, config=named_config(MACHINE))
    inputs = random_inputs(model.graph, 1, SEED)
    results = model.run(inputs, device=chip)
    expected = run_untouched(path, inputs)
    for ours, theirs in zip(results.outputs.values(), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert results.cycles
    predicted = sum(predict_cycles(each.commands, chip.config) for each in model.programs)
    off = abs(results.cycles[0] - predicted)
    assert off <= max(2, MOST * predicted), f"{results.cycles[0]:,}, predicted {predicted:,}"
