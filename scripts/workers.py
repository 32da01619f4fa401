"""How well workers are used: 2 processes with real tasks, 64 of a simulated cluster with sleep.

``python scripts/workers.py`` measures tasks of ``tpulite regress`` on one process and on two, and
then has a real scheduler of Dask hand tasks of the same lengths to 64 threads that sleep so long.
Efficiency is work divided by workers times wall-clock time, without the time until they are ready.
That of two processes needs two idle cores; how long they had a task does not.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from distributed import Client

from tpulite.executors import ClusterExecutor, LocalExecutor
from tpulite.regress.regression import Seeds, run_seeds, seed_ranges

JOB = "random-graphs"
SEEDS = range(160)
PROCESSES, THREADS = 8, 8
ROUNDS = 20
"""Tasks of each simulated worker, on average."""


def timed(_: None, seeds: Seeds) -> tuple[float, float, float]:
    """Do a task; return when it began and ended, and the seconds that it had a processor."""
    begun, processor = time.perf_counter(), time.process_time()
    run_seeds(None, seeds)
    return begun, time.perf_counter(), time.process_time() - processor


def rest(_: None, seconds: float) -> float:
    """Sleep, as a task of that length on another machine lets this one sleep."""
    time.sleep(seconds)
    return seconds


def identity() -> str:
    """Say nothing: simulated workers do nothing."""
    return ""


def local(workers: int) -> tuple[float, float, list[float]]:
    """Do tasks in processes.

    Returns
    -------
    wall : float
        Seconds that it took.
    busy : float
        Share of that time for which processes had a task.
    durations : list of float
        Processor's seconds of each task.
    """
    tasks = list(seed_ranges([JOB], SEEDS))
    with LocalExecutor(timed, None, workers) as executor:
        warm = Seeds(JOB, 0, 1, "")
        list(executor.run([warm] * workers * 4))  # imports take their time
        begun = time.perf_counter()
        results = [done.result for done in executor.run(tasks)]
        wall = time.perf_counter() - begun
    each = [result for result in results if result]
    assert len(each) == len(tasks)
    busy = sum(end - start for start, end, _ in each) / workers / wall
    return wall, busy, [seconds for _, _, seconds in each]


def simulated(durations: Sequence[float]) -> tuple[float, float]:
    """Have tasks of such lengths done by a cluster; return their sum, and the wall-clock time."""
    rng = random.Random(1)
    tasks = rng.choices(durations, k=ROUNDS * PROCESSES * THREADS)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        where = ("--scheduler-file", str(folder / "scheduler.json"), "--no-dashboard")
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}

        def start(*words: str) -> None:
            command = [sys.executable, "-m", "dask", *words, *where]
            with (folder / "log").open("a") as log:
                process = subprocess.Popen(
                    command, env=environment, cwd=folder, stdout=log, stderr=log
                )
            stack.callback(process.wait)
            stack.callback(process.kill)

        start("scheduler", "--host", "127.0.0.1", "--port", "0")
        while not (folder / "scheduler.json").exists():
            time.sleep(0.1)
        for _ in range(PROCESSES):
            start("worker", "--no-nanny", "--nthreads", str(THREADS))
        address = json.loads((folder / "scheduler.json").read_text())["address"]
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(PROCESSES)
        with ClusterExecutor(rest, None, address, identity) as executor:
            begun = time.perf_counter()
            results = [done.result for done in executor.run(tasks)]
            wall = time.perf_counter() - begun
    assert Counter(results) == Counter(tasks)
    return sum(tasks), wall


def main() -> None:
    """Measure, and print."""
    one, _, durations = local(1)
    two, busy, _ = local(2)
    print(f"load of the last minute: {os.getloadavg()[0]:.1f}")
    print(f"{len(durations)} tasks of {JOB}, {sum(durations) / len(durations):.2f} s each")
    print(f"1 process {one:.1f} s, 2 processes {two:.1f} s: efficiency {one / two / 2:.0%}")
    print(f"2 processes had a task for {busy:.0%} of the time")
    slots = PROCESSES * THREADS
    work, wall = simulated(durations)
    print(
        f"{ROUNDS * slots} tasks as long, asleep, on {slots} simulated workers: {work:.0f} s of "
        f"work in {wall:.1f} s, efficiency {work / wall / slots:.0%}"
    )
    tiny = [0.0] * len(durations)
    _, wall = simulated(tiny)
    print(f"tasks of no length: {wall / ROUNDS / slots * 1e3:.2f} ms each")


if __name__ == "__main__":
    main()
