"""Mutants of the whole chip against the benches of the whole chip, forked from one process.

The Verilated chip holds all mutants; a register that only :class:`Chosen` sets says which one it
is. Each *trial* is a run of a bench that uses :class:`RtlDevice`: it fails, or the host reads other
registers than from the chip as it is. All trials are run once without a mutant, so that a forked
child finds what the golden machine and the compiler have computed.
"""

import os
import random
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tpulite_rtl.top import Chip
from tpulite_rtl.verilog import TOP
from tpulite_tb.campaign import Campaign, opened
from tpulite_tb.chip_trials import Trial, trials
from tpulite_tb.harness import component_ports
from tpulite_tb.machines import SMALL
from tpulite_tb.mutants import BITS, CHIP, NAME, wanted_mutants, with_mutants
from tpulite_verilated import rtl_device
from tpulite_verilated.library import build_library, load_library

__all__ = ["Chosen", "LateError", "chip_campaign", "chosen_verilog", "meet"]

_PROGRAMS = 24
"""Random programs that each meets: a third of the time of one that lives."""

_SLACK_CYCLES = 3_000
"""Cycles that a run may take longer than twice what it takes without a mutant: a watchdog's."""


def chip_campaign(count: int) -> Campaign:
    """Draw mutants of :data:`SMALL`, unless that was done before, and return their campaign."""
    chip = Chip(SMALL)
    folder = with_mutants(chip, component_ports(chip), count)
    return opened(CHIP, type(chip).__module__, folder)


def chosen_verilog(text: str) -> str:
    """Make a public register of the input that chooses a mutant, and the chip's name that of all.

    Parameters
    ----------
    text : str
        ``mutated.v``, of which the top module is ``dut``.
    """
    start = text.index("\nmodule dut(") + 1
    stop = text.index("endmodule", start)
    top = text[start:stop].replace("module dut(", f"module {TOP}(", 1)
    top = re.sub(rf", {NAME}\b|\b{NAME}, ", "", top, count=1)
    top = re.sub(rf"^ *wire \[{BITS - 1}:0\] {NAME} *;\n", "", top, flags=re.MULTILINE)
    register = f"reg [{BITS - 1}:0] {NAME} /*verilator public_flat_rw*/ = 0;"
    top, found = re.subn(rf"input \[{BITS - 1}:0\] {NAME} *;", register, top)
    assert found == 1, "Yosys declares the input in another way"
    return text[:start] + top + text[stop:]


class LateError(Exception):
    """A run takes much longer than without a mutant."""


class Chosen:
    """The library of the chip, as :class:`RtlDevice` calls it, with a mutant chosen in each chip.

    Parameters
    ----------
    library : ctypes.CDLL
        That of :func:`load_library`.

    Attributes
    ----------
    number : int
        The mutant, 0 for none.
    limit : int
        Cycles after which a run is given up, if not 0.
    longest : int
        Cycles of the chip that ran longest.
    seen : list of (offset, value, response)
        Registers that the host has read.
    """

    def __init__(self, library: Any) -> None:
        self._library = library
        self.number = 0
        self.begin()

    def begin(self, limit: int = 0) -> None:
        """Begin a trial."""
        self.limit = limit
        self.longest = 0
        self.seen: list[tuple[int, int, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    def chip_new(self, *options: Any) -> Any:
        """Make a chip, choose, and reset it again."""
        chip = self._library.chip_new(*options)
        for bit in range(BITS):
            if self.number >> bit & 1:
                self._library.chip_flip(chip, 0, 0, bit)
        self._library.chip_reset(chip)
        return chip

    def chip_read_register(self, chip: Any, offset: int, value: Any) -> int:
        """Read and remember."""
        response = self._library.chip_read_register(chip, offset, value)
        self.seen.append((offset, value._obj.value, response))
        return response

    def chip_wait_interrupt(self, chip: Any, cycles: int) -> int:
        """Wait, unless that takes too long."""
        there = self._library.chip_wait_interrupt(chip, cycles)
        self.longest = max(self.longest, self._library.chip_cycles(chip))
        if not there and 0 < self.limit < self.longest:
            raise LateError
        return there


@dataclass(frozen=True)
class _Reference:
    """A trial and what it does without a mutant: what the host sees, and how long it takes."""

    name: str
    trial: Trial
    seen: object
    limit: int


@contextmanager
def _mutated_chip(folder: Path) -> Iterator[Chosen]:
    """Let all devices be the chip with mutants; build its simulator if that was not done."""
    text = chosen_verilog((folder / "mutated.v").read_text())
    path = build_library(text, title="the 4x4 chip with mutants")
    chosen = Chosen(load_library(path))
    with patch.multiple(
        rtl_device,
        cached_verilog=lambda _config: "",
        build_library=lambda _text, title: path,
        load_library=lambda _path: chosen,
    ):
        yield chosen


def _tried(chosen: Chosen, trial: Trial, limit: int = 0) -> object:
    """Run a trial and return what the host sees."""
    random.seed(1)
    chosen.begin(limit)
    return trial(), chosen.seen


def meet(campaign: Campaign) -> None:
    """Run all trials without a mutant, and for each mutant until one fails; log what becomes of it.

    A mutant is ``killed`` by ``cycles`` if it fails none, or no program, and the host reads other
    counters or traces.
    """
    with _mutated_chip(campaign.folder) as chosen:
        references = []
        for name, trial in trials(_PROGRAMS).items():
            _tried(chosen, trial)  # so that nothing is computed later that is kept
            seen = _tried(chosen, trial)
            limit = 2 * chosen.longest + _SLACK_CYCLES
            references.append(_Reference(name, trial, seen, limit))
        usual = time.process_time()
        if not campaign.fates:
            by, _seconds = _forked(chosen, 0, references, usual)
            assert not by, f"{by}: the chip as it is fails in a child"
        for number in campaign.left(CHIP):
            by, seconds = _forked(chosen, number, references, usual)
            fate = "killed" if by else "survived"
            campaign.note(number=number, fate=fate, by=by or CHIP, seconds=seconds)


def _forked(
    chosen: Chosen, number: int, references: list[_Reference], limit: float
) -> tuple[str, float]:
    """Meet a mutant in a child: return what killed it, or nothing, and its seconds."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        signal.setitimer(signal.ITIMER_PROF, limit)
        chosen.number = number
        os.write(writer, _killer(chosen, references).encode())
        os._exit(0)
    os.close(writer)
    _pid, status, usage = os.wait4(child, 0)
    with os.fdopen(reader) as told:
        by = told.read()
    crashed = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "exit"
    return by if not status else crashed, round(usage.ru_utime + usage.ru_stime, 2)


def _killer(chosen: Chosen, references: list[_Reference]) -> str:
    """Return the first trial that fails, or ``cycles``, or nothing."""
    same = True
    for number, reference in enumerate(references):
        if not same and number >= _PROGRAMS:
            break
        try:
            seen = _tried(chosen, reference.trial, reference.limit)
        except (Exception, pytest.fail.Exception):
            return reference.name
        same = same and seen == reference.seen
    return "" if same else "cycles"


if __name__ == "__main__":
    meet(chip_campaign(wanted_mutants()))
