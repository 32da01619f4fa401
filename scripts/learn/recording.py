"""Recordings of CONVs on a small matrix unit: what each element did in each cycle."""

from dataclasses import dataclass

import numpy as np

from learn.probe import Cycle, Probe, run_convs
from tpulite.arch.config import Config
from tpulite.arch.isa import Command

_LANE = {
    "sum": "sum",
    "biased": "arithmetic.acc_1",
    "operand": "arithmetic.operand_2",
    "product": "arithmetic.product_4",
    "doubled": "arithmetic.doubled_5",
    "up": "arithmetic.up_5",
    "total": "arithmetic.total_6",
    "result": "o",
}
"""Signals of a requantizer lane."""


@dataclass
class Recording:
    """A CONV, cycle by cycle.

    Attributes
    ----------
    entries : list of int
        Cycles in which a vector that counts enters the array.
    """

    config: Config  #: The machine.
    #: Values of signals, from the cycle before the first weights enter the array on.
    cycles: list[Cycle]

    def __post_init__(self) -> None:
        self.entries = [t for t, cycle in enumerate(self.cycles) if cycle["vector_valid"]]

    def vector_in(self, cycle: int, row: int, column: int) -> int:
        """Return the index of the vector in an element; -1 if none that counts is there.

        Row and column of an element are the cycles that a vector takes to it.
        """
        entered = cycle - row - column
        return self.entries.index(entered) if entered in self.entries else -1

    def accumulators(self, rows: int) -> list[list[list[int] | None]]:
        """Return for every cycle the accumulator rows, None before they are written."""
        now: list[list[int] | None] = [None] * rows
        states = []
        for cycle in self.cycles:
            states.append(list(now))
            if cycle["acc_write"] and cycle["acc_row"] < rows:
                now[cycle["acc_row"]] = fields(cycle["acc_data"], 32, self.config.array_size)
        return states


def record(config: Config, buffer: np.ndarray, commands: list[Command]) -> list[Recording]:
    """Run CONVs and record the array, the accumulators and the requantizer.

    Parameters
    ----------
    buffer : ndarray of int8, [rows, N]
        Unified buffer; results are written to it.
    commands : list of Command
        CONVs, one after the other.
    """
    runs = run_convs(config, buffer, commands, lambda probe: _watched(probe, config.array_size))
    recordings = []
    for run in runs:
        first = next(t for t, cycle in enumerate(run) if cycle["weight_valid"]) - 1
        recordings.append(Recording(config, [_decoded(cycle, config) for cycle in run[first:]]))
    return recordings


def fields(word: int, width: int, count: int) -> list[int]:
    """Cut signed fields out of a word, the lowest first."""
    half = 1 << (width - 1)
    return [((word >> (width * i)) + half) % (2 * half) - half for i in range(count)]


def _watched(probe: Probe, n: int) -> dict:
    signals = {
        "vector": probe["vectors.assembler.o__payload"],
        "vector_valid": probe["vectors.assembler.o__valid"],
        "weight_valid": probe["weights.o__valid"],
        "weight_row": probe["weights.array_row"],
        "acc_write": probe["accumulator.write_enable"],
        "acc_row": probe["accumulator.write_row"],
        "acc_data": probe["accumulator.write_data"],
        "complete": probe["accumulator.o__valid"],
        "drain": probe["accumulator.o__payload"],
    }
    for row in range(n):
        for column in range(n):
            element = f"array.pe_{row}_{column}"
            signals |= {
                f"w{row}{column}": probe[f"{element}.weight"],
                f"next{row}{column}": probe[f"{element}.shadow"],
                f"x{row}{column}": probe[f"{element}.activation"],
                f"sum{row}{column}": probe[f"{element}.total"],
                f"out{row}{column}": probe[f"{element}.o_psum"],
            }
        for stage in range(1, row + 1):
            signals[f"skew{row}{stage}"] = probe[f"array.skew.lane{row}_{stage}"]
        for stage in range(1, n - row):
            signals[f"deskew{row}{stage}"] = probe[f"array.deskew.lane{row}_{stage}"]
        for name, path in _LANE.items():
            signals[f"lane{row}_{name}"] = probe[f"requantizer.lane_{row}.{path}"]
    return signals


def _decoded(cycle: Cycle, config: Config) -> Cycle:
    """Replace packed words by their fields."""
    n = config.array_size
    decoded = {name: value for name, value in cycle.items() if name not in ("vector", "drain")}
    for name in [name for name in cycle if name.startswith("skew")]:
        (decoded[name],) = fields(cycle[name], 8, 1)  # flags follow the activation
    for row, value in enumerate(fields(cycle["vector"], 8, n)):
        decoded[f"vector{row}"] = value
    for column, value in enumerate(fields(cycle["drain"], 32, n)):
        decoded[f"drain{column}"] = value
    if cycle["write"] >= 0:
        for column, value in enumerate(fields(cycle["write_data"], 8, n)):
            decoded[f"written{column}"] = value
    # Behind the sums are the bits raw, first and write.
    decoded["drains"] = cycle["complete"] & (cycle["drain"] >> (32 * n + 2)) & 1
    return decoded
