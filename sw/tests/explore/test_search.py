"""A search on machines whose cycles are made up, so that it takes no time."""

from collections.abc import Iterable, Iterator

import pytest

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.executors import Done
from tpulite.executors.kept import Records
from tpulite.explore.measure import Counts, Outcome, Task
from tpulite.explore.search import search
from tpulite.explore.space import Space, read_axes
from tpulite.explore.study import Store, Study

pytest.importorskip("optuna", reason="the extra `explore` is missing")


class MadeUp:
    """Fewest cycles with the most bursts and the shortest queues; eight banks do not fit."""

    def __enter__(self) -> "MadeUp":
        return self

    def __exit__(self, *_: object) -> None: ...

    def run(self, tasks: Iterable[Task]) -> Iterator[Done[Task, tuple[Outcome, ...]]]:
        for task in tasks:
            yield Done(task, tuple(_made_up(run.config) for run in task))


def _made_up(config: Config) -> Outcome:
    cycles = 1000 // config.dma_bursts + config.queue_depth
    counts = Counts(cycles=cycles, read_bytes=config.burst_beats, array_steps=1)
    return Outcome(reason="it does not fit") if config.ub_banks == 8 else Outcome(counts)


def find(folder, count: int, *axes: str, seed: int = 1):
    study = Study({"net": ()}, Space(Config(), read_axes(axes)), Options(), Store(Records(folder)))
    with MadeUp() as executor:
        return search(study, count, ("cycles", "traffic"), executor, seed=seed)


AXES = ("dma_bursts=1..32", "queue_depth=2..64", "burst_beats=2..256", "ub_banks=4,8,16")


def test_a_search_comes_near_to_the_best_and_is_repeatable(tmp_path):
    found = find(tmp_path, 32, *AXES)
    values = [tuple(point.values.values()) for point in found]
    assert len(found) == len(set(values)) == 32
    assert min(point.objective("cycles") for point in found if not point.trouble) <= 70
    assert [tuple(x.values.values()) for x in find(tmp_path, 32, *AXES)] == values
    assert [tuple(x.values.values()) for x in find(tmp_path, 8, *AXES, seed=2)] != values[:8]


def test_a_search_ends_when_it_has_seen_everything(tmp_path):
    assert len(find(tmp_path, 100, "ub_banks=4,8", "dma_bursts=1,2")) == 4
