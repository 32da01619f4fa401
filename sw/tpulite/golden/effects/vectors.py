"""VECTOR: which rows each output vector reads, and what the command touches."""

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import RECORD_BYTES, Config
from tpulite.arch.effects import BINARY, ELEMENTWISE, WINDOWED, parameter_rows
from tpulite.arch.isa import WORDS_BYTES, Command, VectorOp
from tpulite.arch.registers import Fault
from tpulite.golden.effects.access import FaultSite, Footprint


def vector_footprint(command: Command, config: Config) -> Footprint:
    """Return what a VECTOR touches: its parameters, then output vectors until one faults."""
    limit = config.ub_rows
    operation = VectorOp(command["operation"])
    parameters = command["param_row"] + np.arange(parameter_rows(operation, config))
    if parameters.size and parameters[-1] >= limit:
        return Footprint(fault=FaultSite(Fault.BUFFER, int(parameters[-1])))
    a, b, out = (operand_rows(command, name) for name in ("a", "b", "out"))
    window = window_rows(command)
    if operation not in BINARY:
        b = np.full_like(a, -1)
    wrong = np.flatnonzero(np.maximum(np.maximum(a + window.max(), b), out) >= limit)
    fault = None
    if wrong.size:
        first = int(wrong[0])
        rows = np.insert(np.append(out[first], a[first] + window), 2, b[first])
        fault = FaultSite(Fault.BUFFER, int(rows[rows >= limit][0]))
        a, b, out = a[:first], b[:first], out[:first]
    reads = a[:, None] + window
    if operation in BINARY:
        reads = np.insert(reads, 1, b, axis=1)
    return Footprint(
        early_reads=parameters,
        reads=reads.ravel(),
        writes=out,
        # An output vector is computed when everything that it needs has been read.
        reads_before=(1 + np.arange(len(out))) * reads.shape[1],
        fault=fault,
    )


def record_offset(operation: VectorOp, config: Config) -> int:
    """Return the rows of parameters before the channel record."""
    if operation == VectorOp.SHARE:
        return WORDS_BYTES // config.row_bytes
    return -(-RECORD_BYTES // config.row_bytes) if operation in ELEMENTWISE else 0


def operand_rows(command: Command, name: str) -> NDArray[np.int64]:
    """Return the row of an operand, or of the result, for each output vector."""
    lines = command[f"{name}_row"] + np.arange(command["rows"]) * command[f"{name}_pitch"]
    return (lines[:, None] + np.arange(command["columns"]) * command[f"{name}_step"]).ravel()


def window_rows(command: Command) -> NDArray[np.int64]:
    """Return the rows of the window, from its first one, in the order of reading."""
    if command["operation"] not in WINDOWED:
        return np.zeros(1, dtype=np.int64)
    lines = np.arange(command["window_rows"]) * command["window_pitch"]
    return (lines[:, None] + np.arange(command["window_columns"])).ravel()
