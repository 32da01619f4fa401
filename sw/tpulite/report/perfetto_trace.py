"""Traces of runs for Perfetto: engines as tracks, commands as slices, tokens as flows."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tpulite.arch.isa import Command, Engine, named_fields
from tpulite.arch.registers import EngineState
from tpulite.needs import require_package
from tpulite.program import Program
from tpulite.report.spending import bytes_a_cycle, command_layers, executed, rows_needed
from tpulite.report.traced_run import TracedRun

if TYPE_CHECKING:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket

_WAIT = "waits for a token"


def write_trace(path: Path, runs: Sequence[TracedRun], nanoseconds: float = 1.0) -> None:
    """Write a trace that Perfetto's UI (https://ui.perfetto.dev) and its trace processor open.

    Runs follow one after the other. Each has a track for each engine, with a slice for each command
    and for what it waits before; a flow leads from a command that gives a token to the one that
    takes it. Counters are the rows of the unified buffer that are needed, and the bytes a cycle
    that LOAD and STORE move, on average over each command.

    Parameters
    ----------
    runs : sequence of TracedRun
        Runs, one after the other.
    nanoseconds : float
        Length of a cycle.

    Raises
    ------
    ValueError
        If the package ``perfetto`` is missing.
    """
    require_package("perfetto", "trace", "a trace")
    from perfetto.trace_builder.proto_builder import (
        StreamingTraceProtoBuilder,
    )

    with path.open("wb") as file:
        writer, begin = _Writer(StreamingTraceProtoBuilder(file), nanoseconds), 0
        for number, run in enumerate(runs, start=1):
            name = "tpulite" if len(runs) == 1 else f"part {number} of {len(runs)}"
            writer.write(name, run, begin)
            begin += run.cycles


class _Writer:
    """Packets of one trace."""

    def __init__(self, builder: Any, nanoseconds: float) -> None:  # the package has no types
        self._builder = builder
        self._nanoseconds = nanoseconds
        self._tracks = self._flows = 0

    def write(self, name: str, run: TracedRun, begin: int) -> None:
        """Write the tracks of a run that begins in a cycle."""
        parent = self._track(name)
        layers = command_layers(run.program)
        flows: dict[int, list[int]] = {}
        for pair in token_flows(run.program.commands):
            self._flows += 1
            for index in pair:
                flows.setdefault(index, []).append(self._flows)
        for engine, trace in run.traces.items():
            track = self._track(engine.name, parent)
            for index, first, start, stop, cycles in executed(trace):
                if first < start:
                    self._slice(track, _WAIT, begin + first, begin + start)
                fields = _arguments(run.program, index, cycles)
                layer = run.program.layers[layers[index]].name
                self._slice(track, layer, begin + start, begin + stop, fields, flows.get(index, ()))
        self._counter("bytes read a cycle", parent, begin, bytes_a_cycle(run, Engine.LOAD))
        self._counter("bytes written a cycle", parent, begin, bytes_a_cycle(run, Engine.STORE))
        self._counter("unified buffer rows needed", parent, begin, rows_needed(run))

    def _packet(self, cycle: int | None = None) -> "TracePacket":
        packet = self._builder.create_packet()
        packet.trusted_packet_sequence_id = 1
        if cycle is not None:
            packet.timestamp = round(cycle * self._nanoseconds)
        return packet

    def _track(self, name: str, parent: int = 0, *, counter: bool = False) -> int:
        """Begin a track; return its number."""
        self._tracks += 1
        packet = self._packet()
        descriptor = packet.track_descriptor
        descriptor.uuid, descriptor.name = self._tracks, name
        if parent:
            descriptor.parent_uuid, descriptor.sibling_order_rank = parent, self._tracks
        if counter:
            descriptor.counter.SetInParent()
        else:
            descriptor.child_ordering = type(descriptor).EXPLICIT
        self._builder.write_packet(packet)
        return self._tracks

    def _slice(
        self,
        track: int,
        name: str,
        start: int,
        stop: int,
        arguments: Mapping[str, int | str] | None = None,
        flows: Sequence[int] = (),
    ) -> None:
        """Write a slice of a track."""
        packet = self._packet(start)
        event = packet.track_event
        event.type, event.track_uuid, event.name = type(event).TYPE_SLICE_BEGIN, track, name
        event.flow_ids.extend(flows)
        for key, value in (arguments or {}).items():
            note = event.debug_annotations.add()
            note.name = key
            if isinstance(value, str):
                note.string_value = value
            else:
                note.int_value = value
        self._builder.write_packet(packet)
        packet = self._packet(stop)
        packet.track_event.type, packet.track_event.track_uuid = type(event).TYPE_SLICE_END, track
        self._builder.write_packet(packet)

    def _counter(
        self, name: str, parent: int, begin: int, values: Iterator[tuple[int, float]]
    ) -> None:
        """Write a track of values and the cycles from which on they hold."""
        track = self._track(name, parent, counter=True)
        for cycle, value in values:
            packet = self._packet(begin + cycle)
            event = packet.track_event
            event.type, event.track_uuid = type(event).TYPE_COUNTER, track
            event.double_counter_value = value
            self._builder.write_packet(packet)


def _arguments(program: Program, index: int, cycles: np.ndarray) -> dict[str, int | str]:
    """Return what a slice says of its command: its fields that are not zero, and its states."""
    command = program.commands[index]
    named = {f"cycles.{state.name.lower()}": int(cycles[state]) for state in EngineState}
    states = {name: count for name, count in named.items() if count}
    return {"command": index, "opcode": command.opcode.name} | named_fields(command) | states


def token_flows(commands: Sequence[Command]) -> list[tuple[int, int]]:
    """Pair the commands that give tokens with those that take them.

    There is a counter of tokens for each pair of engines, and each engine executes its commands in
    order, so the nth token that an engine gives to another is the nth that this one takes from it.
    Tokens that nobody takes have no pair.

    Returns
    -------
    list of (int, int)
        Indices of giver and taker, in the order of takers.
    """
    given: dict[tuple[Engine, Engine], deque[int]] = {}
    takes: list[tuple[int, Engine, Engine]] = []
    for index, command in enumerate(commands):
        if (mine := command.engine) is None:
            continue
        for engine in Engine:
            if command["signal"] >> engine & 1:
                given.setdefault((mine, engine), deque()).append(index)
            if command["wait"] >> engine & 1:
                takes.append((index, engine, mine))
    return [
        (given[giver, taker].popleft(), index)
        for index, giver, taker in takes
        if given.get((giver, taker))
    ]
