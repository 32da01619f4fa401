import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, Engine, Opcode, dense
from tpulite.arch.numerics import Rounding
from tpulite.compiler import compile_network, compile_pair
from tpulite.compiler.plan.estimate import estimate_cycles
from tpulite.graph.network import Dense, Network
from tpulite.models import mlp_digits

CONFIG = Config()
END = Command.make(Opcode.END)
MXU = 1 << Engine.MXU


def load(rows, **fields):
    return Command.make(Opcode.LOAD, lines=1, rows=rows, **fields)


def matmul(k_tiles, **fields):
    return Command.make(Opcode.CONV, **dense(m=16, k_tiles=k_tiles, act_pitch=16, **fields))


def test_a_load_takes_latency_and_a_row_a_cycle():
    short, long = (estimate_cycles((load(rows), END), CONFIG) for rows in (16, 1016))
    assert long - short == 1000
    assert 100 < short - 16 < 115
    wide = Config(array_size=32)
    assert estimate_cycles((load(1016), END), wide) - estimate_cycles((load(16), END), wide) == 2000


def test_short_bursts_are_limited_by_those_outstanding():
    lines = Command.make(Opcode.LOAD, lines=160, rows=1, stride=1024, pitch=1)
    assert estimate_cycles((lines, END), CONFIG) > estimate_cycles((load(160), END), CONFIG) + 700


def test_engines_overlap_unless_tokens_order_them():
    parallel = estimate_cycles((load(2000), matmul(100), END), CONFIG)
    serial = estimate_cycles((load(2000, signal=MXU), matmul(100, wait=1), END), CONFIG)
    assert parallel < 2200
    assert serial > 2000 + 1600


def gemm(m, k, n):
    layer = Dense(
        name="gemm",
        weight=np.ones((k, n), np.int8),
        bias=np.zeros(n, np.int32),
        scale=np.ones(1, np.float32),
        rounding=Rounding.FLOAT32,
    )
    return compile_network(Network("gemm", (layer,)), CONFIG, batch=m)


@pytest.mark.parametrize("extent", [32, 64, 128])
def test_estimates_are_above_both_limits(extent):
    program = gemm(extent, extent, extent)
    cycles = estimate_cycles(program.commands, CONFIG)
    assert cycles > program.macs / 256
    assert cycles > (sum(program.window_bytes) - program.window_bytes[2]) / 16


def test_the_search_finds_fast_plans():
    """The chip takes what the model says, to a few cycles."""
    assert estimate_cycles(gemm(64, 64, 64).commands, CONFIG) < 1300
    assert estimate_cycles(gemm(256, 256, 256).commands, CONFIG) < 65536 / 0.99
    mlp = mlp_digits()
    assert estimate_cycles(compile_network(mlp, CONFIG, batch=16).commands, CONFIG) < 1830
    assert estimate_cycles(compile_pair(mlp, CONFIG, batch=16)[1].commands, CONFIG) < 1440
    assert estimate_cycles(compile_network(mlp, CONFIG, batch=256).commands, CONFIG) < 16 * 1215
