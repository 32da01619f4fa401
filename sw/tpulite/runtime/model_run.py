"""Running a network: segments of the host by numpy or libraries, of the machine by sessions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tpulite.arch.memory import PAGE_BYTES
from tpulite.compiler.rewrite.simplify.network import Simplified
from tpulite.layout.int16 import join_int16, split_int16
from tpulite.program import Program
from tpulite.quant.partition import MachineSegment
from tpulite.runtime.device import Device, Watched, open_device
from tpulite.runtime.model_plan import PlannedModel
from tpulite.runtime.session import Results, Session
from tpulite.runtime.states import States

_MEGABYTE = 1 << 20

Values = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False, repr=False)
class ModelResults:
    """Outputs and account of one or many runs.

    Parameters
    ----------
    outputs : mapping of str to ndarray, [count * batch, ...]
        Outputs by name, in the file's shapes and dtypes.
    segments : tuple of tuple of Results
        For each run of the machine, what each of its segments gave: one run an input, or one for
        ``batch`` of them. Their outputs are as the machine stores them, surplus images included.
    tensors : mapping of str to ndarray
        If they were asked for: tensors that host and machine computed, like outputs.
    batch : int
        Inputs of a run.
    class_count : int, optional
        How many values of the only output are classes, the first ones; all of them by default.
    """

    outputs: Mapping[str, np.ndarray]
    segments: tuple[tuple[Results, ...], ...]
    tensors: Mapping[str, np.ndarray] = field(default_factory=dict)
    batch: int = 1
    class_count: int | None = None

    def __repr__(self) -> str:
        shapes = ", ".join(
            f"{name!r}: {values.dtype}{list(values.shape)}" for name, values in self.outputs.items()
        )
        cycles = "" if self.cycles is None else f", {sum(self.cycles):,} cycles"
        return f"<ModelResults {shapes}{cycles}>"

    @property
    def output(self) -> np.ndarray:
        """The only output."""
        (output,) = self.outputs.values()
        return output

    @property
    def classes(self) -> np.ndarray:
        """The answer to each input: the class with the largest value, of equal ones the first."""
        values = self.output.reshape(len(self.output), -1)
        return values[:, : self.class_count].argmax(axis=1)

    @property
    def cycles(self) -> tuple[int, ...] | None:
        """Cycles of the machine for each run of ``batch`` inputs, if the device has a clock.

        A last run that lacks inputs takes as long as the others: it computes one of them again.
        """
        sums = []
        for results in self.segments:
            cycles = [result.cycles for result in results if result.cycles is not None]
            if not cycles or len(cycles) < len(results):
                return None
            sums.append(sum(cycles))
        return tuple(sums)


class Runner:
    """A model on a device: its programs lie in DRAM one after the other.

    Programs of a batch take several inputs a run; segments of the host take them one by one.

    Parameters
    ----------
    device : str or Device
        A device of the model's configuration, or the name of one.
    tensors : bool
        Whether to keep all tensors; the machine then runs programs that store each of them, which
        take more cycles.
    keep : bool
        Whether to keep the tensors that the programs users run leave in DRAM, and those between
        host and machine.
    state : States, optional
        Where what the network keeps from run to run is; by default a place of its own.
    behind : Runner, optional
        Another one on the same device, behind whose programs these lie; equal ones are there once.

    Attributes
    ----------
    batch : int
        Inputs that a run takes at once; 1 for networks with states.
    end : int
        First address in DRAM behind the programs.

    Raises
    ------
    ValueError
        If there is no such device, or it is another machine or too small.
    """

    def __init__(
        self,
        model: PlannedModel,
        device: str | Device,
        *,
        tensors: bool = False,
        keep: bool = False,
        state: States | None = None,
        behind: "Runner | None" = None,
    ) -> None:
        self.model = model
        self.state = States(model.graph) if state is None else state
        self.tensors = tensors
        self._keep = keep or tensors
        programs = model.debug_programs() if tensors else model.programs
        self.batch = max((program.batch for program in programs), default=1)
        if isinstance(device, str):
            device = open_device(
                device, model.config, dram_bytes=dram_bytes(programs), timing=model.options.timing
            )
        self._simplified = model.simplified if tensors else tuple(map(Simplified, model.layers))
        # The first program loads what stays on chip; after it, until a run fails, the second runs.
        self._resident = model.options.resident and not tensors
        self._warm = False
        self.sessions: list[Session] = []
        self.end = 0 if behind is None else behind.end
        self._begins: dict[object, int] = {} if behind is None else {**behind._begins}
        for program in programs:
            begin = self._begins.setdefault(
                _content(program), self.end
            )  # equal ones lie there once
            self.sessions.append(Session(program, device, base=begin))
            self.end = max(self.end, self.sessions[-1].end)

    def _sessions(self) -> list[Session]:
        """Return the sessions of the next run."""
        if not self._resident:
            return self.sessions
        cold, warm = self.sessions
        return [warm if self._warm else cold]

    def record_traces(self, on: bool) -> None:
        """Let the device record what its engines do in the runs to come, if it can."""
        for session in self.sessions:
            session.record_traces(on)

    def watch(self, tell: Callable[[int], None]) -> None:
        """Let the device tell the cycles of each program's run that have passed, if it can."""
        for session in self.sessions:
            if isinstance(session.device, Watched):
                session.device.watch = tell

    def run(self, *inputs: Mapping[str, np.ndarray], outputs: bool = True) -> ModelResults:
        """Run the machine once, for one input or up to ``batch`` of them; states go on.

        Parameters
        ----------
        inputs : mapping of str to ndarray
            Each in the graph's shapes and dtypes. If there are fewer than ``batch``, the machine
            computes the last one again, and those results are dropped.
        outputs : bool
            Whether outputs are wanted; without, no segment runs behind the last one of a state.

        Raises
        ------
        ValueError
            If there is no input, or there are too many.
        RuntimeError
            If the machine stops at a fault.
        """
        if not 1 <= len(inputs) <= self.batch:
            raise ValueError(f"a run takes 1 to {self.batch} inputs, not {len(inputs)}")
        graph, hosts = self.model.graph, iter(self.model.plan.hosts)
        values: list[Values] = [self.state.given() | dict(one) for one in inputs]
        results: list[Results] = []
        parts = iter(zip(self._sessions(), self._simplified, strict=True))
        for segment in self.model.segments if outputs else self.model.kept_segments:
            if isinstance(segment, MachineSegment):
                results.append(self._run_machine(*next(parts), values))
            else:
                host = next(hosts)
                for one in values:
                    one |= host.run(one, tensors=self.tensors)
        wanted = graph.outputs if outputs else ()
        parts = [
            ModelResults(
                {name: self.model.value(name, one) for name in wanted},
                (),
                one if self._keep else {},
            )
            for one in values
        ]
        self._warm = self._resident
        self.state.keep(lambda name: self.model.value(name, values[0]))
        joined = join_runs(parts) if len(parts) > 1 else parts[0]
        return replace(
            joined, segments=(tuple(results),), batch=self.batch, class_count=graph.classes
        )

    def runs(
        self, inputs: Sequence[Mapping[str, np.ndarray]], *, reset: bool = False
    ) -> Iterator[ModelResults]:
        """Run any number of inputs, ``batch`` at a time; see :meth:`run`.

        With ``reset`` states begin anew before each run, so that inputs have nothing to do with
        each other; without, they are frames of one sequence.
        """
        for start in range(0, len(inputs), self.batch):
            if reset:
                self.state.reset()
            yield self.run(*inputs[start : start + self.batch])

    def _run_machine(
        self, session: Session, simplified: Simplified, values: list[Values]
    ) -> Results:
        tensors = self.model.graph.tensors
        filled = values + values[-1:] * (self.batch - len(values))
        images = {}
        for spec in session.program.inputs:
            each = [self.model.value(spec.name, one) for one in filled]
            each = [
                (split_int16(x) if x.dtype == np.int16 else x).reshape(spec.one.shape) for x in each
            ]
            images[spec.name] = each[0] if spec.batch == 1 else np.stack(each)
        results = session.run(images)
        if results.fault is not None:
            self._warm = False
            raise RuntimeError(f"{self.model.graph.name} stopped with {results.fault}")
        for name, computed in simplified.restore({**images, **results.outputs}).items():
            if name in tensors and name not in images:
                tensor = tensors[name]
                shape = (session.program.batch, *tensor.shape)
                each = as_dtype(computed, tensor.dtype).reshape(shape)
                for one, image in zip(values, each, strict=False):  # the surplus is dropped
                    one[name] = image
        return results


