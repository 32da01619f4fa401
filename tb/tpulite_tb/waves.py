"""Waveforms of simulations, as the environment asks for them."""

import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tpulite.arch.registers import EngineState

__all__ = ["Waves"]

_OFF = ("", "0", "no", "off", "false")
_ON = ("1", "yes", "on", "true", "ports")
_ALL = "all"
_END = 1 << 62
"""More cycles than a simulation has."""

_STATES = {re.compile(r"trace_\w+_state"): tuple(state.name for state in EngineState)}


@dataclass(frozen=True)
class Waves:
    """What of a simulation is kept to be looked at."""

    on: bool = False  #: Whether anything is.
    everything: bool = False  #: All signals, not only the ports of the outermost module.
    cycles: range = range(_END)  #: Of which cycles.

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> "Waves":
        """Return what ``$WAVES``, ``$WAVES_FROM`` and ``$WAVES_TO`` ask for.

        Raises
        ------
        ValueError
            If they mean nothing.
        """
        word = environment.get("WAVES", "").lower()
        if word not in (*_OFF, *_ON, _ALL):
            given = environment["WAVES"]
            raise ValueError(f"WAVES must be 1 (ports), all, or 0, not {given!r}")
        start, stop = (_cycle(environment, name) for name in ("WAVES_FROM", "WAVES_TO"))
        cycles = range(start or 0, _END if stop is None else stop)
        if not cycles:
            raise ValueError(f"WAVES_TO must be after WAVES_FROM ({cycles.start}), not {stop}")
        if word in _OFF and (start, stop) != (None, None):
            raise ValueError("WAVES_FROM and WAVES_TO need WAVES=1 or WAVES=all")
        return cls(word not in _OFF, word == _ALL, cycles)

    def build_arguments(self, sim: str) -> list[str]:
        """Return what the simulator is built with."""
        shallow = self.on and not self.everything and sim == "verilator"
        return ["--trace-depth", "1"] if shallow else []

    @contextmanager
    def recording(self, folder: Path, sim: str) -> Iterator[tuple[list[str], list[str]]]:
        """Return arguments and plusargs of a simulation that leaves ``waves.fst`` in a folder.

        Icarus writes FST itself, of all signals and cycles. Verilator's own writer of FST needs
        headers that many machines lack: it tells a pipe, and what reads that also cuts the window.
        """
        file, pipe = folder / "waves.fst", folder / "waves.pipe"
        if not self.on:
            yield [], []
        elif sim == "icarus":
            yield [], [f"+dumpfile_path={file}"]
        else:
            pipe.unlink(missing_ok=True)
            os.mkfifo(pipe)
            reader = threading.Thread(target=self._read, args=(pipe, file))
            reader.start()
            try:
                yield ["--trace-file", str(pipe)], []
            finally:
                # A simulation that never began leaves a reader that waits for it.
                os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))
                reader.join()
                pipe.unlink()

    def _read(self, pipe: Path, file: Path) -> None:
        # Late: a bench without a waveform runs without what writes one.
        from tpulite_tb.fst import Keep, write_fst
        from tpulite_tb.wave_layouts import write_layouts

        with pipe.open("rb") as stream:
            variables = write_fst(stream, file, Keep(self.cycles, not self.everything, _STATES))
        write_layouts(file, variables)


def _cycle(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    if text and not text.isdecimal():
        raise ValueError(f"{name} must be the number of a cycle, not {text!r}")
    return int(text) if text else None
