"""Studies: what is measured, what is kept, and what becomes of points that do not fit."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from tpulite.arch.config import Config
from tpulite.arch.effects import effects, steps_of, tile_count
from tpulite.arch.isa import Opcode
from tpulite.arch.memory import MemoryTiming
from tpulite.compiler.options import Options
from tpulite.executors import Done
from tpulite.executors.kept import Records
from tpulite.explore.measure import Counts, Outcome, Run, Task, measure, tasks_of
from tpulite.explore.space import Space, read_axes
from tpulite.explore.study import Store, Study, digest_of, run_key
from tpulite.golden.timing import predict
from tpulite.models import CNN_DIGITS
from tpulite.runtime.model import Model
from tpulite_testing.quick_options import quick_options

MODEL = Model.load(CNN_DIGITS)
NETWORKS = {"digits": MODEL.layers}


class Inline:
    """An executor without processes, which counts, and may stop early."""

    def __init__(self, stop: int | None = None) -> None:
        self.begun: list[Task] = []
        self.stop = stop

    def __enter__(self) -> "Inline":
        return self

    def __exit__(self, *_: object) -> None: ...

    def run(self, tasks: Iterable[Task]) -> Iterator[Done[Task, tuple[Outcome, ...]]]:
        for task in tasks:
            if len(self.begun) == self.stop:
                raise KeyboardInterrupt
            self.begun.append(task)
            if task[0].config.ub_banks == 16:
                yield Done(task, failure="its process died")
            else:
                yield Done(task, measure(NETWORKS, task))


class Brittle(Inline):
    """An executor that two outstanding bursts kill."""

    def run(self, tasks: Iterable[Task]) -> Iterator[Done[Task, tuple[Outcome, ...]]]:
        for task in tasks:
            if any(run.config.dma_bursts == 2 for run in task):
                yield Done(task, failure="its process died")
            else:
                yield Done(task, measure(NETWORKS, task))


def study(folder, *axes: str) -> Study:
    space = Space(Config(array_size=8, ub_rows=1024), read_axes(axes))
    return Study(NETWORKS, space, quick_options(), Store(Records(folder)))


def test_counts_are_those_of_the_specification():
    config = Config(array_size=8, ub_rows=1024)
    counts = measure(NETWORKS, (Run("digits", config, Options()),))[0].counts
    (program,) = replace(MODEL, config=config).compile().programs
    expected = Counter()
    for command in program.commands:
        touched = effects(command, config)
        expected["reads"] += len(touched.early) + len(touched.reads)
        expected["writes"] += len(touched.writes)
        expected["results"] += len(touched.writes) * (command.opcode != Opcode.LOAD)
        if command.opcode == Opcode.CONV:
            expected["steps"] += sum(1 for _ in steps_of(command, config))
            expected["sums"] += tile_count(command) * len(touched.accumulators)
    assert counts is not None and counts.macs == program.macs
    assert counts.cycles == predict(program.commands, config).cycles
    assert (counts.buffer_reads, counts.buffer_writes) == (expected["reads"], expected["writes"])
    assert (counts.array_steps, counts.accumulator_writes) == (expected["steps"], expected["sums"])
    assert counts.result_rows == expected["results"]
    assert 0 < counts.accumulator_reads < counts.accumulator_writes


def test_what_does_not_suit_a_network_is_a_point_with_its_reason(tmp_path):
    one = study(tmp_path, "roundings=ruy,tflite+away", "acc_rows=512,1000")
    points = one.points(one.space.grid(), Inline())
    assert points[0].trouble.startswith("digits: Layer 'conv_2d_0': Rounding must be one of")
    assert points[1].trouble == points[3].trouble != points[0].trouble
    assert points[3].trouble.startswith("acc_rows must be a power of two")
    assert points[2].trouble == ""


def test_an_interrupted_study_goes_on_where_it_was(tmp_path):
    axes = "ub_rows=512..4096"
    whole = study(tmp_path / "whole", axes)
    expected = whole.points(whole.space.grid(), Inline())
    part = study(tmp_path / "part", axes)
    with pytest.raises(KeyboardInterrupt):
        part.points(part.space.grid(), Inline(stop=3))
    rest, told = Inline(), []
    assert part.points(part.space.grid(), rest, lambda *x: told.append(x)) == expected
    assert len(rest.begun) == 1 and told == [(3, 4), (4, 4)]


def test_machines_that_time_alike_are_measured_once(tmp_path):
    one = study(tmp_path, "multipliers=dsp,logic,mostly_dsp", "memories=generic,block")
    executor = Inline()
    points = one.points(one.space.grid(), executor)
    assert len(points) == 6 and len(executor.begun) == 1
    assert len({point.counts["digits"] for point in points}) == 1
    assert len({point.size for point in points}) == 6


def test_failures_are_told_and_not_kept(tmp_path):
    one = study(tmp_path, "ub_banks=4,16")
    first, second = Inline(), Inline()
    points = one.points(one.space.grid(), first)
    assert points[1].trouble == "digits: its process died" and not points[0].trouble
    assert one.points(one.space.grid(), second) == points
    assert (first.begun[1:], len(first.begun)) == (second.begun, 2)


def test_machines_that_differ_in_speed_share_what_is_not_of_it():
    fast, plain = Config(array_size=8, ub_rows=512), quick_options()
    slow = replace(fast, burst_beats=2, dma_bursts=1, queue_depth=2)
    task = tuple(
        Run("digits", config, plain, memory)
        for config in (fast, slow)
        for memory in (MemoryTiming(2, 2), MemoryTiming(), MemoryTiming(400, 90))
    )
    assert tasks_of(task) == [task]
    together = measure(NETWORKS, task)
    assert together == tuple(measure(NETWORKS, (run,))[0] for run in task)
    cycles = [each.counts.cycles for each in together if each.counts]
    assert cycles[:3] == sorted(set(cycles[:3])) and cycles[3:] == sorted(set(cycles[3:]))
    assert cycles[0] < cycles[3]


def test_one_bad_run_does_not_take_those_of_its_task_along(tmp_path):
    one = study(tmp_path, "dma_bursts=1,2,4")
    points = one.points(one.space.grid(), Brittle())
    assert [bool(point.trouble) for point in points] == [False, True, False]


def test_what_is_not_whole_counts_as_missing(tmp_path):
    store = Store(Records(tmp_path))
    store.put("ab12", Outcome(Counts(cycles=5)))
    (path,) = tmp_path.rglob("*.json")
    assert store.get("ab12") == Outcome(Counts(cycles=5))
    for text in ("", "{}", '{"counts": {"cycles": 5}, "reason": ""}', "[1]"):
        path.write_text(text)
        assert store.get("ab12") is None


def test_keys_tell_apart_what_changes_programs():
    digest = digest_of(MODEL.layers)
    run = Run("digits", Config(), Options())
    others = [
        run_key(digest, run),
        run_key(digest[::-1], run),
        run_key(digest, replace(run, config=Config(dma_bursts=1))),
        run_key(digest, replace(run, options=Options(batch=2))),
        run_key(digest, replace(run, memory=MemoryTiming(write_response=9))),
    ]
    assert len(set(others)) == len(others)
    assert run_key(digest, replace(run, network="other name")) == others[0]
