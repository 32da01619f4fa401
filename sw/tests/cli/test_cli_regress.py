import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tpulite.cli import workers
from tpulite.executors import Done
from tpulite.regress.jobs import JOBS, Job
from tpulite.runtime import identity

pytest_plugins = ("tpulite_testing.command_line",)


def check(seed: int) -> dict[str, int]:
    """Fail at some seeds."""
    assert seed % 7 != 5, f"{seed} is\nbad"
    return {"checks": 1, f"sum of {'even' if seed % 2 == 0 else 'odd'}": seed}


class Here:
    """An executor of this process; it notes what it does."""

    did: tuple[tuple[int, int], ...] = ()

    def __init__(self, function, shared, workers) -> None:
        self.function, self.shared = function, shared

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None: ...

    def run(self, tasks):
        for task in tasks:
            Here.did += ((task.start, task.stop),)
            if task.start == 30:
                yield Done(task, failure="its process died: out of memory, or killed")
            else:
                yield Done(task, self.function(self.shared, task))


@pytest.fixture
def sample(monkeypatch) -> None:
    monkeypatch.setitem(JOBS, "sample", Job(f"{__name__}:check", "sample", 10, packages=()))
    monkeypatch.setattr(workers, "LocalExecutor", Here)
    monkeypatch.setattr(Here, "did", ())


def test_failing_seeds_are_told_with_the_command_that_repeats_them(tpulite, sample):
    words = ("regress", "--jobs", "sample", "--seeds")
    code, out, err = tpulite(*words, "3..24", "--json", "run.json")
    assert (code, err) == (1, "") and Here.did == ((3, 10), (10, 20), (20, 25))
    good = [seed for seed in range(3, 25) if seed % 7 != 5]
    assert re.search(rf"sample +22 +3 +{len(good)} checks, {sum(good)} sum", out)
    assert "\nsample 12: AssertionError: 12 is bad" in out and "Traceback" not in out
    repeat = re.findall(r"^  tpulite (.*)", out, re.MULTILINE)
    assert [words.split()[-4] for words in repeat] == ["5", "12", "19"]
    code, alone, _ = tpulite(*repeat[1].split())
    assert code == 1 and Here.did[3:] == ((12, 13),) and "\nTraceback (most" in alone
    assert tpulite(*words, "3..24", "--json", "again.json")[1] == out and len(Here.did) == 4
    code, out, _ = tpulite(*words, "3..34", "--json", "-")
    assert Here.did[4:] == ((20, 30), (30, 35))
    (record,) = json.loads(out).values()
    assert record["seeds"] == 27 and record["counts"]["checks"] == len(good) + 4
    assert [each["seeds"] for each in record["failures"]][-2:] == [[26, 26], [30, 34]]


def whole(seed: int, folder: Path) -> Path:
    """Write a seed that fails."""
    if seed == 12:
        raise ValueError("It does not fail any more")
    path = folder / f"{seed}.txt"
    path.write_text(str(seed))
    return path


def test_the_smallest_case_of_a_failing_seed_is_written(tpulite, sample, monkeypatch, tmp_path):
    job = replace(JOBS["sample"], smallest=f"{__name__}:whole")
    monkeypatch.setitem(JOBS, "sample", job)
    words = ("regress", "--jobs", "sample", "--seeds", "3..14", "--smallest", tmp_path / "some")
    code, _, err = tpulite(*words)
    assert code == 1 and (tmp_path / "some/5.txt").read_text() == "5"
    assert err.splitlines() == [
        f"sample 5, reduced: {tmp_path / 'some/5.txt'}",
        "sample 12, reduced: It does not fail any more",
    ]


def test_jobs_of_the_package_run_in_processes(tpulite):
    code, out, err = tpulite("regress", "--jobs", "random-graphs", "--seeds", "7", "--workers", 1)
    assert (code, err) == (0, "") and re.search(r"random-graphs +1 +0 +1 graphs, \d+ layers", out)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--jobs", "joy"), "joy: no such job; choose from random-graphs, "),
        (("--seeds", "a..b"), "--seeds a..b: must be FIRST..LAST or one number"),
        (("--seeds", "5..4"), "--seeds 5..4: the last seed is smaller"),
        (("--workers", 1, "--scheduler", "tcp://x:1"), "cannot be used together"),
    ],
)
def test_bad_input_is_told_in_a_line(tpulite, words, message):
    code, out, err = tpulite("regress", *words)
    assert (code, out) == (2, "") and err.count("\n") == 1 and message in err


def test_a_missing_extra_is_told_before_any_work(tpulite, monkeypatch):
    def missing(package: str, extra: str, user: str) -> None:
        raise ValueError(f"{user} needs: pip install 'tpulite[{extra}]'")

    monkeypatch.setattr(identity, "require_package", missing)
    identity.identity.cache_clear()
    code, out, err = tpulite("regress", "--jobs", "random-programs")
    assert (code, out, err) == (2, "", "tpulite: The chip needs: pip install 'tpulite[rtl]'\n")
