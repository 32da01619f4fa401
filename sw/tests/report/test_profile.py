"""Profiles: every cycle and every byte belongs to one layer."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from tpulite.arch.config import COMMAND_BYTES, Config
from tpulite.arch.isa import Command, Engine, Opcode
from tpulite.compiler.options import Options
from tpulite.golden.timing import predict_cycles
from tpulite.models import CNN_DIGITS, MLP_DIGITS
from tpulite.program import LayerInfo, Program
from tpulite.report.advice import advise
from tpulite.report.profile import LayerProfile, Profile, profile_model
from tpulite.report.spending import Cause, engine_activity, spend_cycles
from tpulite.report.traced_run import TracedRun
from tpulite.report.traffic import Traffic, dram_traffic
from tpulite.runtime.model import Model


@dataclass(frozen=True)
class Trace:
    index: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    cycles: np.ndarray


def trace(*commands):
    """Make a trace of commands: index, start, stop, cycles of token and of buffer."""
    index, start, stop, token, buffer = np.array(commands).T
    none = np.zeros_like(index)
    busy = stop - start - token - buffer
    return Trace(index, start, stop, np.stack([none, busy, token, buffer, none], axis=1))


def conv(**fields):
    return Command.make(Opcode.CONV, **({"rows": 4, "columns": 4} | fields))


PROGRAM = Program(
    Config(),
    (
        *(Command.make(Opcode.LOAD), conv(), conv(depthwise=1), conv(columns=1)),
        *(Command.make(Opcode.VECTOR), Command.make(Opcode.STORE), Command.make(Opcode.END)),
    ),
    layers=(
        *(LayerInfo("a", 16, 16, 16, (1, 3), (0,)), LayerInfo("b", 16, 9, 16, (2,))),
        LayerInfo("c", 16, 0, 16, (4,), (5,)),
    ),
)


def test_each_cycle_has_one_owner_and_one_cause():
    traces = {
        Engine.LOAD: trace((0, 10, 40, 0, 0)),
        # Layer a, then b between two commands of a: waits for LOAD, and stalls, and waits again.
        Engine.MXU: trace((1, 20, 60, 20, 5), (2, 60, 80, 0, 0), (3, 80, 110, 10, 0)),
        Engine.VPU: trace((4, 70, 150, 15, 0)),
        Engine.STORE: trace((5, 120, 180, 32, 0)),
    }
    start, a, b, c, end = spend_cycles(PROGRAM, traces, 200)
    assert start == {Cause.WAITING: 10}
    assert a == {Cause.DRAM: 30, Cause.WEIGHTS: 20, Cause.MULTIPLIERS: 15, Cause.BUFFER: 5}
    assert b == {Cause.DEPTHWISE: 20}
    # Beside the matrix unit from 85 on; from 85 to 90 and from 110 to 150 it is alone.
    assert c == {Cause.VECTOR: 45, Cause.DRAM: 28, Cause.WAITING: 5}
    assert end == {Cause.WAITING: 22}


def test_activity_is_what_engines_count():
    none = trace((0, 0, 0, 0, 0))
    first = {
        **{Engine.LOAD: trace((0, 10, 40, 0, 0)), Engine.MXU: trace((1, 20, 60, 20, 5))},
        **{Engine.VPU: none, Engine.STORE: trace((5, 60, 80, 4, 6), (6, 80, 100, 0, 0))},
    }
    second = dict.fromkeys(Engine, none) | {Engine.VPU: trace((0, 0, 100, 0, 0))}
    runs = [TracedRun(PROGRAM, first, 100), TracedRun(PROGRAM, second, 100)]
    found = {
        engine.name: [round(200 * part) for part in states.values()]
        for engine, states in engine_activity(runs).items()
    }
    assert [state.name for state in engine_activity(runs)[Engine.LOAD]] == [
        *("IDLE", "BUSY", "TOKEN", "BUFFER", "AXI")
    ]
    assert found == {
        **{"LOAD": [170, 30, 0, 0, 0], "STORE": [160, 30, 4, 6, 0]},
        **{"MXU": [160, 15, 20, 5, 0], "VPU": [100, 100, 0, 0, 0]},
    }
    assert engine_activity([]) == {}


@pytest.mark.parametrize(
    ("path", "options", "config"),
    [
        (CNN_DIGITS, Options(), Config()),
        (CNN_DIGITS, Options(), Config(array_size=8, ub_rows=1024)),
        (CNN_DIGITS, Options(batch=3), Config()),
        (MLP_DIGITS, Options(batch=16, resident=True, effort=0), Config()),
    ],
)
def test_layers_sum_to_what_is_predicted(path, options, config):
    model = Model.load(path, options=options, config=config).compile()
    profile = profile_model(model)
    (program,) = model.steady_programs
    assert profile.cycles == predict_cycles(program.commands, config)
    assert profile.macs == program.macs and profile.batch == options.batch
    assert [layer.name for layer in profile.layers] == [
        *("start", *(layer.name for layer in program.layers), "end")
    ]
    owned = [i for layer in program.layers for i in (*layer.commands, *layer.others)]
    assert sorted(owned) == list(range(len(program.commands) - 1))
    traffic = dram_traffic(program)
    moved = [(x.traffic.read_bytes, x.traffic.written_bytes) for x in profile.layers]
    assert tuple(map(sum, zip(*moved, strict=True))) == (traffic.read_bytes, traffic.written_bytes)
    for layer in profile.layers:
        assert min(layer.spent.values(), default=1) > 0 and layer.utilization <= 1
        assert not layer.macs or layer.traffic.read_bytes >= COMMAND_BYTES


def test_multipliers_that_wait_for_the_requantizer_are_not_called_full():
    layer = LayerProfile("conv", "machine", {}, 256, 144, 16, 0.923, Traffic({}, {}, 0))
    # 36 k-tiles of 4, the last of which takes four cycles a vector with a lane of four.
    layer = replace(layer, spent={Cause.MULTIPLIERS: 256 * 4 * (35 + 4)})
    profile = Profile("", "", Config(array_size=4, requant_lanes=1), 1, (layer,), ())
    assert "92%" in advise(layer, profile) and "requant_lanes=4" in advise(layer, profile)
    every = replace(profile, config=Config(array_size=4))
    full = replace(layer, utilization=1.0, spent={Cause.MULTIPLIERS: 256 * 4 * 36})
    assert advise(full, every).startswith("the multipliers are fully used; only fewer MACs")
    waits = replace(full, utilization=0.9)
    assert "fully used in these cycles" in advise(waits, every)


def test_advice_follows_from_what_holds_a_layer_up():
    model = Model.load(MLP_DIGITS, options=Options(effort=0)).compile()
    profile = profile_model(model)
    dense = max(profile.layers, key=lambda layer: layer.macs)
    assert dense.bound in (Cause.DRAM, Cause.WEIGHTS) and "--batch" in advise(dense, profile)
    many = profile_model(model.with_options(Options(batch=16, resident=True, effort=0)).compile())
    busy = max(many.layers, key=lambda layer: layer.macs)
    assert busy.bound == Cause.MULTIPLIERS and "64 output channels would take" in advise(busy, many)
