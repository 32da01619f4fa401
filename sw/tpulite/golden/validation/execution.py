"""What commands do to terms: program order, which is a legal one if the static check says so."""

import numpy as np

from tpulite.arch.config import RECORD_BYTES, Config
from tpulite.arch.effects import BINARY, ELEMENTWISE, early_weights, tile_count
from tpulite.arch.isa import OPERANDS, Command, Drain, Opcode, RecordForm, Scaling, VectorOp
from tpulite.arch.memory import WindowBinding
from tpulite.golden.effects.access import Footprint
from tpulite.golden.effects.convolution import (
    outputs_of,
    sum_positions,
    taps_of,
    weight_rows,
    weight_tiles,
)
from tpulite.golden.effects.footprint import footprint, record_offset
from tpulite.golden.machine.arithmetic import read_records, unpack_records, wide_bounds
from tpulite.golden.validation.terms import Array, Terms


class TermMachine:
    """The storage of the machine, in terms.

    Parameters
    ----------
    dram : array of int64
        A term for each byte of DRAM; written in place.
    """

    def __init__(
        self, config: Config, windows: list[WindowBinding], dram: Array, terms: Terms
    ) -> None:
        self.config, self.windows, self.dram, self.terms = config, windows, dram, terms
        self.buffer = terms.unknown(config.ub_rows, config.array_size)
        self.accumulators = terms.unknown(config.acc_rows, config.array_size)

    def execute(self, command: Command) -> None:
        """Execute a command that does not fault.

        ValueError if it takes parameters that are computed; NotImplementedError if terms cannot
        express it.
        """
        access = footprint(command, self.config, self.windows)
        match command.opcode:
            case Opcode.LOAD | Opcode.STORE:
                self._transfer(command, access)
            case Opcode.CONV:
                self._conv(command, access)
            case Opcode.VECTOR:
                result = self._vector(command, access)
                self.buffer[access.writes] = self.terms.clip(
                    result, command["low"], command["high"]
                )

    def _transfer(self, command: Command, access: Footprint) -> None:
        for span in access.spans:
            rows, line = slice(span.rows.start, span.rows.stop), slice(span.start, span.stop)
            load = command.opcode == Opcode.LOAD
            data = self.dram[line] if load else self.buffer[rows].reshape(-1)
            data = self.terms.flip(data) if command["flip"] else data.copy()
            if load:
                self.buffer[rows] = data.reshape(-1, self.config.row_bytes)
            else:
                self.dram[line] = data[: span.stop - span.start]

    def _conv(self, command: Command, access: Footprint) -> None:
        stream = self.buffer[access.vectors]
        stream[access.vectors < 0] = command["pad"]
        if command["int16"]:
            lower = stream[:, 1::2]
            lower[access.vectors[:, 1::2] < 0] = command["pad"] ^ -128
        rows = weight_rows(command, self.config)
        packed = self._constants(rows).view(np.int8) if command["int4"] else self.buffer[rows]
        weights = weight_tiles(command, packed)
        sums = self._sums(command, stream, weights - command["weight_zero_point"])
        rows = slice(access.accumulators.start, access.accumulators.stop)
        if command["int16"]:  # the accumulators are those of the upper vectors
            rows = slice(rows.start, rows.stop, 2)
            sums = (256 * sums[::2] + sums[1::2]) * 256 ** command["digit"]
        if command["accumulate"]:
            sums = sums + self.accumulators[rows]
        self.accumulators[rows] = self.terms.unknown(1, 1)  # a drained sum does not go back
        match Drain(command["drain"]):
            case Drain.KEEP:
                self.accumulators[rows] = sums
            case Drain.RAW:
                data = self.terms.words(sums).reshape(-1, self.config.array_size)
                self.buffer[access.writes] = data
            case Drain.REQUANTIZE:
                recorded = access.early_reads[early_weights(command, self.config) :]
                record = self._records(recorded, RecordForm(command["record_form"]))
                gain = record.pop("gain")
                if command["int16"]:
                    pairs = self.terms.requantize_int16(sums, wide_bounds(record, gain))
                    for half, values in enumerate(pairs):
                        self.buffer[access.writes[half::2]] = values
                else:
                    self.buffer[access.writes] = self.terms.requantize(sums, record)

    def _records(self, rows: Array, form: RecordForm) -> dict[str, Array]:
        """Return the records of a CONV; biases alone may be computed."""
        if form == RecordForm.FULL:
            records = read_records(self._constants(rows), form)
        else:
            biases = self.buffer[rows[-4:]].reshape(-1, 4)
            common = self._constants(rows[:-4]).reshape(-1)[None, :RECORD_BYTES]
            records = unpack_records(common) | {"bias": self.terms.numbers(biases)}
        return records

    def _sums(self, command: Command, stream: Array, weights: Array) -> Array:
        size = self.config.array_size
        if command["depthwise"]:
            first = sum_positions(command)
            taps = zip(*taps_of(command, self.config), strict=True)
            return np.asarray(sum(stream[0, first + n] * weights[row] for row, n in taps))
        if command["byte_step"]:
            _, ox = outputs_of(command)
            places = (ox * command["byte_step"] % size)[:, None] + np.arange(size)
            stream = stream.reshape(*stream.shape[:2], 2 * size)
            stream = stream[:, np.arange(len(ox))[:, None], places]
        vectors = stream.transpose(1, 0, 2).reshape(-1, tile_count(command) * size)
        return vectors @ weights

    def _vector(self, command: Command, access: Footprint) -> Array:
        operation = VectorOp(command["operation"])
        outputs = len(access.writes)
        reads = self.buffer[access.reads].reshape(outputs, -1, self.config.array_size)
        b = reads[:, min(1, reads.shape[1] - 1)]
        a = np.delete(reads, 1, axis=1) if operation in BINARY else reads
        match operation:
            case VectorOp.COPY:
                return a[:, 0]
            case VectorOp.MAX:
                return self._maximum(command, a)
            case VectorOp.LUT:
                table = self._constants(access.early_reads).reshape(-1).view(np.int8)
                return self.terms.table(a[:, 0], table)
            case VectorOp.SUM:
                return self.terms.requantize(a.sum(axis=1), self._record(operation, access))
            case VectorOp.AFFINE:
                records = read_records(self._constants(access.early_reads), RecordForm.FULL)
                gain = records.pop("gain")
                return self.terms.requantize(a[:, 0] * gain, dict(records))
            case _ if operation in ELEMENTWISE:
                sums = self._combined(operation, a[:, 0], b, self._constants(access.early_reads))
                return self.terms.requantize(sums, self._record(operation, access))
        raise NotImplementedError(f"{operation.name} cannot be validated")

    def _maximum(self, command: Command, a: Array) -> Array:
        if tail := command["tail"]:
            a = a.copy()
            a[:, -1, tail:] = -128
        return self.terms.maximum(np.moveaxis(a, 1, -1))

    def _record(self, operation: VectorOp, access: Footprint) -> dict:
        offset = record_offset(operation, self.config)
        data = self._constants(access.early_reads)[offset:].reshape(-1)[:RECORD_BYTES]
        record = unpack_records(data[None])
        del record["gain"]
        return dict(record)

    def _combined(self, operation: VectorOp, a: Array, b: Array, parameters: np.ndarray) -> Array:
        data = parameters.reshape(-1)[:RECORD_BYTES].tobytes()
        operands = OPERANDS.unpack(int.from_bytes(data, "little"))
        if operation == VectorOp.MUL:
            return (a - operands["a_zero_point"]) * (b - operands["b_zero_point"])
        scaled = [
            self.terms.scale(
                x,
                zero_point=operands[f"{name}_zero_point"],
                multiplier=operands[f"{name}_multiplier"],
                shift=operands[f"{name}_shift"],
                scaling=Scaling(operands["scaling"]),
            )
            for name, x in (("a", a), ("b", b))
        ]
        return scaled[0] + scaled[1] if operation == VectorOp.ADD else scaled[0] - scaled[1]

    def _constants(self, rows: Array) -> np.ndarray:
        """Return the bytes of rows that must be constants."""
        data = self.buffer[rows]
        if ((data < -128) | (data > 127)).any():
            raise ValueError(f"parameters in rows {rows.min()} to {rows.max()} are no constants")
        return data.astype(np.int8).view(np.uint8)
