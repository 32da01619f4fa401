"""What commands do to data: unified buffer, accumulators and DRAM."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import RECORD_BYTES, Config
from tpulite.arch.isa import RECORD, Command, Drain, Opcode, RecordForm
from tpulite.arch.numerics import Rounding
from tpulite.arch.registers import Fault
from tpulite.golden.dram import Dram
from tpulite.golden.footprint import FaultSite, Footprint
from tpulite.golden.ops import matmul_int32, requantize
from tpulite.golden.records import read_records

__all__ = ["Datapath"]

_FLIP = np.uint8(0x80)


class Datapath:
    """The storage of the machine and the effect of each command on it.

    Parameters
    ----------
    config : Config
        The machine.

    Attributes
    ----------
    buffer : array of uint8, [ub_rows, N]
        The unified buffer.
    accumulators : array of int32, [acc_rows, N]
        The accumulators. A drained sum does not go back to them.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.buffer = np.zeros((config.ub_rows, config.row_bytes), dtype=np.uint8)
        self.accumulators = np.zeros((config.acc_rows, config.array_size), dtype=np.int32)
        self._roundings = [int(Rounding[name.upper()]) for name in config.roundings]

    def load(self, command: Command, access: Footprint, dram: Dram) -> None:
        """Copy the lines of a LOAD into the unified buffer."""
        for span in access.spans:
            line = dram.data[span.start : span.stop].reshape(-1, self.config.row_bytes)
            self.buffer[_slice(span.rows)] = line ^ _FLIP if command["flip"] else line

    def store(
        self, command: Command, access: Footprint, dram: Dram
    ) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """Write the lines of a STORE to DRAM; yield the address and the bytes of each."""
        for span in access.spans:
            line = self.buffer[_slice(span.rows)].reshape(-1)[: span.stop - span.start]
            line = line ^ _FLIP if command["flip"] else line.copy()
            dram.write(span.start, line)
            yield span.start, line

    def copy(self, command: Command, access: Footprint) -> None:
        """Copy and clamp the rows of a COPY."""
        rows = self.buffer[access.reads].view(np.int8)
        clamped = np.clip(rows, command["low"], command["high"])
        self.buffer[access.writes] = clamped.view(np.uint8)

    def matmul(self, command: Command, access: Footprint) -> FaultSite | None:
        """Multiply, accumulate and drain; return the fault of an unusable channel record."""
        size, m, k_tiles = self.config.array_size, command["m"], command["k_tiles"]
        rows = self.buffer[access.early_reads]
        weights = rows[: k_tiles * size].view(np.int8)
        vectors = self.buffer[access.reads].view(np.int8).reshape(k_tiles, m, size)
        activations = vectors.transpose(1, 0, 2).reshape(m, k_tiles * size)
        sums = matmul_int32(activations, weights, command["weight_zero_point"])
        accumulators = _slice(access.accumulators)
        if command["accumulate"]:
            sums += self.accumulators[accumulators]  # int32 arrays wrap

        match Drain(command["drain"]):
            case Drain.KEEP:
                self.accumulators[accumulators] = sums
            case Drain.RAW:
                self.buffer[access.writes] = sums.astype("<i4").view(np.uint8).reshape(-1, size)
            case Drain.REQUANTIZE:
                records = read_records(rows[k_tiles * size :], RecordForm(command["record_form"]))
                wrong = np.flatnonzero(~np.isin(records["rounding"], self._roundings))
                if wrong.size:
                    bit = 8 * RECORD_BYTES * int(wrong[0]) + RECORD.offsets()["rounding"]
                    return FaultSite(Fault.RECORD, command["record_row"] + bit // (8 * size))
                self.buffer[access.writes] = requantize(sums, **records).view(np.uint8)
        return None

    def execute(self, command: Command, access: Footprint, dram: Dram) -> FaultSite | None:
        """Execute any command but a STORE; return its fault."""
        match command.opcode:
            case Opcode.LOAD:
                self.load(command, access, dram)
            case Opcode.COPY:
                self.copy(command, access)
            case Opcode.MATMUL if access.fault is None:
                return self.matmul(command, access)
        return access.fault


def _slice(rows: range) -> slice:
    return slice(rows.start, rows.stop)
