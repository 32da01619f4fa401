"""The host's side of MLPerf Tiny's serial protocol, after the runner of mlcommons/tiny."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

__all__ = ["Inferred", "Runner"]

_READY = "m-ready"
_BYTES = 31
"""Of an input in one command, as the benchmark's runner sends them."""

_MESSAGES = {
    "name": re.compile(r"m-name-dut-\[([^]]+)\]"),
    "model": re.compile(r"m-model-\[([^]]+)\]"),
    "profile": re.compile(r"m-profile-\[([^]]+)\]"),
    "lap": re.compile(r"m-lap-us-(\d+)"),
    "chip": re.compile(r"m-chip-cycles-(\d+)"),
    "results": re.compile(r"m-results-\[([^]]*)\]"),
}
_ERROR = re.compile(r"e-\[(.*)\]")

_WRAP = 1 << 32
"""Of a device's microseconds."""


@dataclass(frozen=True)
class Inferred:
    """What an ``infer`` gave."""

    iterations: int  #: Inferences between the timestamps.
    microseconds: int  #: Of all of them.
    results: tuple[str, ...]  #: Values of the last one, as they were written.
    chip_cycles: int  #: Of one inference, of the chip alone; 0 if the device does not tell.


class Runner:
    """Commands to a device that speaks the protocol.

    Parameters
    ----------
    lines : iterable of str
        What the device says, without line ends.
    send : callable
        Takes text to the device.

    Raises
    ------
    RuntimeError
        By each method: if the device refuses a command, says something else than is due, or
        nothing more.
    """

    def __init__(self, lines: Iterable[str], send: Callable[[str], object]) -> None:
        self._lines: Iterator[str] = iter(lines)
        self._send = send

    def wait(self) -> list[str]:
        """Return what comes until the device is ready."""
        said: list[str] = []
        for line in self._lines:
            if line == _READY:
                return said
            if error := _ERROR.fullmatch(line):
                raise RuntimeError(f"the device says: {error[1]}")
            said.append(line)
        raise RuntimeError(f"the device has ended: {said[-1] if said else 'it said nothing'}")

    def synchronize(self) -> None:
        """Forget what was said before, and end a command that broke off."""
        self._send("%name%")
        for line in self._lines:
            if _MESSAGES["name"].fullmatch(line):
                self.wait()
                return
        raise RuntimeError("the device does not answer")

    def command(self, text: str) -> list[str]:
        """Send a command and return the answer."""
        self._send(f"{text}%")
        return self.wait()

    def name(self) -> str:
        """Ask for the device's name."""
        return _only("name", self.command("name"))

    def model(self) -> str:
        """Ask for the network's name, as ``kws01``."""
        return _only("model", self.command("profile"))

    def load(self, data: bytes) -> None:
        """Send an input."""
        answer = self.command(f"db load {len(data)}")
        for at in range(0, len(data), _BYTES):
            answer = self.command(f"db {data[at : at + _BYTES].hex()}")
        if "m-load-done" not in answer:
            raise RuntimeError(f"the device has not got the {len(data)} bytes: {answer}")

    def infer(self, iterations: int, warmups: int) -> Inferred:
        """Run the input that was sent; ``warmups`` more runs before are not timed."""
        answer = self.command(f"infer {iterations} {warmups}")
        laps = _found("lap", answer)
        if len(laps) != 2:
            raise RuntimeError(f"the device gives {len(laps)} timestamps of an inference, not 2")
        chip = _found("chip", answer)
        return Inferred(
            iterations,
            (int(laps[1]) - int(laps[0])) % _WRAP,
            tuple(_only("results", answer).split(",")),
            int(chip[0]) if chip else 0,
        )


def _found(what: str, lines: list[str]) -> list[str]:
    return [match[1] for line in lines if (match := _MESSAGES[what].fullmatch(line))]


def _only(what: str, lines: list[str]) -> str:
    if len(found := _found(what, lines)) != 1:
        raise RuntimeError(f"the device says no {what} but {lines}")
    return found[0]
