"""Results that are kept: an interrupted run goes on, a damaged file counts as missing."""

import errno
import os
from dataclasses import dataclass

import pytest

from tpulite.executors import Done
from tpulite.executors.kept import Records, run_kept


@dataclass(frozen=True)
class Square:
    number: int

    @property
    def key(self) -> str:
        return f"{self.number:04}"


class Here:
    """An executor that notes what it does."""

    def __init__(self) -> None:
        self.did: list[int] = []

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None: ...

    def run(self, tasks):
        for task in tasks:
            self.did.append(task.number)
            yield (
                Done(task, failure="three")
                if task.number == 3
                else Done(task, {"is": task.number**2})
            )


def test_what_is_kept_is_not_done_again(tmp_path):
    records, executor = Records(tmp_path / "store"), Here()
    first = run_kept(map(Square, range(9)), executor, records)
    assert [next(first).task for _ in range(6)] == [f"{i:04}" for i in range(6)]
    first.close()
    executor.did.clear()
    (tmp_path / "store" / "00" / "0004.json").write_text('{"is"')
    done = {each.task: each for each in run_kept(map(Square, range(9)), executor, records)}
    assert executor.did == [3, 4, 6, 7, 8]
    assert done.pop("0003").failure == "three"
    assert [done[key].result for key in sorted(done)] == [{"is": i**2} for i in range(9) if i != 3]
    executor.did.clear()
    assert len(list(run_kept(map(Square, range(9)), executor, records, fresh=True))) == 9
    assert executor.did == list(range(9))


def test_a_full_disk_is_told_with_the_file(tmp_path, monkeypatch):
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pathlib.Path.write_text", full)
    with pytest.raises(OSError, match="No space left") as error:
        Records(tmp_path).put("0001", {})
    assert error.value.filename == str(tmp_path / "00" / "0001.json")
    assert list((tmp_path / "00").iterdir()) == []
