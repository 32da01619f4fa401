"""Traces for Perfetto, read again with its own definition of the format."""

from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from tpulite.arch.isa import Command, Engine, Opcode
from tpulite.golden.timing import predict
from tpulite.models import CNN_DIGITS
from tpulite.report.buffer import buffer_use
from tpulite.report.perfetto_trace import token_flows, write_trace
from tpulite.report.traced_run import TracedRun, trace_runs
from tpulite.report.traffic import dram_traffic
from tpulite.runtime.model import Model

KINDS = TrackEvent.Type


@pytest.fixture(scope="module")
def run() -> TracedRun:
    (only,) = trace_runs(Model.load(CNN_DIGITS))
    return only


@pytest.fixture(scope="module")
def tracks(run: TracedRun, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list]:
    """Return the packets of each track, of two runs one after the other, a cycle 10 ns long."""
    path: Path = tmp_path_factory.mktemp("trace") / "two.pftrace"
    write_trace(path, [run, run], 10)
    trace, names, events = Trace.FromString(path.read_bytes()), {}, defaultdict(list)
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            names[packet.track_descriptor.uuid] = packet.track_descriptor.name
        else:
            events[names[packet.track_event.track_uuid]].append(packet)
    return events


def commands(packets: list, kind: int = KINDS.TYPE_SLICE_BEGIN) -> list:
    return [x for x in packets if x.track_event.type == kind and x.track_event.debug_annotations]


def test_each_command_is_a_slice_where_the_model_says(run: TracedRun, tracks: dict) -> None:
    times = predict(run.program.commands, run.program.config).times
    for engine in Engine:
        of_engine = [x for x in times if x.engine == engine]
        starts = [10 * (x.first + x.token) for x in of_engine]
        again = [start + 10 * run.cycles for start in starts]
        assert [x.timestamp for x in commands(tracks[engine.name])] == starts + again
        depth = 0
        for packet in sorted(tracks[engine.name], key=lambda x: x.timestamp):
            depth += {KINDS.TYPE_SLICE_BEGIN: 1, KINDS.TYPE_SLICE_END: -1}[packet.track_event.type]
        assert depth == 0


def test_slices_carry_the_layer_and_the_fields_of_the_command(run: TracedRun, tracks: dict) -> None:
    layers = {i: layer.name for layer in run.program.layers for i in layer.commands}
    for packet in commands(tracks["MXU"]):
        notes = {x.name: x for x in packet.track_event.debug_annotations}
        command = run.program.commands[notes["command"].int_value]
        assert packet.track_event.name == layers[notes["command"].int_value]
        assert notes["opcode"].string_value == "CONV"
        assert notes["rows"].int_value == command["rows"]


def test_flows_lead_from_givers_to_takers(run: TracedRun, tracks: dict) -> None:
    ends = defaultdict(list)
    for engine in Engine:
        for packet in commands(tracks[engine.name]):
            for flow in packet.track_event.flow_ids:
                ends[flow].append((packet.timestamp, packet.track_event.debug_annotations[0]))
    pairs = [
        tuple(note.int_value for _, note in sorted(x, key=lambda y: y[0])) for x in ends.values()
    ]
    assert sorted(pairs) == sorted(2 * token_flows(run.program.commands))


def test_counters_give_what_the_reports_give(run: TracedRun, tracks: dict) -> None:
    needed = [x.track_event.double_counter_value for x in tracks["unified buffer rows needed"]]
    assert max(needed) == buffer_use(run.program).live
    rates = [
        (x.timestamp / 10, x.track_event.double_counter_value) for x in tracks["bytes read a cycle"]
    ]
    read = sum(rate * (after - at) for (at, rate), (after, _) in pairwise(rates) if after > at)
    assert read == pytest.approx(2 * sum(dram_traffic(run.program).loads.values()))


def test_tokens_are_paired_in_the_order_of_each_pair_of_engines() -> None:
    mxu, vpu, load = (1 << engine for engine in (Engine.MXU, Engine.VPU, Engine.LOAD))
    program = [
        Command.make(Opcode.LOAD, signal=mxu),
        Command.make(Opcode.LOAD, signal=mxu | vpu),
        Command.make(Opcode.CONV, wait=load),
        Command.make(Opcode.VECTOR, wait=load),
        Command.make(Opcode.CONV, wait=load, signal=vpu),
        Command.make(Opcode.END),
    ]
    assert token_flows(program) == [(0, 2), (1, 3), (1, 4)]
