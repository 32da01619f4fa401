"""Functional coverage: which combinations of what commands say and of what happens were executed.

Sampled from command streams that the chip has executed as the golden machine does, which is where
the records of a CONV are known, and from the AXI channels of benches that watch them.
"""

import json
import os
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from tpulite.arch.config import Config
from tpulite.arch.isa import ENGINE_OF, Command, Engine, Opcode
from tpulite.arch.registers import Fault
from tpulite.golden.machine.dram import Dram
from tpulite.golden.machine.machine import Execution, Machine
from tpulite.runtime.device import Job
from tpulite_tb.coverage.crosses import FAULTS, new_crosses
from tpulite_tb.coverage.executed import SampledDatapath

__all__ = ["Functional"]

_FOLDER = "TPULITE_FUNCTIONAL"
"""Variable that names where processes keep what they have seen."""


class Functional:
    """Samples runs.

    Attributes
    ----------
    crosses : dict of str to Cross
        What was seen, by title.
    """

    def __init__(self) -> None:
        self.crosses = new_crosses()

    @classmethod
    def wanted(cls) -> "Functional | None":
        """Return what this process samples into, if ``$TPULITE_FUNCTIONAL`` names a folder."""
        return _of_this_process() if _FOLDER in os.environ else None

    def keep(self) -> None:
        """Write what this process has seen into the folder of ``$TPULITE_FUNCTIONAL``."""
        rows = {title: cross.counts() for title, cross in self.crosses.items()}
        path = Path(os.environ[_FOLDER]) / f"{os.getpid()}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(rows))

    @classmethod
    def merged(cls, folder: Path) -> "Functional":
        """Return the sum of what processes have kept in a folder."""
        whole = cls()
        for path in folder.glob("*.json"):
            for title, rows in json.loads(path.read_text()).items():
                cross = whole.crosses[title]
                for point, times in rows:
                    cross.hit(times=times, **dict(zip(cross.axes, point, strict=True)))
        return whole

    def program(
        self, commands: Sequence[Command | Fault], config: Config, job: Job, dram: Dram
    ) -> Execution:
        """Execute a program on the golden machine, and sample what it does.

        Parameters
        ----------
        commands : sequence of Command or Fault
            The program; a fault stands for a command that does not decode.
        config : Config
            The machine.
        job : Job
            Where the program and its windows lie.
        dram : Dram
            The memory, which is changed.
        """
        machine = Machine(config)
        machine.datapath = SampledDatapath(config, self.crosses)
        done = machine.run(
            commands, job.windows, dram, strict=False, program_address=job.program_address
        )
        executed = [x for x in commands[: done.index + 1] if isinstance(x, Command)]
        for first, second in pairwise(executed):
            self.crosses["commands back to back"].hit(
                first=first.opcode.name, second=second.opcode.name, token=_token(first, second)
            )
        if done.fault is not None:
            code, command = done.fault.code, commands[min(done.index, len(commands) - 1)]
            named = FAULTS[code] != ("any",) and isinstance(command, Command)
            opcode = command.opcode.name if named else "any"
            self.crosses["faults"].hit(code=code.name, opcode=opcode)
        return done

    def waits(self, waits: Mapping[tuple[str, int], int]) -> None:
        """Sample how many transfers of an AXI channel waited for so many edges; keep all."""
        cross = self.crosses["cycles that a transfer waits on AXI"]
        for (channel, edges), transfers in waits.items():
            text = str(edges) if edges < 2 else "2-7" if edges < 8 else ">7"
            cross.hit(times=transfers, channel=channel, edges=text)
        self.keep()


@cache
def _of_this_process() -> Functional:
    return Functional()


def _token(first: Command, second: Command) -> str:
    """Say whether a command waits for a token that the one before gives to its engine."""
    if second.opcode == Opcode.END:
        return "no"
    source, target = (Engine(ENGINE_OF[each.opcode]) for each in (first, second))
    return "yes" if first["signal"] >> target & 1 and second["wait"] >> source & 1 else "no"
