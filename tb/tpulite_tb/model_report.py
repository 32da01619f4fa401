"""What a simulated run of a network prints and writes."""

from dataclasses import dataclass

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tpulite.report.profile import profile_runs
from tpulite.report.traced_run import TracedRun
from tpulite.runtime.model import Model
from tpulite.runtime.model_run import ModelResults

__all__ = ["ModelRun", "as_json", "print_model_report", "show_image", "told_classes"]


_SHADES = " .:-=+*#%@"

_TOLD = 10
"""Images whose classes are told."""


@dataclass(frozen=True, eq=False)
class ModelRun:
    """Images through a network under a simulator."""

    name: str  #: Name of the network.
    model: Model  #: The network.
    images: np.ndarray  #: Ndarray, [n, ...]. Inputs.
    results: ModelResults  #: What the chip gave.
    differences: int  #: Elements of the outputs that differ from the golden model.
    seconds: float  #: Time of the simulation.
    labels: np.ndarray | None = None  #: Ndarray, [n]. Classes of the images.

    @property
    def classes(self) -> np.ndarray:
        """The class of each image: the largest of its outputs."""
        return self.results.output.reshape(len(self.images), -1).argmax(axis=1)


def as_json(run: ModelRun, simulator: str) -> dict:
    """Return the figures of a run."""
    cycles = run.results.cycles or ()
    programs = run.model.programs
    return {
        "network": run.name,
        "simulator": simulator,
        "exact": run.model.exactness.value,
        "images": len(run.images),
        "bit_exact": not run.differences,
        "accuracy": _accuracy(run),
        "macs": sum(program.macs for program in programs),
        "cycles": list(cycles),
        "cycles_per_second": sum(cycles) / run.seconds,
        "counters": [dict(results.counters) for results in run.results.segments[0]],
    }


def print_model_report(run: ModelRun, simulator: str, console: Console) -> None:
    """Print the account of the first image layer by layer, and the figures of the run."""
    figures = as_json(run, simulator)
    pairs = zip(run.model.programs, run.results.segments[0], strict=True)
    runs = [TracedRun.of(program, results, simulator) for program, results in pairs]
    console.print(profile_runs(run.model, runs, simulator))
    size = run.model.config.array_size**2
    cycles = figures["cycles"][0]
    table = Table(
        title=f"{len(run.images)} inputs on {simulator}", show_header=False, box=SIMPLE_HEAD
    )
    table.add_row("numerics", run.model.exactness.value)
    table.add_row("bit-exact with the golden model", "yes" if figures["bit_exact"] else "NO")
    if figures["accuracy"] is not None:
        table.add_row("accuracy", f"{figures['accuracy']:.2%}")
    if run.labels is not None:
        table.add_row("classes of the first inputs", told_classes(run.classes, run.labels))
    table.add_row(f"cycles per input (lower bound {figures['macs'] // size:,})", f"{cycles:,}")
    table.add_row("utilization", f"{figures['macs'] / (size * cycles):.1%}")
    table.add_row("simulated cycles", f"{sum(figures['cycles']):,} in {run.seconds:.1f} s")
    console.print(table)
    if run.differences:
        console.print(f"{run.differences} elements of the outputs differ", style="bold red")


def told_classes(classes: np.ndarray, labels: np.ndarray) -> str:
    """Return the first ten classes in a line; beside a wrong one stands the right one.

    Examples
    --------
    >>> told_classes(np.array([7, 2, 9]), np.array([7, 2, 4]))
    '7, 2, 9 (is 4)'
    """
    pairs = list(zip(classes.tolist(), labels.tolist(), strict=False))[:_TOLD]
    return ", ".join(f"{seen} (is {due})" if seen != due else str(seen) for seen, due in pairs)


def show_image(image: np.ndarray, console: Console) -> None:
    """Print an image [height, width, 1 or 3] of any dtype, two rows of pixels a line of text.

    A terminal shows colors; elsewhere the light is told by characters.
    """
    low, high = float(image.min()), float(image.max())
    light = np.clip((image.astype(float) - low) / max(high - low, 1e-9), 0, 1)
    if len(light) % 2:
        light = np.concatenate([light, light[-1:]])
    if not console.is_terminal:
        for row in light[::2].mean(axis=2):
            steps = (row * (len(_SHADES) - 1)).round().astype(int)
            console.print("".join(_SHADES[step] for step in steps), markup=False, highlight=False)
        return
    colors = np.broadcast_to((light * 255).astype(int), (*light.shape[:2], 3))
    for upper, lower in zip(colors[::2], colors[1::2], strict=True):
        line = Text()
        for top, bottom in zip(upper, lower, strict=True):
            line.append("▀", f"rgb({_rgb(top)}) on rgb({_rgb(bottom)})")
        console.print(line)


def _rgb(color: np.ndarray) -> str:
    return ",".join(str(int(value)) for value in color)


def _accuracy(run: ModelRun) -> float | None:
    return None if run.labels is None else float((run.classes == run.labels).mean())
