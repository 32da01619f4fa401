"""What commands do to data: unified buffer, accumulators and DRAM."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import RECORD_BYTES, Config
from tpulite.arch.effects import BINARY, ELEMENTWISE, early_weights, parameter_rows
from tpulite.arch.isa import RECORD, Command, Drain, Opcode, RecordForm, VectorOp
from tpulite.arch.numerics import Rounding
from tpulite.arch.registers import Fault
from tpulite.golden.effects.access import FaultSite, Footprint
from tpulite.golden.effects.convolution import taps_of, weight_rows, weight_tiles
from tpulite.golden.effects.footprint import record_offset
from tpulite.golden.machine.arithmetic import (
    Records,
    conv_sums,
    read_records,
    unpack_records,
    vector_results,
    wide_bounds,
)
from tpulite.golden.machine.dram import Dram
from tpulite.golden.ops import requantize, rescale
from tpulite.layout.int16 import split_int16

_FLIP = np.uint8(0x80)


class Datapath:
    """The storage of the machine and the effect of each command on it.

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

    def conv(self, command: Command, access: Footprint) -> FaultSite | None:
        """Convolve, accumulate and drain; return the fault of an unusable channel record."""
        rows = self.buffer[weight_rows(command, self.config)].view(np.int8)
        stream = self.buffer.view(np.int8)[access.vectors]
        stream[access.vectors < 0] = command["pad"]
        if command["int16"]:
            lower = stream[:, 1::2]
            lower[access.vectors[:, 1::2] < 0] ^= np.int8(-128)
        sums = conv_sums(command, self.config, stream, weight_tiles(command, rows))
        records = access.early_reads[early_weights(command, self.config) :]
        return self.drain(command, replace(access, early_reads=records), sums)

    def drain(
        self, command: Command, access: Footprint, sums: NDArray[np.int32]
    ) -> FaultSite | None:
        """Accumulate and drain sums; the early reads are the rows of channel records alone."""
        accumulators = _slice(access.accumulators)
        if command["int16"]:  # whose sums are those of the upper vectors
            accumulators = slice(accumulators.start, accumulators.stop, 2)
            whole = sums[::2].astype(np.int64) * 256 + sums[1::2]
            sums = (whole << 8 * command["digit"]).astype(np.int32)
        if command["accumulate"]:
            sums += self.accumulators[accumulators]  # int32 arrays wrap

        match Drain(command["drain"]):
            case Drain.KEEP:
                self.accumulators[accumulators] = sums
            case Drain.RAW:
                size = self.config.array_size
                self.buffer[access.writes] = sums.astype("<i4").view(np.uint8).reshape(-1, size)
            case Drain.REQUANTIZE:
                rows = self.buffer[access.early_reads]
                records = read_records(rows, RecordForm(command["record_form"]))
                if (fault := self._record_fault(records, command["record_row"])) is not None:
                    return fault
                gain = records.pop("gain")
                if command["int16"]:
                    results = rescale(sums, **wide_bounds(records, gain)).astype(np.int16)
                    results = split_int16(results).reshape(-1, self.config.array_size)
                else:
                    results = requantize(sums, **records)
                self.buffer[access.writes] = results.view(np.uint8)
        return None

    def stray_weights(self, command: Command, access: Footprint) -> NDArray[np.int64]:
        """Return the weight rows of a depthwise CONV that hold no taps and yet have weights.

        What they would add to the sums is undefined.
        """
        tile = access.early_reads[: self.config.array_size]
        others = np.delete(tile, taps_of(command, self.config)[0])
        zero = self.buffer[others].view(np.int8) == command["weight_zero_point"]
        return others[~zero.all(axis=1)]

    def vector(self, command: Command, access: Footprint) -> FaultSite | None:
        """Compute the output vectors of a VECTOR up to a fault; return the fault."""
        operation = VectorOp(command["operation"])
        parameters, records = self.buffer[access.early_reads], {}
        if len(parameters) < parameter_rows(operation, self.config):
            return access.fault
        offset = record_offset(operation, self.config)
        if operation == VectorOp.AFFINE:
            records = read_records(parameters, RecordForm.FULL)
        elif operation in (VectorOp.SUM, VectorOp.SHARE, *ELEMENTWISE):
            data = parameters[offset:].reshape(-1)[:RECORD_BYTES]
            records = unpack_records(data[None])
        fault = self._record_fault(records, command["param_row"] + offset) if records else None
        outputs = len(access.writes)
        if fault is None and outputs:
            reads = self.buffer[access.reads].view(np.int8)
            reads = reads.reshape(outputs, -1, self.config.array_size)
            b = reads[:, min(1, reads.shape[1] - 1)]
            a = np.delete(reads, 1, axis=1) if operation in BINARY else reads
            results = vector_results(command, a, b, parameters, records)
            self.buffer[access.writes] = results.view(np.uint8)
        return fault or access.fault

    def execute(self, command: Command, access: Footprint, dram: Dram) -> FaultSite | None:
        """Execute any command but a STORE; return its fault."""
        match command.opcode:
            case Opcode.LOAD:
                self.load(command, access, dram)
            case Opcode.CONV if access.fault is None:
                return self.conv(command, access)
            case Opcode.VECTOR:
                return self.vector(command, access)
        return access.fault

    def _record_fault(self, records: Records, row: int) -> FaultSite | None:
        """Find the first record, from a row on, whose rounding the machine lacks."""
        wrong = np.flatnonzero(~np.isin(records["rounding"], self._roundings))
        if not wrong.size:
            return None
        bit = 8 * RECORD_BYTES * int(wrong[0]) + RECORD.offsets()["rounding"]
        return FaultSite(Fault.RECORD, row + bit // (8 * self.config.row_bytes))


def _slice(rows: range) -> slice:
    return slice(rows.start, rows.stop)
