"""The cycle model's matrix unit."""

from collections import deque

from tpulite.arch.effects import record_rows, tile_rows
from tpulite.arch.interleave import MOST_PAIRED, in_pairs, interleave_of
from tpulite.arch.isa import RAW_ROWS, Drain, Engine, RecordForm
from tpulite.arch.streams import conv_stream
from tpulite.arch.timing import (
    MXU_NEXT,
    MXU_OFFER,
    MXU_TOKEN,
    PREPARATION,
    RECORDS,
    REQUANTIZER_LANE,
    conv_latency,
    drain_interval,
    tile_cycles,
    tile_reused,
)
from tpulite.golden.timing.banks import walk
from tpulite.golden.timing.clockwork import Clockwork, Head, Record
from tpulite.golden.timing.operands import OperandFetch
from tpulite.golden.timing.phases import FREE, Activations, Outputs

_KEEP, _REQUANTIZE, _RAW = map(int, (Drain.KEEP, Drain.REQUANTIZE, Drain.RAW))

_MOST = 4  # cycles that a row of weights or records may take under a depthwise command
_TILES = 4  # tiles of weights that may wait: two of int8 have the rows of four of int4
_PATIENCE = 4  # in tiles or records: what is due so much before its use will be there


class Matrix(Head):
    """CONV commands: what their weights, records and vectors wait for.

    All of a command's times are known when it starts, because nothing is better than the matrix
    unit's reads of activations and writes of results.
    """

    def __init__(self, machine: Clockwork) -> None:
        super().__init__(machine, Engine.MXU)
        config = machine.config
        self.size = config.array_size
        self.banks = config.ub_banks
        self.config = config
        self.reused = tile_reused(config)
        self.intervals = [drain_interval(drain, config) for drain in Drain]
        self.latencies = [conv_latency(drain, config) - MXU_TOKEN for drain in Drain]
        self.record_rows = [record_rows(form, config) for form in RecordForm]
        self.patience = _PATIENCE * max(config.array_size, config.record_rows)
        # The last command: when it left the intake, when it and its last slot entered the image
        # walker, and its last slot.
        self.accepted = self.walking = self.walked = self.last = -1
        self.last_but_one = -1  # slot before the last one, of whatever command
        # First sums of the last tile and of the last one that used records; the cycles from the
        # former to the next one.
        self.tile, self.pace = -self.size, self.size
        self.claimed = -config.record_rows
        # The last tiles whose weights were fetched, as many as may wait: first sums, and rows.
        self.fetched = deque(_TILES * [(-self.size, self.size)], _TILES)
        self.asked = self.recorded = -1  # last requests of weights and of records
        # When the next command may hand over its weights and its records: one may wait.
        self.weights_free = self.records_free = 0
        self.reported = -1  # the next vector that is drained may come then
        self.given = 0
        self.steady = False  # the last command never loses a bank
        self.previous: Record | None = None

    def earliest(self, offered: int) -> int:
        """Return when a command is prepared."""
        return max(offered, self.accepted + MXU_NEXT) + PREPARATION

    def start(self, time: int) -> None:
        """Start the first command of the queue: everything about it is known now."""
        fields, record = self.pop(time)
        head = self.earliest(record.dispatch + 1)
        operands = head if fields["prefetch"] else time
        requantizes, fetches = fields["drain"] == _REQUANTIZE, not fields["transposed"]
        tiles, fill, slots, sums, lag = conv_stream(fields, self.config)
        rows = tile_rows(fields["int4"], self.config)

        # The intake holds a command until the walker has taken the one before, and until its
        # weights and its records may wait behind those of the one before.
        taken = self._ask_weights(operands, rows) if fetches else operands
        records = 0
        if requantizes:
            taken = max(taken, operands, self.records_free)
            records = self._ask_records(fields, operands, rows)
        self.accepted = max(time, taken, self.walking + 1)
        self.machine.popped(Engine.MXU, self.accepted + 1)
        offered = max(self.accepted + 1, self.walked) + MXU_OFFER
        self._fetch_operands(fields, offered, records, rows if fetches else 0)
        self.walking = offered - MXU_OFFER
        offered = max(offered, self.last + 1) + fill
        first = max(offered, self.tile + self.pace)
        if fetches:
            first = max(first, self.asked + 1)
            record.buffer = max(0, self.asked + 1 - offered)
        if tiles == 1 and requantizes:
            record.buffer = max(record.buffer, self.recorded + RECORDS - offered)
        before, shortest = self.last, tile_cycles(slots, self.config, fields["int4"])
        result = self._issue(fields, first, tiles, fill, slots, sums + lag)
        self.pace = rows
        pace = (self.tile - first) // (tiles - 1) if tiles > 1 else shortest
        if fetches and _is_short(tiles, slots, rows):
            record.buffer += self.tile - first - (tiles - 1) * shortest
        self._walk(tiles, slots, pace, before)
        begin = first if tiles > 1 else self.tile
        self._occupy(fields, begin - fill, tiles, pace, result - sums + 1)
        self._finish(fields, result)

        # The account.
        if self.previous is not None:
            self.previous.stop = max(before + 1, min(record.dispatch + 1, self.previous.stop))
        record.first = max(record.dispatch + 1, before + 1)
        record.token = max(0, time - max(head, before + 1))
        record.stop = max(self.given, self.last) + 1
        self.previous = record
        self.steady = fields["depthwise"] > 0
        self.schedule()

    def _walk(self, tiles: int, slots: int, pace: int, before: int) -> None:
        """Note when the walker makes a command's last slot: two slots wait for the buffer."""
        count = tiles * slots
        if slots > 2:
            made = self.last - 2
        elif count > 2:
            made = self.last - 2 // slots * pace
        else:
            made = before if count == 2 else self.last_but_one
        self.walked = max(made + 1, self.walking + count)
        if count == 1:
            self.last_but_one = before
        else:
            self.last_but_one = self.last - (1 if slots > 1 else pace)

    def _ask_weights(self, operands: int, rows: int) -> int:
        """Fetch the first weight tile; return when the intake is done with it."""
        taken = max(operands, self.weights_free)
        loaded = max(taken, self.asked)
        self.weights_free = loaded + 1
        self.asked = max(loaded + rows, self._freed(rows))
        return taken

    def _freed(self, rows: int) -> int:
        """Return when the last row of the next tile to be fetched has a place."""
        most, behind = 2 * self.size, 0
        for first, mine in reversed(self.fetched):
            behind += mine
            if behind > most - rows:
                return first + self.reused + behind - most + rows - 1
        raise AssertionError("as many tiles as may wait are known")

    def _ask_records(self, fields: dict[str, int], operands: int, weight_rows: int) -> int:
        """Fetch the records while the weights come; return when the first row is asked for."""
        rows = self.record_rows[fields["record_form"]]
        taken = max(operands, self.records_free)
        self.records_free = self.recorded + 1
        first, weights = max(taken + 1, self.records_free), self.asked - weight_rows + 1
        # They may go through the banks in step.
        meet = (fields["record_row"] - first - fields["weight_row"] + weights) % self.banks == 0
        meet = meet and not fields["transposed"]
        self.recorded = first + rows - 1 + (meet and first + rows > weights)
        return first

    def _fetch_operands(
        self, fields: dict[str, int], offered: int, records: int, weight_rows: int
    ) -> None:
        """Ask for the first weights, and for records from a cycle on, where activations let them.

        If they are there long before the slot that is offered, nobody needs to know how long.
        """
        requantizes, fetches = fields["drain"] == _REQUANTIZE, weight_rows > 0
        rows = self.record_rows[fields["record_form"]] if requantizes else 0
        weights = self.asked - weight_rows + 1
        if not fetches and not rows:
            return
        fetch = OperandFetch(
            self.machine.reads,
            self.machine.odd,
            (fields["weight_row"], weights if fetches else records, weight_rows),
            (fields["record_row"], records, rows),
            starve=self.steady,
        )
        last = max([self.asked] * fetches + [self.recorded] * requantizes)
        if last + self.patience >= offered or self.steady:
            asked, recorded = fetch.last()
            if fetches:
                self.asked = asked
            if requantizes:
                self.recorded = recorded
        # Under a depthwise command they come later than in time.
        most = MOST_PAIRED if self.machine.odd.stop > self.asked else _MOST
        slack = most * self.size if self.steady else self.banks
        fetch.add_to(self.machine.operands, slack)

    def _issue(
        self, fields: dict[str, int], first: int, tiles: int, fill: int, slots: int, sums: int
    ) -> int:
        """Issue all slots of a command from its first sum on; return the slot of its last sum."""
        drain, rows = fields["drain"], tile_rows(fields["int4"], self.config)
        pace, interval = tile_cycles(slots, self.config, fields["int4"]), self.intervals[drain]
        tile, fetches = first, not fields["transposed"]
        if fetches and _is_short(tiles, slots, rows):
            tile = self._issue_short(fields, first, fill, tiles, pace)
        elif tiles > 1:
            tile = first + (tiles - 1) * pace
            if fetches:
                some = range(max(tiles - 1 - _TILES, 0), tiles - 1)
                self.fetched.extend((first + index * pace, rows) for index in some)
                self.asked = max(self.asked + (tiles - 1) * rows, self._freed(rows))
        if drain == _REQUANTIZE:
            age = self.record_rows[fields["record_form"]]
            tile = max(tile, self.recorded + RECORDS, self.claimed + age)
            self.claimed = tile + fields["int16"]
        result = tile + sums - 1
        if drain == _KEEP:
            result = max(result, self.reported)
        else:
            tile = max(tile, self.reported - fields["int16"])
            outputs = fields["rows"] * fields["columns"]
            result = max(tile + sums - 1, tile + (outputs - 1) * interval)
        self.last = max(tile + slots - 1 - fill, result)
        self.reported = result + interval + fields["int16"]
        self.tile = tile
        if fetches:
            self.fetched.append((tile, rows))
        return result

    def _issue_short(
        self, fields: dict[str, int], first: int, fill: int, tiles: int, pace: int
    ) -> int:
        """Return when the last tile starts, if tiles are so short that weights are scarce."""
        size, banks, rows = self.size, self.banks, tile_rows(fields["int4"], self.config)
        origin = first - 4 * size
        phases = bytearray([FREE]) * (4 * size - fill)
        activations = Activations(fields, size, banks, 0, tiles, pace)
        tile, asked = first, self.asked
        for index in range(1, tiles):
            phases += activations.tile(index - 1, len(phases))
            self.fetched.append((tile, rows))
            begin = max(asked + 1, self._freed(rows) - rows + 1) - origin
            phase = (fields["weight_row"] + index * rows - begin) % banks
            asked = origin + walk([phases], begin, phase, rows, banks, starve=False) - 1
            tile = max(tile + pace, asked + 1)
            phases += bytes([FREE]) * (tile - fill - origin - len(phases))
        self.asked = asked
        return tile

    def _occupy(self, fields: dict[str, int], begin: int, tiles: int, pace: int, tile: int) -> None:
        """Take note of what the activations and results of a command ask of the buffer."""
        size, banks, drain = self.size, self.banks, fields["drain"]
        if fields["depthwise"] and interleave_of(fields, self.config).pairs:
            fields = in_pairs(fields)
            before = fields | {"pad_left": fields["pad_left"] + 1}
            odd = Activations(before, size, banks, begin, tiles, pace)
            self.machine.odd.add(begin, self.last + 1, odd)
        reads = Activations(fields, size, banks, begin, tiles, pace)
        self.machine.reads.add(begin, self.last + 1, reads)
        if drain != _KEEP:
            interval = self.intervals[drain]
            written = tile + self.latencies[drain] - 1 + fields["int16"]
            rows = 1
            if drain == _RAW:
                written, rows = written - RAW_ROWS + 1, RAW_ROWS
            stop = written + self.last - tile + rows
            if drain == _REQUANTIZE:
                entered, end = written - REQUANTIZER_LANE, stop - REQUANTIZER_LANE
                self.machine.sums.add(entered, end, Outputs(fields, interval, 1, entered))
            self.machine.writes.add(written, stop, Outputs(fields, interval, banks, written))

    def _finish(self, fields: dict[str, int], result: int) -> None:
        """Give the tokens of a command whose last sum has a slot."""
        latency = self.latencies[fields["drain"]]
        if fields["drain"] == _REQUANTIZE:  # the lower bytes of a pair come a cycle later
            latency += fields["int16"]
        self.given = max(result + latency, self.given + 1)
        token = self.given + MXU_TOKEN
        if signal := fields["signal"]:
            self.machine.give(Engine.MXU, signal, token)
        self.machine.finish = max(self.machine.finish, token, self.last + 2)


def _is_short(tiles: int, slots: int, rows: int) -> bool:
    """Whether k-tiles follow each other so fast that their rows of weights may be late."""
    return tiles > 1 and slots < 2 * rows
