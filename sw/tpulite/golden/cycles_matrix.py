"""The cycle model's matrix unit."""

from tpulite.arch.isa import RAW_ROWS, Drain, Engine, RecordForm
from tpulite.golden.cycles_banks import (
    FREE,
    activation_phases,
    activation_stream,
    output_stream,
    shift,
    walk,
)
from tpulite.golden.cycles_machine import Head, Machine

__all__ = ["Matrix"]

_OFFERED = 2  # from the acceptance of a command by the image walker to its first slot
_ARRAY = 4  # beyond 2 N: from a slot to its sum beside the accumulators
_REQUANTIZER = 7  # from a sum to its row, with a lane a channel
_RECORDS = 3  # from the request of the last record row until the block may be used
_REUSED = 3  # from the slot that starts a tile until the first row of its place is free


class Matrix(Head):
    """CONV commands: what their weights, records and vectors wait for."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, Engine.MXU)
        config = machine.config
        machine.handlers[Engine.MXU] = self.start
        self.size = config.array_size
        self.banks = config.ub_banks
        self.interval = config.array_size // config.lanes
        self.raw_interval = max(RAW_ROWS, self.interval)
        self.record_rows = {
            RecordForm.FULL: config.record_rows,
            RecordForm.SHORT: config.short_record_rows,
        }
        self.accepted = -1  # the last command has left the intake
        self.walked = -1  # the last slot of the last command is at the port: the next may come
        self.last = -1  # last slot
        self.tile = self.tile_before = -config.array_size  # first slots of the last two tiles
        self.asked = -1  # last row of weights
        self.recorded = -1  # last row of records
        self.claimed = -config.record_rows  # the last tile that used records
        self.reported = -1  # the next vector that is drained may come then
        self.given = 0

    def push(self, index, fields, record) -> None:  # noqa: ANN001, D102
        super().push(index, fields, record)
        if len(self.queue) == 1:
            self._prepare()

    def earliest(self, offered: int) -> int:
        """Return when a command is prepared."""
        return max(offered, self.accepted) + 1

    def _prepare(self) -> None:
        """Let the first command leave the queue, into the preparation."""
        record = self.queue[0][2]
        self.machine.popped(Engine.MXU, max(record.dispatch + 1, self.accepted))

    def start(self, time: int) -> None:
        """Start the first command of the queue: everything about it is known now."""
        _, fields, record = self.pop(time)
        size, drain = self.size, fields["drain"]
        head = max(record.dispatch + 1, self.accepted) + 1
        operands = head if fields["prefetch"] else time

        # Weights and records.
        self.asked = max(max(operands, self.asked) + size, self.tile_before + _REUSED + size - 1)
        weights = self.asked + 1
        records = self.recorded
        if drain == Drain.REQUANTIZE:
            record_rows = self.record_rows[RecordForm(fields["record_form"])]
            first = max(operands, records + 1)
            # Records and weights may go through the banks in step.
            meet = (fields["record_row"] - first - fields["weight_row"] + self.asked - size + 1) % self.banks == 0
            self.recorded = records = first + record_rows - 1 + meet

        # Slots: of a k-tile, before its first sum, and until its last one.
        rows, columns = fields["rows"], fields["columns"]
        outputs = rows * columns
        fill, tiles = 0, 1
        if fields["depthwise"]:
            sy, sx = fields["stride_y"], fields["stride_x"]
            height = (rows - 1) * sy + fields["kernel_rows"]
            width = (columns - 1) * sx + fields["kernel_columns"]
            slots = height * width
            if fields["inner"]:
                sums = (columns - 1) * sx * height + (rows - 1) * sy + 1
            else:
                sums = (rows - 1) * sy * width + (columns - 1) * sx + 1
        else:
            tiles = fields["blocks"] * fields["kernel_rows"] * fields["kernel_columns"]
            slots = sums = outputs
            if fields["byte_step"]:
                fill, slots = 1, outputs + rows
                sums = slots - 1
        interval = self.raw_interval if drain == Drain.RAW else self.interval
        pace = max(slots, size)

        # The intake holds a command until the walker has taken the one before.
        accepted = max(operands, time, records if drain == Drain.REQUANTIZE else 0)
        self.accepted = max(accepted, self.walker + 1) if hasattr(self, "walker") else accepted
        walker = self.walker = max(self.accepted, self.walked)
        offered = max(walker + _OFFERED, self.last + 1) + fill

        # The buffer may be slow to give weights and records.
        reads = self.machine.reads
        if weights + 4 * size > offered and reads.stop > weights - size:
            weights = self._walk(fields["weight_row"], weights - size, size) 
            self.asked = weights - 1
            if drain == Drain.REQUANTIZE:
                self.recorded = records = self._walk(fields["record_row"], records - record_rows + 1, record_rows) - 1
        ready = weights
        pace_first = self.tile + size
        first = max(offered, weights, pace_first)
        tile = first + (tiles - 1) * pace
        if tiles > 2 and slots < 2 * size:
            tile = self._short_tiles(fields, first, fill, tiles, pace)
        if drain == Drain.REQUANTIZE:
            use = max(records + _RECORDS, self.claimed + self.record_rows[RecordForm(fields["record_form"])])
            if tiles == 1:
                ready = max(ready, records + _RECORDS)
            tile = max(tile, use)
            self.claimed = tile
        if drain != Drain.KEEP:
            tile = max(tile, self.reported)
        end_sum = tile + sums - 1
        end = tile + slots - 1 - fill
        if drain == Drain.KEEP:
            end_sum = max(end_sum, self.reported)
            end = max(end, end_sum)
        elif interval > 1:
            end_sum = max(end_sum, tile + (outputs - 1) * interval)
            end = max(end, end_sum)
        self.reported = end_sum + interval
        before, previous = self.last, self.tile
        self.tile_before = tile - pace if tiles > 1 else previous
        self.tile = tile
        if tiles > 2 or tiles == 2:
            self.asked = max(self.asked + (tiles - 1) * size, (tile - 2 * pace if tiles > 2 else previous) + _REUSED + size - 1)
        if slots > 1:
            self.walked = end - (interval if drain != Drain.KEEP and interval > 1 and not fill else 1)
        else:
            self.walked = end - pace if tiles > 1 else max(walker + 1, before)
        self.last = end

        # The unified buffer, as others find it.
        begin = first - fill
        self.machine.reads.add(begin, end + 1, activation_stream(fields, size, self.banks, begin, tiles, pace))
        if drain != Drain.KEEP:
            written = tile + 2 * size + _ARRAY + _REQUANTIZER + (interval - 1 if drain != Drain.RAW else interval - RAW_ROWS)
            self.machine.writes.add(written, end_sum + written - tile + RAW_ROWS, output_stream(fields, interval, self.banks, written))

        # Completion.
        groups = 1
        if drain == Drain.REQUANTIZE:
            groups = self.interval
        elif drain == Drain.RAW:
            groups = max(self.interval, RAW_ROWS)
        given = end_sum + 2 * size + _ARRAY + _REQUANTIZER + groups
        self.given = given = max(given, self.given + 1)
        if signal := fields["signal"]:
            self.machine.give(Engine.MXU, signal, given + 1)
        self.machine.finish = max(self.machine.finish, given + 1, end + 2)

        # The account.
        if self.previous is not None:
            self.previous.stop = max(before + 1, min(record.dispatch + 1, self.previous.stop))
            record.first = max(record.dispatch + 1, before + 1)
        else:
            record.first = record.dispatch + 1
        record.token = max(0, time - max(head, before + 1))
        record.buffer = max(0, min(first, ready) - offered)
        record.stop = given + 1
        self.previous = record

        self.steady = fields["depthwise"] > 0
        if self.queue:
            self._prepare()
            self.schedule()

    def _walk(self, row: int, begin: int, rows: int) -> int:
        """Return the cycle after the one in which rows, wanted from a cycle on, are asked for."""
        phases = self.machine.reads.phases(begin, begin + 8 * rows)
        phase = (row - begin) % self.banks
        return begin + walk(phases, 0, phase, rows, self.banks, starve=self.steady)

    def _short_tiles(self, fields, first, fill, tiles, pace):
        """Return when the last tile starts, if tiles are so short that weights are scarce."""
        size, banks = self.size, self.banks
        origin = first - 4 * size
        phases = bytearray([FREE]) * (4 * size - fill)
        height, width = fields["kernel_rows"], fields["kernel_columns"]
        row, block = fields["act_row"], fields["act_block_pitch"]
        before, tile, asked = self.tile, first, self.asked
        for index in range(1, tiles):
            channels, tap = divmod(index - 1, height * width)
            part = activation_phases(fields, size, banks, divmod(tap, width))
            by = (row + channels * block - len(phases)) % banks
            phases += part.translate(shift(banks, by))
            begin = max(asked + 1, before + _REUSED) - origin
            phase = (fields["weight_row"] + index * size - begin) % banks
            asked = origin + walk(phases, begin, phase, size, banks, starve=False) - 1
            before, tile = tile, max(tile + pace, asked + 1)
            phases += bytes([FREE]) * (tile - fill - origin - len(phases))
        return tile

    steady = False
    previous = None
