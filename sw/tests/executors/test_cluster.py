"""A study on a real cluster of Dask: a worker is killed, then the client; nothing is lost."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tpulite.cli.workers import Workers
from tpulite.executors import ClusterExecutor
from tpulite.models import CNN_DIGITS

pytest_plugins = ("tpulite_testing.command_line",)

distributed = pytest.importorskip("distributed", reason="the extra `cluster` is missing")

STUDY = (
    *("explore", CNN_DIGITS, "--vary", "array_size=8,16", "--vary", "ub_rows=512..2048"),
    *("--effort", "0"),
    *("--vary", "acc_rows=512,1000", "--json"),
)


def start(stack: ExitStack, *words: object, folder: Path) -> subprocess.Popen:
    """Start a process that ends with the test."""
    command = [sys.executable, "-m", *map(str, words)]
    log = stack.enter_context((folder / "log").open("a"))
    process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen]]]:
    """Start a scheduler and two workers; return its address, and the workers."""
    with ExitStack() as stack:
        file = tmp_path / "scheduler.json"
        where = ("--scheduler-file", file)
        words = ("--host", "127.0.0.1", "--port", 0, "--no-dashboard")
        start(stack, "dask", "scheduler", *words, *where, folder=tmp_path)
        until(file.exists)
        words = ("--no-nanny", "--nthreads", 1, "--no-dashboard")
        workers = [start(stack, "dask", "worker", *words, *where, folder=tmp_path) for _ in "ab"]
        yield json.loads(file.read_text())["address"], workers


def until(done) -> None:
    while not done():
        time.sleep(0.1)


def kept(store: Path) -> int:
    return len(list(store.rglob("*.json")))


def test_a_study_survives_the_death_of_a_worker_and_of_the_client(cluster, tmp_path):
    address, workers = cluster
    store, here, there = tmp_path / "store", tmp_path / "here.json", tmp_path / "there.json"
    words = (*STUDY, there, "--scheduler", address, "--store", store)
    with ExitStack() as stack:
        client = start(stack, "tpulite", *words, folder=tmp_path)
        until(lambda: kept(store) >= 1 or client.poll() is not None)
        workers[0].send_signal(signal.SIGKILL)
        until(lambda: kept(store) >= 2 or client.poll() is not None)
        client.send_signal(signal.SIGKILL)
    assert kept(store) >= 2
    command = [sys.executable, "-m", "tpulite"]
    subprocess.run([*command, *map(str, words)], check=True, stdout=subprocess.DEVNULL)
    local = (*STUDY, here, "--workers", "1", "--store", tmp_path / "other")
    subprocess.run([*command, *map(str, local)], check=True, stdout=subprocess.DEVNULL)
    assert json.loads(there.read_text()) == json.loads(here.read_text())
    assert kept(store) == 6


def test_what_does_not_suit_is_told_before_any_work(cluster, monkeypatch):
    address, _ = cluster
    here = os.getpid()

    def lacks() -> str:
        if os.getpid() != here:
            raise ValueError("--oracle ort needs: pip install 'tpulite[onnx]'")
        return ""

    def entered(identity) -> str:
        with (
            pytest.raises(ValueError, match=r".") as error,
            ClusterExecutor(max, None, address, identity),
        ):
            pass
        return str(error.value)

    worker = r"tcp://127\.0\.0\.1:\d+"
    assert re.fullmatch(
        rf"{worker}: --oracle ort needs: pip install 'tpulite\[onnx\]'", entered(lacks)
    )
    told = entered(lambda: str(os.getpid()))
    assert re.fullmatch(rf"{worker} has a different version of tpulite", told)
    found = distributed.versions.get_versions()
    found["packages"]["distributed"] = "1.2"
    monkeypatch.setattr(distributed.versions, "get_versions", lambda **_: found)
    told = f"The scheduler at {address} has distributed {distributed.__version__}, not 1.2"
    assert entered(lacks) == told


def test_tasks_are_asked_for_as_they_are_needed(cluster):
    address, _ = cluster
    asked: list[int] = []

    def tasks() -> Iterator[int]:
        for number in range(100):
            asked.append(number)
            yield number

    with ClusterExecutor(pow, 2, address, str) as executor:
        run = executor.run(tasks())
        first = next(run)
        assert first.result == 2**first.task and len(asked) < 50
        assert sorted([first.task, *(done.task for done in run)]) == list(range(100))


def test_a_scheduler_that_is_not_there_is_told(tpulite):
    code, out, err = tpulite(*STUDY, "-", "--scheduler", "tcp://127.0.0.1:9")
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert err.startswith("tpulite: no scheduler answers at tcp://127.0.0.1:9: ")


@pytest.mark.parametrize(
    ("address", "warns"),
    [
        ("tcp://10.0.0.9:8786", True),
        ("tcp://localhost.example.org:8786", True),
        ("tcp://[fe80::1]:8786", True),
        ("tls://10.0.0.9:8786", False),
        ("tcp://localhost:8786", False),
        ("tcp://127.0.0.1:8786", False),
        ("tcp://[::1]:8786", False),
    ],
)
def test_schedulers_that_others_reach_are_warned_of(capsys, address, warns):
    Workers(scheduler=address).executor(max, None, str)
    assert ("has no TLS" in capsys.readouterr().err) == warns


@pytest.mark.parametrize("address", ["nonsense://x", "tcp://host", "tcp://host:x", "host:8786"])
def test_an_address_that_is_none_is_told(tpulite, address):
    code, out, err = tpulite(*STUDY, "-", "--scheduler", address)
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert err.startswith("tpulite: Scheduler must be tcp://HOST:PORT or tls://HOST:PORT, not ")
