"""A study: networks on many machines, what is known of them from the store, the rest measured."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tpulite.compiler.options import Options
from tpulite.executors import Executor
from tpulite.explore.measure import Outcome, Task
from tpulite.explore.point import Point
from tpulite.explore.space import Space
from tpulite.explore.store import Store, digest_of, task_key, timed_config
from tpulite.graph.layers import LayerGraph

__all__ = ["Study", "Tell"]

Tell = Callable[[int, int], None]
"""Called with how many outcomes are known, and how many there will be."""


@dataclass(frozen=True)
class Study:
    """Networks, machines and options.

    Parameters
    ----------
    networks : mapping of str to tuple of LayerGraph
        By name, the parts of each network that are the machine's.
    space : Space
        The machines.
    options : Options
        How networks are compiled.
    store : Store
        Where outcomes are kept.
    fresh : bool
        Whether to measure what is in the store, too.
    """

    networks: Mapping[str, tuple[LayerGraph, ...]]
    space: Space
    options: Options
    store: Store
    fresh: bool = False

    @cached_property
    def _digests(self) -> dict[str, str]:
        return {name: digest_of(parts) for name, parts in self.networks.items()}

    def points(
        self,
        chosen: Iterable[dict[str, Any]],
        executor: Executor[Task, Outcome],
        tell: Tell = lambda *_: None,
    ) -> list[Point]:
        """Return points with these values, in their order.

        An outcome is kept as soon as it is there: when a run is interrupted, the next one goes on.

        Raises
        ------
        OSError
            If an outcome cannot be kept.
        """
        begun = [self._begin(values) for values in chosen]
        tasks = {key: task for _, each in begun for key, task in each.items()}
        known = {} if self.fresh else {key: self.store.get(key) for key in tasks}
        outcomes = {key: outcome for key, outcome in known.items() if outcome is not None}
        keys = {task: key for key, task in tasks.items()}
        tell(len(outcomes), len(tasks))
        for done in executor.run(task for key, task in tasks.items() if key not in outcomes):
            if done.result is not None:  # what failed may do better next time
                self.store.put(keys[done.task], done.result)
            outcomes[keys[done.task]] = done.result or Outcome(reason=done.failure)
            tell(len(outcomes), len(tasks))
        return [self._point(point, each, outcomes) for point, each in begun]

    def _begin(self, values: dict[str, Any]) -> tuple[Point, dict[str, Task]]:
        """Return a point without outcomes, and the tasks that it needs by their keys."""
        try:
            config = self.space.config(values)
        except ValueError as error:
            return Point(values, None, {}, str(error)), {}
        tasks = [Task(name, timed_config(config), self.options) for name in self.networks]
        keys = {task_key(self._digests[task.network], task): task for task in tasks}
        return Point(values, config, {}), keys

    @staticmethod
    def _point(point: Point, tasks: Mapping[str, Task], outcomes: Mapping[str, Outcome]) -> Point:
        found = {task.network: outcomes[key] for key, task in tasks.items()}
        return Point(point.values, point.config, found, point.reason)
