"""The main job: handwritten digits through the three-layer network, on any device with a clock."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tpulite.compiler.options import Options
from tpulite.models import MLP_DIGITS, DigitsTest
from tpulite.program import Program
from tpulite.runtime.device import Device
from tpulite.runtime.model import Model
from tpulite.runtime.session import Results, Session

__all__ = ["BATCH", "STREAM_BATCHES", "Account", "DigitsRun", "run_digits"]

BATCH = 16
"""Images of a batch."""

OUTPUTS = 16
"""Channels of the last layer."""

STREAM_BATCHES = 16
"""Batches of the program that measures cycles per batch."""


@dataclass(frozen=True)
class Account:
    """A program and what its run gave."""

    program: Program
    results: Results


@dataclass
class DigitsRun:
    """Everything that the job has found out."""

    images: int  #: Images that were classified.
    cold: Account  #: One batch, everything in DRAM at the start.
    warm: Account  #: One batch with the weights in the unified buffer: the slowest of all that ran.
    stream: Account | None  #: :data:`STREAM_BATCHES` batches in one program.
    outputs: np.ndarray  #: Ndarray of int8, [images, 16]. Outputs of the images in order.
    #: Runs in which a bit differs from the exact result.
    differences: list[str] = field(default_factory=list)
    #: Simulated cycles and the time that the device took for them.
    cycles: int = 0
    seconds: float = 0.0


def run_digits(
    device: Device,
    *,
    batches: int,
    stream: bool,
    prepare: Callable[[Session], None] = lambda session: None,
    progress: Callable[[int], None] = lambda batches: None,
) -> DigitsRun:
    """Compile the network and classify test images.

    The first batch runs cold. The others run with resident weights, after a program that loads
    them. If ``stream``, the first 16 batches then run once more, in one program.

    Parameters
    ----------
    device : Device
        A device whose results have counters.
    batches : int
        Batches of 16 test images, at least 2.
    stream : bool
        Whether to run the program of 16 batches.
    prepare : callable
        Called with each session before its first run.
    progress : callable
        Called after each run with the number of batches that it had.

    Raises
    ------
    RuntimeError
        If a run ends in a fault.
    """
    model = Model.load(MLP_DIGITS, config=device.config, options=Options(batch=BATCH))
    images = DigitsTest.load().images[: batches * BATCH]
    expected = model.reference(images)["output"]
    differences: list[str] = []
    cycles, seconds = 0, 0.0

    def run(session: Session, name: str, part: slice) -> Account:
        nonlocal cycles, seconds
        started = time.perf_counter()
        (spec,) = session.program.inputs
        results = session.run(images[part].reshape(spec.shape))
        seconds += time.perf_counter() - started
        if results.fault is not None:
            raise RuntimeError(f"The {name} ended in {results.fault}")
        cycles += results.counters["cycles"]
        if not np.array_equal(results.output.reshape(-1, OUTPUTS), expected[part]):
            differences.append(name)
        progress(len(results.output) // BATCH)
        return Account(session.program, results)

    def batch(index: int) -> slice:
        return slice(index * BATCH, (index + 1) * BATCH)

    def session(program: Program, base: int = 0) -> Session:
        result = Session(program, device, base=base)
        prepare(result)
        return result

    (single,) = model.programs
    loading, resident = model.with_options(Options(batch=BATCH, resident=True)).programs

    cold = run(session(single), "cold batch 0", batch(0))
    first = session(loading)
    run(first, "loading batch 1", batch(1))
    second = session(resident, first.end)
    warm = [run(second, f"warm batch {i}", batch(i)) for i in range(1, batches)]
    outputs = np.concatenate(
        [account.results.output.reshape(-1, OUTPUTS) for account in (cold, *warm)]
    )
    streamed = None
    if stream:
        (program,) = model.with_options(Options(batch=STREAM_BATCHES * BATCH)).programs
        streamed = run(session(program), "stream", slice(STREAM_BATCHES * BATCH))
    slowest = max(warm, key=lambda account: account.results.counters["cycles"])
    return DigitsRun(len(images), cold, slowest, streamed, outputs, differences, cycles, seconds)
