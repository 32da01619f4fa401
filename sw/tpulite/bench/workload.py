"""What a workload is: something that can be compiled, and that knows what is right."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.graph.layers import LayerGraph
from tpulite.program import Program
from tpulite.runtime.device import Device


@dataclass(frozen=True)
class Outcome:
    """A workload that has run."""

    programs: tuple[Program, ...]  #: What ran, for its multiplications and its traffic.
    cycles: int | None  #: Cycles of all of it; None where the device has no clock.
    counters: Mapping[str, int]  #: Counters of the chip, summed over the programs.
    exact: bool  #: Whether the result is the exact one, bit for bit.
    batches: int = 1  #: Batches of 16 in it.
    vectors: int | None = None  #: Output vectors, if cycles of a vector are of interest.


class Workload(Protocol):
    """Something to compile and to run on one machine, with its inputs."""

    @property
    def parts(self) -> tuple[LayerGraph, ...]:
        """Integer layers of each program."""
        ...

    def compile(self, options: Options = ...) -> tuple[Program, ...]:
        """Compile it; the bits are the same with all options."""
        ...

    def warmed(self) -> "Workload":
        """Return the same workload with constants that stay on chip, measured when they are there.

        It is compiled, or refused, when its programs are made.
        """
        ...

    def run(self, programs: tuple[Program, ...], device: Device) -> Outcome:
        """Run what was compiled, and compare the result with the exact one."""
        ...


Run = Callable[[Device], Outcome]
"""Makes, compiles and runs a workload."""

MakeWorkload = Callable[[Config], Workload]
"""Makes a workload for a machine."""
