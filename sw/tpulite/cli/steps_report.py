"""What ``run --steps`` says: every matrix between input and output."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tpulite.atomic import write_whole
from tpulite.cli.common import is_stdout, say
from tpulite.runtime.model_plan import PlannedModel
from tpulite.runtime.model_steps import Step, run_steps

_FIRST = 3
"""Values that are printed; a file has all."""


@dataclass(frozen=True, eq=False)
class StepsReport:
    """Steps of a run."""

    steps: Sequence[Step]  #: The matrices.
    inputs: np.ndarray  #: Ndarray, [inputs, channels]. What they begin with.
    output: np.ndarray  #: What the compiled network gave for the same inputs.
    device: str  #: Where both ran.

    @classmethod
    def of(
        cls, model: PlannedModel, inputs: np.ndarray, output: np.ndarray, device: str
    ) -> "StepsReport":
        """Run the steps; errors are those of :func:`tpulite.runtime.model_steps.run_steps`."""
        rows = inputs.reshape(-1, inputs.shape[-1])
        return cls(run_steps(model, inputs, device), rows, output, device)

    @property
    def wrong(self) -> list[str]:
        """Return the steps that are not numpy's, and the last one if it is not the output."""
        names = [step.name for step in self.steps if step.different]
        last = self.steps[-1]
        if not np.array_equal(last.values, self.output.reshape(last.values.shape)):
            names.append(f"{last.name} as the output")
        return names

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        steps = [
            {
                "name": step.name,
                "formula": step.formula,
                "shape": list(step.values.shape),
                "dtype": step.values.dtype.name,
                "min": int(step.values.min()),
                "max": int(step.values.max()),
                "different": step.different,
            }
            for step in self.steps
        ]
        return {"steps": steps}

    def save(self, path: Path) -> None:
        """Write all matrices by name, and the input as x (.npz), unless the path is ``-``."""
        if is_stdout(path):
            return
        arrays = {"x": self.inputs} | {step.name: step.values for step in self.steps}

        def save(temporary: Path) -> None:
            with temporary.open("wb") as file:
                np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

        write_whole(path, save)

    def print(self, console: Console) -> None:
        """Print a row for each step, and how they were checked.

        RuntimeError if a step is not what numpy computes, or the last one not the output.
        """
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for column in ("step", "formula", "shape", "type"):
            table.add_column(column, no_wrap=True)
        for column in ("min", "max"):
            table.add_column(column, justify="right", no_wrap=True)
        table.add_column("first values", justify="right")  # which alone gives way
        for step in self.steps:
            values = step.values
            words = " ".join(f"{x}" for x in values.reshape(-1)[:_FIRST])
            first = Text(words, no_wrap=True, overflow="ellipsis")
            shape = "x".join(map(str, values.shape))
            ends = (f"{values.min():,}", f"{values.max():,}")
            table.add_row(step.name, step.formula, shape, values.dtype.name, *ends, first)
        console.print(table)
        if self.wrong:
            raise RuntimeError(f"steps {', '.join(self.wrong)} differ from numpy on {self.device}")
        last = self.steps[-1].name
        text = f"{len(self.steps)} steps on {self.device}: every element equals numpy's; "
        say(console, f"{text}{last} is the output")
