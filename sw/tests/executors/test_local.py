"""Tasks in processes: each is done once, and none harms another."""

import os
import signal
from pathlib import Path

import pytest

from tpulite.executors import Done, LocalExecutor


def act(folder: Path, task: str) -> str:
    """Do what a task says, and leave a mark of having begun."""
    marks = folder / task
    marks.write_text(f"{marks.read_text() if marks.exists() else ''}x")
    if task == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if task == "raises":
        raise ArithmeticError("two\nlines")
    if task == "recovers" and marks.read_text() == "x":
        raise ArithmeticError("once")
    return task.upper()


def test_a_task_that_kills_its_process_harms_no_other(tmp_path):
    tasks = ["a", "dies", "b", "raises", "recovers", "c"]
    with LocalExecutor(act, tmp_path, workers=1) as executor:
        done = {each.task: each for each in executor.run(iter(tasks))}
        again = list(executor.run(["d"]))
    assert len(done) == len(tasks) and again == [Done("d", "D")]
    assert {task: each.result for task, each in done.items() if not each.failure} == {
        task: task.upper() for task in ("a", "b", "c", "recovers")
    }
    assert done["dies"].failure == "its process died: out of memory, or killed"
    assert done["raises"].failure == "ArithmeticError: two lines"
    assert (tmp_path / "raises").read_text() == "xxx"


def test_there_must_be_a_worker(tmp_path):
    with pytest.raises(ValueError, match="at least 1 worker, not 0"):
        LocalExecutor(act, tmp_path, workers=0)
