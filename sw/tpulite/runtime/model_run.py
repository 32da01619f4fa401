"""Running a network: segments of the host by numpy, segments of the machine by sessions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tpulite.arch.memory import PAGE_BYTES
from tpulite.program import Program
from tpulite.quant.partition import MachineSegment
from tpulite.runtime.device import Device, open_device
from tpulite.runtime.host_ops import run_node
from tpulite.runtime.results import Results
from tpulite.runtime.session import Session

if TYPE_CHECKING:
    from tpulite.runtime.model import Model

__all__ = ["ModelResults", "Runner", "join_runs"]

_MEGABYTE = 1 << 20

Values = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class ModelResults:
    """Outputs and account of one or many runs.

    Parameters
    ----------
    outputs : mapping of str to ndarray, [count * batch, ...]
        Outputs by name, in the file's shapes and dtypes.
    segments : tuple of tuple of Results
        For each input, what each segment of the machine gave.
    tensors : mapping of str to ndarray
        If they were asked for: all tensors that host and machine computed, like outputs.
    """

    outputs: Mapping[str, np.ndarray]
    segments: tuple[tuple[Results, ...], ...]
    tensors: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def output(self) -> np.ndarray:
        """The only output."""
        (output,) = self.outputs.values()
        return output

    @property
    def cycles(self) -> tuple[int, ...] | None:
        """Cycles of the machine for each input, if the device has a clock."""
        sums = []
        for results in self.segments:
            cycles = [result.cycles for result in results if result.cycles is not None]
            if not cycles or len(cycles) < len(results):
                return None
            sums.append(sum(cycles))
        return tuple(sums)


class Runner:
    """A model on a device: its programs lie in DRAM one after the other.

    Parameters
    ----------
    model : Model
        The network.
    device : str or Device
        A device of the model's configuration, or the name of one.
    tensors : bool
        Whether to keep all tensors; the machine then runs programs that store each of them, which
        take more cycles.

    Raises
    ------
    ValueError
        If there is no such device, or it is another machine or too small.
    """

    def __init__(self, model: "Model", device: str | Device, *, tensors: bool = False) -> None:
        self.model = model
        self.tensors = tensors
        programs = model.debug_programs() if tensors else model.compile().programs
        if isinstance(device, str):
            device = open_device(device, model.config, dram_bytes=_dram_bytes(programs))
        self.sessions: list[Session] = []
        base = 0
        for program in programs:
            self.sessions.append(Session(program, device, base=base))
            base = self.sessions[-1].end

    def record_traces(self, on: bool) -> None:
        """Let the device record what its engines do in the runs to come, if it can."""
        for session in self.sessions:
            if hasattr(session.device, "trace"):
                vars(session.device)["trace"] = on

    def run(self, inputs: Mapping[str, np.ndarray]) -> ModelResults:
        """Run one input.

        Parameters
        ----------
        inputs : mapping of str to ndarray
            Inputs in the graph's shapes and dtypes.

        Raises
        ------
        RuntimeError
            If the machine stops at a fault.
        """
        graph = self.model.graph
        values: Values = dict(inputs)
        results: list[Results] = []
        sessions = iter(self.sessions)
        for segment in self.model.segments:
            if isinstance(segment, MachineSegment):
                results.append(self._run_machine(next(sessions), values))
            else:
                for node in segment.nodes:
                    values |= run_node(node, graph, values, self.model.exactness)
        outputs = {name: self.model.value(name, values) for name in graph.outputs}
        return ModelResults(outputs, (tuple(results),), values if self.tensors else {})

    def _run_machine(self, session: Session, values: Values) -> Results:
        tensors = self.model.graph.tensors
        images = {
            spec.name: self.model.value(spec.name, values).reshape(spec.shape)
            for spec in session.program.inputs
        }
        results = session.run(images)
        if results.fault is not None:
            raise RuntimeError(f"{self.model.graph.name} stopped at {results.fault}")
        for name, image in results.outputs.items():
            if name in tensors:
                values[name] = image.reshape(tensors[name].shape)
        return results


def join_runs(runs: Sequence[ModelResults]) -> ModelResults:
    """Join runs of single inputs, in order."""

    def join(parts: Sequence[Mapping[str, np.ndarray]]) -> Values:
        return {name: np.concatenate([np.atleast_1d(p[name]) for p in parts]) for name in parts[0]}

    return ModelResults(
        join([run.outputs for run in runs]),
        tuple(results for run in runs for results in run.segments),
        join([run.tensors for run in runs]),
    )


def _dram_bytes(programs: Sequence[Program]) -> int:
    """Return enough DRAM for all programs, windows beginning at pages."""
    total = _MEGABYTE
    for program in programs:
        sizes = (*program.window_bytes, len(program.encode()))
        total += sum(-(-size // PAGE_BYTES) * PAGE_BYTES for size in sizes)
    return -(-total // _MEGABYTE) * _MEGABYTE
