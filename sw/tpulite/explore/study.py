"""A study: networks on many machines, what is known of them from the store, the rest measured."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.executors import Executor
from tpulite.executors.kept import Records
from tpulite.explore.families import FAMILIES
from tpulite.explore.measure import Outcome, Run, Task, tasks_of
from tpulite.explore.point import Point
from tpulite.explore.space import Space
from tpulite.graph.layers import LayerGraph
from tpulite.runtime.compile_cache import program_key

_FORMAT = 2
"""Another number makes all outcomes that were kept before count as missing."""


@dataclass(frozen=True)
class Store:
    """Outcomes among records."""

    records: Records  #: Where they are.

    def get(self, key: str) -> Outcome | None:
        """Return an outcome, None if it is not there or not whole."""
        try:
            return Outcome.from_dict(self.records.get(key) or {})
        except (KeyError, TypeError):
            return None

    def put(self, key: str, outcome: Outcome) -> None:
        """Keep an outcome; OSError if that is not possible."""
        self.records.put(key, asdict(outcome))


def digest_of(parts: tuple[LayerGraph, ...]) -> str:
    """Return a name for the content of a network, and for the compiler that it is read by."""
    keys = [program_key(part, Config(), Options()) for part in parts]
    return hashlib.blake2b("".join(keys).encode(), digest_size=16).hexdigest()


def run_key(digest: str, run: Run) -> str:
    """Return a name for all that an outcome depends on; machines that time alike share one."""
    record = [_FORMAT, digest, run.config.as_dict(), asdict(run.options), asdict(run.memory)]
    text = json.dumps(record, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


NO_CLOCK = "no clock was measured for it: give --mhz"
"""Why a machine is none to take if its time counts."""

Tell = Callable[[int, int], None]
"""Called with how many outcomes are known, and how many there will be."""


@dataclass(frozen=True)
class Study:
    """Networks, machines and options."""

    #: By name, the parts of each network that are the machine's.
    networks: Mapping[str, tuple[LayerGraph, ...]]
    space: Space  #: The machines.
    options: Options  #: How networks are compiled.
    store: Store  #: Where outcomes are kept.
    fresh: bool = False  #: Whether to measure what is in the store, too.
    process: str = "45nm"  #: Of :data:`tpulite.explore.energy.TABLES`: whose energies count.
    family: str = FAMILIES[0]  #: Of :data:`tpulite.explore.families.FAMILIES`: whose area counts.
    mhz: float | None = None  #: The clock of all machines; by default the measured one of each.
    clocked: bool = False  #: Whether machines without a clock are none to take.

    @cached_property
    def _digests(self) -> dict[str, str]:
        return {name: digest_of(parts) for name, parts in self.networks.items()}

    def points(
        self,
        chosen: Iterable[dict[str, Any]],
        executor: Executor[Task, tuple[Outcome, ...]],
        tell: Tell = lambda *_: None,
    ) -> list[Point]:
        """Return points with these values, in their order.

        An outcome is kept as soon as it is there: when a run is interrupted, the next one goes on.
        OSError if an outcome cannot be kept.
        """
        begun = [self._begin(values) for values in chosen]
        runs = {key: run for _, each in begun for key, run in each.items()}
        known = {} if self.fresh else {key: self.store.get(key) for key in runs}
        outcomes = {key: outcome for key, outcome in known.items() if outcome is not None}
        keys = {run: key for key, run in runs.items()}
        tell(len(outcomes), len(runs))
        tasks = tasks_of(run for key, run in runs.items() if key not in outcomes)
        while tasks:
            apart: list[Task] = []
            for done in executor.run(tasks):
                if done.result is None and len(done.task) > 1:  # not all runs need be to blame
                    apart += [(run,) for run in done.task]
                    continue
                failed = (Outcome(reason=done.failure),) * len(done.task)
                for run, outcome in zip(done.task, done.result or failed, strict=True):
                    outcomes[keys[run]] = outcome
                    if done.result is not None:  # what failed may do better next time
                        self.store.put(keys[run], outcome)
                tell(len(outcomes), len(runs))
            tasks = apart
        return [self._point(point, each, outcomes) for point, each in begun]

    def _begin(self, values: dict[str, Any]) -> tuple[Point, dict[str, Run]]:
        """Return a point without outcomes, and the runs that it needs by their keys."""
        try:
            config, build = self.space.config(values), self.space.build(values)
        except ValueError as error:
            return Point(values, None, {}, str(error), self.process), {}
        memory = self.space.memory_of(values)
        runs = [Run(name, config, self.options, memory) for name in self.networks]
        keys = {run_key(self._digests[run.network], run): run for run in runs}
        point = Point(
            values,
            config,
            {},
            process=self.process,
            build=build,
            family=self.family,
            mhz=self.mhz,
        )
        if self.clocked and point.clock is None:
            return replace(point, reason=NO_CLOCK), {}
        return point, keys

    @staticmethod
    def _point(point: Point, runs: Mapping[str, Run], outcomes: Mapping[str, Outcome]) -> Point:
        found = {run.network: outcomes[key] for key, run in runs.items()}
        return replace(point, outcomes=found)
