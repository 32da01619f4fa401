"""What each mechanism of the compiler is worth: every one of them off, one at a time."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from tpulite.bench.models import ARCHITECTURES
from tpulite.bench.run import dram_bytes
from tpulite.bench.workload import MakeWorkload
from tpulite.bench.workloads import find_workload
from tpulite.compiler.options import Options
from tpulite.runtime.device import Device

_BASE = Options(without=("choose-bound",))
"""A bound program is not taken without a mechanism, so it would hide what that is worth."""

MECHANISMS = {
    "layer groups": "grouping",
    "rolling buffers": "rolling",
    "prefetch": "prefetch",
    "block-level start": "block_start",
    "interleaved depthwise": "interleaved",
    "dense mode": "dense_mode",
    "dead channel removal": "simplify",
}
"""Options of the compiler that are turned off, by what they stand for."""

ABLATED = (
    "conv3x3_32x32x3_to_16",
    "conv3x3_32x32x32_to_32",
    "dwconv3x3_56x56x16_x8",
    "resnet8",
    "kws",
    "vww",
    *ARCHITECTURES,
)
"""Workloads that show every mechanism."""


@dataclass(frozen=True)
class Ablation:
    """A workload with one mechanism off."""

    workload: str  #: Its name.
    off: str | None  #: The mechanism of :data:`MECHANISMS` that is off; None if all are on.
    same: bool  #: Whether the program is that with everything on: the mechanism has no part in it.
    cycles: int | None  #: Cycles; None where the device has no clock.
    #: Bytes that moved between the chip and DRAM, commands included.
    dram_read_bytes: int | None
    dram_written_bytes: int | None
    commands: int  #: Commands of the programs.
    bit_exact: bool  #: Whether the result is the exact one, bit for bit.
    device: str  #: Where it ran.


def run_ablation(
    names: Iterable[str],
    device: Device,
    *,
    device_name: str,
    memory: str = _BASE.memory,
    tell: Callable[[str], object] = lambda text: None,
) -> Iterator[Ablation]:
    """Run workloads with everything on, then with each mechanism off.

    Programs that are the same run once.

    Parameters
    ----------
    memory : str
        DRAM that programs are made for; the device must have it, too.
    tell : callable
        Called with a line of text before each step.

    Yields
    ------
    Ablation
        1 + len(MECHANISMS) a workload, that with everything on first.

    Raises
    ------
    ValueError
        If a name is unknown; nothing has run then.
    """
    makes, options = {name: find_workload(name) for name in names}, replace(_BASE, memory=memory)
    return (
        ablation
        for name, make in makes.items()
        for ablation in _ablate(name, make, device, device_name, options, tell)
    )


def _ablate(
    name: str,
    make: MakeWorkload,
    device: Device,
    device_name: str,
    options: Options,
    tell: Callable[[str], object],
) -> Iterator[Ablation]:
    workload = make(device.config)
    tell(name)
    base = workload.compile(options)
    whole = None
    for off, option in {None: None, **MECHANISMS}.items():
        tell(f"{name} without {off}" if off else name)
        programs = workload.compile(replace(options, **{option: False})) if option else base
        if whole is not None and programs == base:
            yield replace(whole, off=off, same=True)
            continue
        outcome = workload.run(programs, device)
        read, written = dram_bytes(outcome)
        result = Ablation(
            workload=name,
            off=off,
            same=False,
            cycles=outcome.cycles,
            dram_read_bytes=read,
            dram_written_bytes=written,
            commands=sum(len(program.commands) for program in programs),
            bit_exact=outcome.exact,
            device=device_name,
        )
        whole = whole or result
        yield result