def as_dtype(values: np.ndarray, dtype: str) -> np.ndarray:
    """Return uint8 as the machine sees it, int8 with the top bit inverted, or the other way.

    Vectors of int16 are pairs of int8 there.
    """
    if dtype == "int16" and values.dtype == np.int8:
        return join_int16(values)
    if dtype == "int8" and values.dtype == np.int16:
        return split_int16(values)
    if values.dtype == dtype or {values.dtype.name, dtype} != {"int8", "uint8"}:
        return values
    return (values.view(np.uint8) ^ 0x80).view(dtype)


def join_runs(runs: Sequence[ModelResults]) -> ModelResults:
    """Join runs of the same batch, in order."""

    def join(parts: Sequence[Mapping[str, np.ndarray]]) -> Values:
        return {name: np.concatenate([np.atleast_1d(p[name]) for p in parts]) for name in parts[0]}

    return ModelResults(
        join([run.outputs for run in runs]),
        tuple(results for run in runs for results in run.segments),
        join([run.tensors for run in runs]),
        runs[0].batch,
        runs[0].class_count,
    )


def _content(program: Program) -> tuple[bytes, bytes, tuple[int, ...]]:
    """Return what a program has in DRAM before a run, and the bytes of its windows."""
    return program.encode(), program.constants, program.window_bytes


def dram_bytes(programs: Sequence[Program]) -> int:
    """Return enough DRAM for all programs, equal ones once, windows beginning at pages."""
    total = _MEGABYTE
    for program in {_content(program): program for program in programs}.values():
        sizes = (*program.window_bytes, len(program.encode()))
        total += sum(-(-size // PAGE_BYTES) * PAGE_BYTES for size in sizes)
    return -(-total // _MEGABYTE) * _MEGABYTE
