"""The vector sequencer: the pace of the slots, and the vectors that they become."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import cocotb
import numpy as np
import pytest
from cocotb.triggers import FallingEdge, RisingEdge
from command_index import index_of
from conv_draw import ONES, any_image, draw_conv, draw_kinds, stretched
from conv_model import ConvModel, delay, line_taps, odd_rows, outputs, pairs, stream, taps
from conv_shares import vector_bits

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, Drain, RecordForm
from tpulite.arch.timing import row_read
from tpulite_rtl.mxu.slots import vector_command
from tpulite_rtl.mxu.systolic_array import vector_layout
from tpulite_rtl.mxu.vector_sequencer import VectorSequencer, drain_interval
from tpulite_tb.bits import unpack
from tpulite_tb.effort import repeats
from tpulite_tb.harness import reset, simulate
from tpulite_tb.stream import StreamDriver
from tpulite_testing.regress import thinned

CONFIGS = {
    "4": Config(array_size=4),
    "8_lanes2": Config(array_size=8, requant_lanes=2, ram_registers=True),
    "16": Config(array_size=16),
    "4_transposed": Config(array_size=4, transposed_tiles=True),
    "4_int4": Config(array_size=4, transposed_tiles=True, int4=True),
}


@dataclass(frozen=True)
class _Slot:
    """A cycle of a stream; ``vector`` is what the array must get, None if anything will do.

    ``odd_row`` and ``odd`` are the same of the other one of a pair.
    """

    command: Command
    index: int
    row: int | None
    emits: bool
    first: bool
    last_tile: bool
    reports: bool
    vector: np.ndarray | None
    odd_row: int | None = None
    odd: np.ndarray | None = None
    loads: bool = False  # a row of a transposed weight tile

    @property
    def claims(self) -> bool:
        return self.first and self.last_tile and self.command["drain"] == Drain.REQUANTIZE

    @property
    def waits_for_drain(self) -> bool:
        return self.first if self.command["depthwise"] else self.reports

    @property
    def starts(self) -> bool:
        """Whether a tile of the weight sequencer starts."""
        return self.first and not self.command["transposed"]

    @property
    def steady(self) -> bool:
        return self.loads or bool(self.command["depthwise"] and not self.first)

    def tile_rows(self, config: Config) -> int:
        return config.array_size // (1 + self.command["int4"])

    def record_rows(self, config: Config) -> int:
        short = self.command["record_form"] == RecordForm.SHORT
        return config.short_record_rows if short else config.record_rows

    def drain_interval(self, config: Config) -> int:
        return drain_interval(config, raw=self.command["drain"] == Drain.RAW)


def _slots(model: ConvModel, commands: list[Command]) -> Iterator[_Slot]:
    """Yield the slots of commands, whose indices follow from their numbers."""
    n = model.config.array_size
    for number, command in enumerate(commands):
        index = index_of(number)
        tiles, order = taps(command), outputs(command)
        for tile, tap in enumerate(tiles):
            emitted, begun = 0, False
            weights = range(n) if command["transposed"] else ()
            for row in (command["weight_row"] + tile * n + i for i in weights):
                nothing = dict.fromkeys(("emits", "first", "last_tile", "reports"), False)
                vector = _vector(model, command, row)
                yield _Slot(command, index, row, **nothing, vector=vector, loads=True)
            last_tile = tap == tiles[-1]
            others = odd_rows(command, n) if pairs(command, n) else None
            for row, _enters, emits in stream(command, tap, n):
                vector = odd_row = odd = None
                if command["depthwise"]:
                    vector = _vector(model, command, row)
                if others is not None:
                    odd_row = next(others)
                    odd = _vector(model, command, odd_row)
                if emits and not command["depthwise"]:
                    vector = model.operand(command, tap, *order[emitted])
                first = not begun and (emits or delay(command, n) > 0)
                begun |= first
                emitted += emits
                leaves = command["drain"] != Drain.KEEP or emitted == len(order)
                yield _Slot(
                    command,
                    index,
                    row,
                    emits,
                    first,
                    last_tile,
                    emits and last_tile and leaves,
                    vector,
                    odd_row,
                    odd,
                )


def _vector(model: ConvModel, command: Command, row: int | None) -> np.ndarray:
    """Return a row of the buffer, or padding."""
    if row is None:
        return np.full(model.config.array_size, command["pad"], np.int8)
    return model.buffer[row].view(np.int8)


class _Bench:
    """The sequencer with a buffer; checks every slot and every vector."""

    def __init__(self, dut, config: Config) -> None:
        self.dut, self.config = dut, config
        self.model = ConvModel(config)
        rng = np.random.default_rng(random.getrandbits(64))
        self.model.buffer[:] = rng.integers(0, 256, self.model.buffer.shape, np.uint8)
        self.ports = ("read", "read_odd") if config.has_delay_lines else ("read",)
        latency = row_read(config)
        self.rows: dict[str, list[int | None]] = {port: [None] * latency for port in self.ports}
        self.vectors: list[_Slot | None] = [None] * (latency + 1)
        self.started: _Slot | None = None
        for name in ("tile_ready", "block_ready", "stop", "read__request__ready"):
            getattr(dut, name).value = 0
        self.driver = StreamDriver(dut, "command")

    def draw(self, kind: str) -> Command:
        rows = range(self.config.ub_rows)
        command = draw_conv(self.config, kind, inputs=rows, operands=rows, outputs=rows)
        return random.choice([command, any_image(command, len(rows))])

    async def start(self, commands: list[Command]) -> None:
        await reset(self.dut)
        self.driver.extend(
            vector_bits(self.config, command, index_of(number))
            for number, command in enumerate(commands)
        )
        await RisingEdge(self.dut.clk)

    async def cycle(self, slot: _Slot | None, refuse: float) -> bool:
        """Let a cycle pass; return whether the slot was issued in it."""
        dut = self.dut
        for port in self.ports:
            row = self.rows[port].pop(0)
            data = random.randbytes(self.config.row_bytes)
            if row is not None:
                data = self.model.buffer[row].tobytes()
            getattr(dut, f"{port}__response__valid").value = row is not None
            getattr(dut, f"{port}__response__payload").value = int.from_bytes(data, "little")
        await FallingEdge(dut.clk)
        steady = bool(dut.steady.value)
        ready = steady or random.random() >= refuse
        dut.read__request__ready.value = ready
        if self.config.has_delay_lines:  # this port is never refused while it is steady
            dut.read_odd__request__ready.value = bool(dut.odd.value)
        await RisingEdge(dut.clk)
        issued, asked = bool(dut.issued.value), bool(dut.read__request__valid.value)
        assert dut.refused.value == (asked and not ready)
        assert issued or not (asked and ready), "a row that no slot takes"
        self.rows["read"].append(int(dut.read__request__payload.value) if asked and ready else None)
        if self.config.has_delay_lines:
            self._ask_odd(slot, issued=issued)
        started, self.started = self.started, None
        assert dut.start.value == bool(started), "the tile starts in the cycle after its slot"
        if started:
            assert dut.zero_point.value.to_signed() == started.command["weight_zero_point"]
            assert not self.config.int4 or dut.int4.value == started.command["int4"]
        assert dut.claim.value == (issued and slot is not None and slot.claims)
        self._check_vector()
        self._check_early()
        self.vectors.append(slot if issued else None)
        if not issued:
            return False
        assert slot is not None, "a surplus slot"
        assert dut.busy.value
        assert dut.index.value == slot.index
        assert asked == (slot.row is not None)
        if slot.row is not None:
            assert dut.read__request__payload.value == slot.row
        assert steady == slot.steady
        self.started = slot if slot.starts else None
        return True

    def _ask_odd(self, slot: _Slot | None, *, issued: bool) -> None:
        """Check the request for an odd vector, which is never refused; note its row.

        The port of the weights is taken for it only if the slot in turn reads one.
        """
        dut = self.dut
        coming = slot.odd_row if slot else None
        row = coming if issued else None
        assert dut.read_odd__request__valid.value == (row is not None)
        assert row is None or dut.read_odd__request__payload.value == row
        odd = bool(dut.odd.value)
        assert (odd or row is None) and (coming is not None or not odd)
        self.rows["read_odd"].append(row)

    def _check_vector(self) -> None:
        slot = self.vectors.pop(0)
        assert self.dut.o__valid.value == (slot is not None and slot.emits)
        if slot is None or slot.vector is None:
            return
        got = unpack(vector_layout(self.config), int(self.dut.o__payload.value))
        assert got["activations"].to_bytes(self.config.row_bytes, "little") == slot.vector.tobytes()
        assert got["first"] == slot.first
        if self.config.has_transposed_tiles:
            assert got["loads"] == slot.loads
            zero_point = slot.command["weight_zero_point"] * slot.loads
            assert got["zero_point"] == zero_point % 256
        assert got["depthwise"] == slot.command["depthwise"]
        if self.config.has_delay_lines and slot.command["depthwise"]:
            assert got["pair"] == (slot.odd is not None)
            late = delay(slot.command, self.config.array_size) > 0
            assert got["wide"] == (late and line_taps(slot.command) == 5)
        if slot.odd is not None:
            assert got["odd"].to_bytes(self.config.row_bytes, "little") == slot.odd.tobytes()

    def _check_early(self) -> None:
        """Check what the array is told of the next vector; dense mode does not need it."""
        slot = self.vectors[0]
        if slot is None or slot.vector is None or slot.command["byte_step"]:
            return
        early = int(self.dut.early.value)
        assert early & 0xFF == int(slot.vector[0]) & 0xFF
        if self.config.has_delay_lines:
            due = delay(slot.command, self.config.array_size)
            wide = due > 0 and line_taps(slot.command) == 5
            assert early >> 8 == due | wide << 5


def _config(dut) -> Config:
    found = len(dut.read__response__payload), len(dut.command__payload), hasattr(dut, "int4")
    return next(
        config
        for config in CONFIGS.values()
        if found == (8 * config.array_size, vector_command(config).size, config.int4)
    )


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(refuse=[0.0, 0.3], operands=[1.0, 0.3])
async def issues_every_slot_in_pace(dut, refuse: float, operands: float) -> None:
    """Slots come in order; starts, records and drained vectors keep their distances."""
    config = _config(dut)
    bench = _Bench(dut, config)
    commands = [bench.draw(kind) for kind in draw_kinds(config, 40)]
    await bench.start(commands)
    last_start = last_claim = last_report = -100
    interval, pace, cycle = 1, config.array_size, 1
    following = False  # the slot before was of the same transposed tile
    for slot in _slots(bench.model, commands):
        began = cycle
        while True:
            dut.tile_ready.value = tiles = random.random() < operands
            if config.int4:
                dut.int4_ready.value = halves = random.random() < operands
                tiles = halves if slot.command["int4"] else tiles
            dut.block_ready.value = blocks = random.random() < operands
            cycle += 1
            issued = await bench.cycle(slot, refuse)
            missing = (slot.starts and not tiles) or (slot.claims and not blocks)
            assert dut.starved.value == (slot.first and missing) or last_start < 0
            if issued:
                break
        if slot.steady and (following or not slot.loads):
            assert cycle == began + 1, "a gap in a stream"
        following = slot.loads
        if slot.first:
            assert tiles or not slot.starts, "started without weights"
            assert cycle - last_start >= pace
            last_start, pace = cycle, slot.tile_rows(config)
        if slot.claims:
            assert blocks, "started without records"
            assert cycle - last_claim >= slot.record_rows(config)
            last_claim = cycle
        if slot.reports:
            assert cycle - last_report >= interval
            last_report, interval = cycle, slot.drain_interval(config)
    for _ in range(row_read(config) + 2):
        await bench.cycle(None, 0)
    assert not dut.busy.value


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def wastes_no_cycle(dut) -> None:
    """Each slot is issued as early as the pace lets it; padding whatever the buffer says."""
    config = _config(dut)
    bench = _Bench(dut, config)
    commands = [bench.draw(kind) for kind in draw_kinds(config, 60)]
    commands += [  # records for each of them, as fast as they can be
        bench.draw("product").replace(drain=Drain.REQUANTIZE, **ONES) for _ in range(12)
    ]
    tile = config.array_size
    long = [stretched(command, tile) for command in random.choices(commands, k=repeats(4))]
    long.append(bench.draw("product").replace(**(ONES | {"blocks": repeats(2047) // tile})))
    commands += [any_image(command, config.ub_rows) for command in long]
    await bench.start(commands)
    dut.tile_ready.value = dut.block_ready.value = 1
    if config.int4:
        dut.int4_ready.value = 1
    last_start = last_claim = last_report = -100
    interval, pace = 1, tile
    slots = _slots(bench.model, commands)
    slot = next(slots)
    cycle = 0
    while not await bench.cycle(slot, 0):
        assert cycle < 8
        cycle += 1
    for following in slots:
        if slot.first:
            last_start, pace = cycle, slot.tile_rows(config)
        if slot.claims:
            last_claim = cycle
        if slot.reports:
            last_report, interval = cycle, slot.drain_interval(config)
        due = cycle + 1
        if following.first:
            due = max(due, last_start + pace)
        if following.claims:
            due = max(due, last_claim + following.record_rows(config))
        if following.waits_for_drain:
            due = max(due, last_report + interval)
        slot = following
        for now in range(cycle + 1, due + 1):
            issued = await bench.cycle(slot, refuse=float(slot.row is None))
            assert issued == (now == due), f"cycle {now}, due {due}"
        cycle = due


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def issues_nothing_after_stop(dut) -> None:
    """Neither a read nor padding, in the middle of a depthwise stream."""
    config = _config(dut)
    bench = _Bench(dut, config)
    commands = [bench.draw("depthwise") for _ in range(3)]
    await bench.start(commands)
    dut.tile_ready.value = dut.block_ready.value = 1
    slots = _slots(bench.model, commands)
    for _ in range(3):
        slot = next(slots)
        while not await bench.cycle(slot, 0):
            pass
    dut.stop.value = 1
    for _ in range(20):
        await RisingEdge(dut.clk)
        assert not dut.issued.value and not dut.read__request__valid.value


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reset_frees_array_and_requantizer(dut) -> None:
    """The first slot comes two cycles after its command, whatever was issued before reset."""
    bench = _Bench(dut, _config(dut))
    command = bench.draw("product").replace(drain=Drain.REQUANTIZE, **ONES)
    edge = RisingEdge(dut.clk)
    await reset(dut)
    dut.tile_ready.value = dut.block_ready.value = dut.read__request__ready.value = 1
    for _ in range(3):
        dut.rst.value = 1
        await edge
        dut.rst.value = 0
        dut.command__payload.value = vector_bits(bench.config, command)
        dut.command__valid.value = 1
        for cycle in range(3):
            await edge
            dut.command__valid.value = 0
            assert dut.issued.value == (cycle == 2)


@pytest.mark.parametrize(
    "config",
    thinned(
        CONFIGS,
        "16",
        "8_lanes2",
        "4_transposed",
        "4_int4",
        reason="larger arrays only repeat columns",
    ),
)
def test_vector_sequencer(config: str) -> None:
    simulate(VectorSequencer(CONFIGS[config]), __file__, name=f"vector_sequencer_{config}")
