"""What a run gives back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tpulite.arch.isa import Engine
from tpulite.runtime.device import FaultReport


class EngineTrace(Protocol):
    """What one engine did in a run, command by command.

    Parameters
    ----------
    index : array of int
        Indices of the commands that it worked on.
    start, stop : array of int
        First cycle, and last cycle + 1, that counted for the command.
    cycles : array of int, one column for each :class:`tpulite.arch.registers.EngineState`
        Cycles in each state.
    """

    @property
    def index(self) -> np.ndarray: ...  # noqa: D102
    @property
    def start(self) -> np.ndarray: ...  # noqa: D102
    @property
    def stop(self) -> np.ndarray: ...  # noqa: D102
    @property
    def cycles(self) -> np.ndarray: ...  # noqa: D102


@dataclass(frozen=True, eq=False)
class Results:
    """Outputs and account of one run."""

    #: Mapping of str to ndarray, [m, channels]. Outputs by name; none if the run ended in a fault.
    outputs: Mapping[str, np.ndarray]
    #: Counters of the chip; none if the device has no clock.
    counters: Mapping[str, int] = field(default_factory=dict)
    fault: FaultReport | None = None  #: Why it stopped before its end.
    #: What each engine did, if the device records it.
    traces: Mapping[Engine, EngineTrace] = field(default_factory=dict)

    @property
    def output(self) -> np.ndarray:
        """The only output; RuntimeError if there is none, because of a fault."""
        if self.fault is not None:
            raise RuntimeError(f"The run has no output, it ended in {self.fault}")
        (output,) = self.outputs.values()
        return output

    @property
    def cycles(self) -> int | None:
        """Cycles from start to interrupt, if the device has a clock."""
        return self.counters.get("cycles")
