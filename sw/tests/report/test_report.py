from dataclasses import dataclass, replace

import numpy as np
import pytest
from rich.console import Console

from tpulite.arch.config import Config
from tpulite.arch.isa import Engine
from tpulite.program import LayerInfo, Program
from tpulite.report import account_layers, layer_table, peers_of
from tpulite.runtime.results import Results


@dataclass(frozen=True)
class Trace:
    index: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    cycles: np.ndarray


# Commands 2 and 4 are the first layer, 7 the second; between 4 and 7 the MXU idles for 5 cycles.
TRACE = Trace(
    index=np.array([2, 4, 7]),
    start=np.array([100, 130, 195]),
    stop=np.array([130, 190, 245]),
    cycles=np.array([[0, 20, 10, 0, 0], [0, 50, 5, 5, 0], [0, 16, 30, 0, 4]]),
)
PROGRAM = Program(
    config=Config(),
    commands=(),
    layers=(LayerInfo("first", 16, 32, 32, (2, 4)), LayerInfo("second", 16, 16, 16, (7,))),
)
RESULTS = Results({}, {"cycles": 300}, traces={Engine.MXU: TRACE})


def test_every_cycle_is_accounted_for_once():
    start, first, second, end = account_layers(PROGRAM, RESULTS)
    assert (start.name, start.cycles, start.idle) == ("start", 100, 100)
    assert (first.cycles, first.busy, first.token, first.buffer) == (90, 70, 15, 5)
    assert first.idle == 0
    assert first.utilization == 16 * 32 * 32 / (90 * 256)
    assert (second.cycles, second.busy, second.token, second.axi, second.idle) == (55, 16, 30, 4, 5)
    assert (end.name, end.cycles) == ("end", 55)
    for account in (start, first, second, end):
        parts = (account.busy, account.token, account.buffer, account.axi, account.idle)
        assert account.cycles == sum(parts)
    assert start.cycles + first.cycles + second.cycles + end.cycles == 300


def test_account_can_be_written_as_json():
    first = account_layers(PROGRAM, RESULTS)[1].as_dict()
    assert first["macs"] == 16384
    assert {"name", "m", "k", "n", "cycles", "utilization"} <= first.keys()


def test_no_account_without_clock_or_trace():
    for results in (Results({}), replace(RESULTS, traces={})):
        with pytest.raises(ValueError, match="needs a device with a clock that records traces"):
            account_layers(PROGRAM, results)


def test_table_shows_layers_and_their_sum():
    console = Console(width=80)
    with console.capture() as capture:
        console.print(layer_table(account_layers(PROGRAM, RESULTS), title="Layers"))
    lines = capture.get().splitlines()
    (row,) = [line for line in lines if "first" in line]
    assert row.split() == [
        "first", "16x32x32", "90", "71.1%", "70", "15", "5",
    ]  # fmt: skip
    (total,) = [line for line in lines if "total" in line]
    assert total.split()[1:4] == ["300", "26.7%", "86"]


def test_peers_are_found_by_workload():
    assert {peer.peer for peer in peers_of("mlp_b16_stream")} >= {"Ethos-U55-256", "Ethos-U85-256"}
    assert peers_of("gemm_64x64x65") == ()
    for peer in peers_of("mlp_b16_cold"):
        assert peer.cycles > 1184 and peer.source
