"""A search: which points to measure next, by what is known of others. Optuna chooses."""

import random
import warnings
from collections.abc import Container, Sequence
from typing import Any

from tpulite.executors import Executor
from tpulite.explore.measure import Outcome, Task
from tpulite.explore.point import Point
from tpulite.explore.study import Study, Tell
from tpulite.needs import require_package

_TOGETHER = 8
"""Points that are chosen before any of them is measured. The number of workers has no say, so equal
seeds give equal points."""

_Places = tuple[int, ...]
"""Which value of each axis a point takes."""


def search(
    study: Study,
    count: int,
    objectives: Sequence[str],
    executor: Executor[Task, tuple[Outcome, ...]],
    *,
    seed: int,
    tell: Tell = lambda *_: None,
) -> list[Point]:
    """Return points that Optuna's multi-objective TPE chooses, each once, in their order.

    Where it chooses a point again, a random one that is new takes its place.

    Parameters
    ----------
    count : int
        How many; all if there are no more.
    tell : callable, optional
        Called with how many points are measured, and of how many.

    Raises
    ------
    ValueError
        If Optuna is missing.
    """
    require_package("optuna", "explore", "--search")
    import optuna  # takes a second

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        # Points of a batch are chosen as if those before them were bad, so that they differ.
        sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    small = optuna.study.StudyDirection.MINIMIZE
    trials = optuna.create_study(directions=[small] * len(objectives), sampler=sampler)
    found: dict[_Places, Point] = {}
    count, rng = min(count, len(study.space)), random.Random(seed)
    while len(found) < count:
        tell(len(found), count)
        batch: dict[_Places, Any] = {}
        while len(batch) < min(_TOGETHER, count - len(found)):
            trial = trials.ask()
            place = _choose(trial, study)
            if place in found or place in batch:
                trials.tell(trial, state=optuna.trial.TrialState.FAIL)
                place = _new_place(study, rng, {*found, *batch})
                fields = [axis.field for axis in study.space.axes]
                trials.enqueue_trial(dict(zip(fields, place, strict=True)))
                trial = trials.ask()
                _choose(trial, study)
            batch[place] = trial
        points = study.points([_values(place, study) for place in batch], executor)
        found |= dict(zip(batch, points, strict=True))
        for place, trial in batch.items():
            point = found[place]
            if point.trouble:
                trials.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                trials.tell(trial, [point.objective(name) for name in objectives])
    tell(len(found), count)
    return list(found.values())


def _choose(trial: Any, study: Study) -> _Places:
    """Return the choice of a trial: numbers of values, as neighbors are alike."""
    return tuple(trial.suggest_int(x.field, 0, len(x.values) - 1) for x in study.space.axes)


def _new_place(study: Study, rng: random.Random, known: Container[_Places]) -> _Places:
    """Return a random place that is not known; there is one."""
    while True:
        place = tuple(rng.randrange(len(axis.values)) for axis in study.space.axes)
        if place not in known:
            return place


def _values(places: _Places, study: Study) -> dict[str, Any]:
    axes = study.space.axes
    return {axis.field: axis.values[place] for axis, place in zip(axes, places, strict=True)}
