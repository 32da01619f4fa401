"""What nextpnr says while it routes is understood, and what it will never route is given up."""

import sys
from pathlib import Path

import pytest

from tpulite_silicon import router
from tpulite_silicon.router import UnroutedError, contested, run_router


@pytest.fixture
def nextpnr(tmp_path: Path, monkeypatch):
    """Return what makes a nextpnr that logs rounds, and ends in some way."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(router, "_LOOK_SECONDS", 0.01)

    def make(rounds: list[int], end: str) -> list[str]:
        lines = (
            f"Info:     iter={n} wires=9 overused={wires} overuse=7 archfail=NA"
            for n, wires in enumerate(rounds, 1)
        )
        program = tmp_path / "nextpnr"
        text = "\n".join(["Info: iter=1 steplen=0.8", *lines, "Info: done"])
        program.write_text(f"#!/bin/sh\ntest $1 = -q && cat > $3 <<END\n{text}\nEND\n{end}\n")
        program.chmod(0o755)
        return ["nextpnr"]

    return make


def test_rounds_are_those_of_the_router(nextpnr, tmp_path: Path) -> None:
    seen: list[list[int]] = []
    run_router(nextpnr([900, 30, 0], "exit 0"), tmp_path, seen.append, patience=5)
    assert seen[-1] == [900, 30, 0] == contested((tmp_path / "nextpnr.log").read_text())


@pytest.mark.parametrize("rounds", [[50, 7, 9, 8, 9], [9, 8, 9, 9, 9, 7, 9, 9, 9, 9], [5, 5, 5, 0]])
def test_wires_that_become_fewer_are_waited_for(nextpnr, tmp_path: Path, rounds) -> None:
    seen: list[list[int]] = []
    run_router(nextpnr(rounds, "exit 0"), tmp_path, seen.append, patience=5)
    assert seen[-1] == rounds


def test_slow_wires_count_as_contested_ones() -> None:
    text = "Info:     iter=7 wires=9 overused=3 overuse=4 tmgfail=20 archfail=NA\n"
    assert contested(text + text.replace("=3", "=0").replace("=20", "=0")) == [23, 0]


def test_a_placement_that_stays_as_it_is_is_given_up(nextpnr, tmp_path: Path) -> None:
    command = nextpnr([50, 7, 9, 8, 9, 9], "exec sleep 600")  # which is killed
    with pytest.raises(
        UnroutedError, match=r"^not routed: 7 contested or slow wires at best, in 6"
    ) as why:
        run_router(command, tmp_path, lambda _rounds: None, patience=4)
    assert (why.value.rounds, why.value.least) == (6, 7)


@pytest.mark.parametrize("grown", [3001, 9000])
def test_what_gets_worse_is_given_up_at_once(nextpnr, tmp_path: Path, grown: int) -> None:
    command = nextpnr([9000, 2000, grown], "exec sleep 600")  # which is killed
    with pytest.raises(UnroutedError, match="2,000 contested or slow wires at best, in 3 rounds"):
        run_router(command, tmp_path, lambda _rounds: None)


@pytest.mark.parametrize("rounds", [[9000, 2000, 3000], [9000, 1000, 9000]])
def test_what_grows_a_little_or_from_few_is_waited_for(nextpnr, tmp_path: Path, rounds) -> None:
    seen: list[list[int]] = []
    run_router(nextpnr(rounds, "exit 0"), tmp_path, seen.append)
    assert seen[-1] == rounds


def test_the_log_of_an_earlier_run_says_nothing(nextpnr, tmp_path: Path) -> None:
    command = nextpnr([], "")
    (tmp_path / "nextpnr.log").write_text("iter=1 wires=9 overused=2000 overuse=7\n" * 200)
    (tmp_path / "nextpnr").write_text("#!/bin/sh\nsleep 0.2\n")
    seen: list[list[int]] = []
    run_router(command, tmp_path, seen.append)
    assert not any(seen)


def test_a_failure_says_why(nextpnr, tmp_path: Path) -> None:
    command = nextpnr([], "echo it is full >&2; exit 1")
    with pytest.raises(RuntimeError, match=r"(?s)^nextpnr failed in .*it is full"):
        run_router(command, tmp_path, lambda _rounds: None)
