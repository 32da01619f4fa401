"""A device whose results are the golden machine's and whose clock is the cycle model's."""

from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES, Config
from tpulite.arch.isa import Command
from tpulite.arch.memory import REFERENCE_MEMORY, MemoryTiming
from tpulite.golden.effects.footprint import decode_commands
from tpulite.golden.timing import predict_cycles
from tpulite.program import Program
from tpulite.report.traffic import dram_traffic
from tpulite.runtime.device import Job, RunResult
from tpulite.runtime.golden_device import GoldenDevice


class ModelDevice(GoldenDevice):
    """The golden machine with predicted counters: ``cycles``, ``read_beats``, ``write_beats``.

    Programs of minutes on the Verilated chip take seconds. How far the cycles are off is in
    ``docs/decisions/0004-the-cycle-model.md``; the beats are exact.
    """

    def __init__(
        self,
        config: Config,
        *,
        dram_bytes: int = 1 << 26,
        timing: MemoryTiming = REFERENCE_MEMORY,
    ) -> None:
        super().__init__(config, dram_bytes=dram_bytes)
        self._timing = timing

    def run(self, job: Job) -> RunResult:
        """Run a program to its END or its fault; after a fault nothing is predicted."""
        result = super().run(job)
        if result.fault is not None:
            return result
        data = self.read(job.program_address, COMMAND_BYTES * job.program_length)
        decoded = decode_commands(data.tobytes())
        commands = tuple(command for command in decoded if isinstance(command, Command))
        traffic = dram_traffic(Program(self.config, commands))
        counters = {
            "cycles": predict_cycles(commands, self.config, self._timing),
            "read_beats": traffic.read_bytes // BEAT_BYTES,
            "write_beats": traffic.written_bytes // BEAT_BYTES,
        }
        return RunResult(counters=counters)
