"""Inputs and what they give, for firmware to compare with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tpulite.arch.config import COMMAND_BYTES, Config
from tpulite.arch.memory import Window
from tpulite.export.c_text import array
from tpulite.export.network import ExportedNetwork
from tpulite.program import Program
from tpulite.quant.partition import HostSegment
from tpulite.runtime.device import Job, RunResult
from tpulite.runtime.golden_device import GoldenDevice
from tpulite.runtime.model import Model
from tpulite.runtime.model_run import Runner, dram_bytes


@dataclass(frozen=True, eq=False)
class References:
    """Inputs and outputs of one run."""

    #: By name, [batch, *shape].
    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]
    #: What programs of the chip have read and written, in the order of the run.
    runs: tuple["RecordedRun", ...]

    def has_run(self, programs: Sequence[Program]) -> bool:
        """Return whether the programs that were recorded are these, in this order."""
        return [program.encode() for program in programs] == [run.commands for run in self.runs]


@dataclass(frozen=True)
class RecordedRun:
    """A run of a program: its commands, the input window before and the output window behind."""

    commands: bytes
    read: bytes
    written: bytes


class _Recorder(GoldenDevice):
    """A golden machine that records its runs."""

    def __init__(self, config: Config, dram_bytes: int) -> None:
        super().__init__(config, dram_bytes=dram_bytes)
        self.runs: list[RecordedRun] = []

    def run(self, job: Job) -> RunResult:
        """Run a program and keep what it reads and writes."""
        commands = self.read(job.program_address, COMMAND_BYTES * job.program_length).tobytes()
        read = self._window(job, Window.INPUT)
        result = super().run(job)
        self.runs.append(RecordedRun(commands, read, self._window(job, Window.OUTPUT)))
        return result

    def _window(self, job: Job, window: Window) -> bytes:
        bound = job.windows[window]
        return self.read(bound.base, bound.size).tobytes()


def reference_runs(
    model: Model, inputs: Mapping[str, np.ndarray], exported: Model | None = None
) -> References:
    """Run inputs on the golden machine.

    Where C needs other programs, as a library computes more of the network in one part than C does,
    these are recorded in a second run; the outputs are those of the library.

    Parameters
    ----------
    inputs : mapping of str to ndarray
        By name, [count, *shape]; a batch that lacks some takes the last one again.
    exported : Model, optional
        The network as C computes it, if that is another: :meth:`Model.without_library`. Nothing is
        recorded of it if its file lacks a tensor that the library would have to hand over.
    """
    references = _run(model, inputs)
    if exported is None or references.has_run(exported.programs):
        return references
    runs = _run(exported, inputs).runs if _can_run(exported) else ()
    return replace(references, runs=runs)


def _can_run(model: Model) -> bool:
    """Return whether each part for a library lies between tensors of the file."""
    if model.graph.source is None:
        return True
    origins = model.graph.source.origins
    return all(
        name in origins
        for segment in model.segments
        if isinstance(segment, HostSegment) and segment.library == model.graph.format
        for name in (*segment.inputs, *segment.outputs)
    )


def _run(model: Model, inputs: Mapping[str, np.ndarray]) -> References:
    """Run inputs once, and record what programs read and write."""
    recorder = _Recorder(model.config, dram_bytes(model.programs))
    runner = Runner(model, recorder)
    counts = len(next(iter(inputs.values())))
    chosen = [min(i, counts - 1) for i in range(runner.batch)]
    each = [{name: values[i, ...] for name, values in inputs.items()} for i in chosen]
    results = runner.run(*each)
    given = {name: values[chosen] for name, values in inputs.items()}
    return References(given, results.outputs, tuple(recorder.runs))


def selftest_text(network: ExportedNetwork, references: References, name: str) -> str:
    """Return the source of the self-test: inputs of a first run, and results to compare with."""
    graph = network.graph
    parts = [f"/* Reference inputs and outputs of {name}, and what runs them. */\n"]
    parts.append(f'#include "{name}.h"\n\n')
    tables = {
        "inputs": [references.inputs[tensor] for tensor in graph.inputs],
        "expected": [references.outputs[tensor] for tensor in graph.outputs],
    }
    for what, values in tables.items():
        for index, value in enumerate(values):
            ctype = "float" if value.dtype == np.float32 else f"{value.dtype}_t"
            parts.append(f"static {array(ctype, f'{what}_{index}', value)}\n")
        names = ", ".join(f"{what}_{index}" for index in range(len(values)))
        parts.append(f"static const void *const {what}[] = {{{names}}};\n\n")
    # Unions align them as any element wants.
    sizes = [values.nbytes for values in tables["expected"]]
    for index, size in enumerate(sizes):
        parts.append(f"static union {{uint8_t bytes[{size}]; int64_t one;}} output_{index};\n")
    names = ", ".join(f"&output_{index}" for index in range(len(sizes)))
    parts.append(f"void *const {name}_outputs[] = {{{names}}};\n")
    listed = ", ".join(f"{size}u" for size in sizes)
    parts.append(f"static const uint32_t sizes[] = {{{listed}}};\n")
    parts.append(_SELFTEST.format(name=name, count=len(sizes)))
    return "".join(parts)


_SELFTEST = """
tpulite_status {name}_selftest(const tpulite_placement *placement, uint32_t *wrong,
    tpulite_account *account)
{{
    *wrong = 0;
    tpulite_network_reset(&{name}_network, placement);
    tpulite_status status = tpulite_network_check(&{name}_network, placement);
    if (status == TPULITE_OK)
        status = tpulite_network_run(&{name}_network, placement, inputs, {name}_outputs, account);
    for (uint32_t i = 0; status == TPULITE_OK && i < {count}; i++) {{
        const uint8_t *is = {name}_outputs[i], *must_be = expected[i];
        for (uint32_t j = 0; j < sizes[i]; j++)
            *wrong += is[j] != must_be[j];
    }}
    return status;
}}
"""
