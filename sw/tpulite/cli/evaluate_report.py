"""What ``evaluate`` says: accuracy, a table of confusions, agreement with a library."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from tpulite.cli.common import say, show
from tpulite.cli.labelled import DataSet, count_classes
from tpulite.counted import counted
from tpulite.evaluate.evaluation import Answers, Score
from tpulite.evaluate.network import RANKS, of_one_image
from tpulite.report.name_cell import NameCell
from tpulite.runtime.model import Model

_FEW = 10
"""Classes of which a table holds every pair, in 80 columns; of more, so many worst confusions."""

_MANY = 100
"""Classes of which the record holds every pair; of more only what was mistaken."""


@dataclass(frozen=True, eq=False)
class EvaluateReport:
    """What came of an evaluation."""

    model: Model  #: The network.
    device: str  #: Where it ran.
    oracle: str | None  #: The library that it was compared with.
    data: DataSet  #: The images.
    answers: Answers  #: What it answered to the first of them.
    names: Sequence[str] = ()  #: Names of the classes, if they are known.

    @cached_property
    def score(self) -> Score | None:
        """How right it is, if classes are known."""
        labels = self.data.labels
        if labels is None:
            return None
        classes, images = count_classes(of_one_image(self.model.graph)), self.answers.images
        return Score.of(images, labels[: len(images)], classes)

    @property
    def answered(self) -> int:
        """How many images have answers."""
        return sum(bool(image) for image in self.answers.images)

    @property
    def whole(self) -> bool:
        """Whether every image has an answer, with a library's bits if one was asked for."""
        return not self.answers.failures and self._agreeing("equal") in (None, self.answered)

    def _agreeing(self, name: str) -> int | None:
        """Return of how many images outputs are ``equal``, or classes the ``same``."""
        if self.oracle is None:
            return None
        return sum(image.get(name, False) for image in self.answers.images)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        score = self.score
        return {
            "network": self.model.graph.name,
            "exactness": str(self.model.exactness),
            "device": self.device,
            "images": len(self.answers.images),
            "answered": self.answered,
            "right": None if score is None else score.right,
            f"among_{RANKS}": score.among if score is not None and score.has_ranks else None,
            "accuracy": None if not score or not score.count else score.right / score.count,
            "names": list(self.names),
            "table": score.table.tolist() if score and len(score.table) <= _MANY else None,
            "confusions": [] if score is None else [vars(each) for each in score.confusions()],
            "oracle": self.oracle,
            "equal": self._agreeing("equal"),
            "same_class": self._agreeing("same"),
            "cycles": list(self.answers.cycles),
            "failures": dict(self.answers.failures),
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each image."""
        rows = []
        for number, image in enumerate(self.answers.images):
            labels, ranked = self.data.labels, image.get("ranked")
            rows.append(
                {
                    "image": self.data.names[number],
                    "class": None if labels is None else int(labels[number]),
                    "answer": None if ranked is None else ranked[0],
                    "equal": image.get("equal"),
                }
            )
        return rows

    def print(self, console: Console) -> None:
        """Print all of it."""
        if self.score is not None and self.score.count:
            small = len(self.score.table) <= _FEW
            if small or self.score.confusions():
                show(console, self._table(self.score) if small else self._worst(self.score))
        for line in self._lines():
            say(console, line)

    def _table(self, score: Score) -> Table:
        """Return a row for each class: what its images are taken for."""
        table = Table(box=box.SIMPLE, title="confusion matrix, a row per true class")
        table.add_column("")
        for number in range(len(score.table)):
            table.add_column(str(number), justify="right", no_wrap=True)
        table.add_column("correct", justify="right", no_wrap=True)
        for number, row in enumerate(score.table.tolist()):
            counts = (f"{each:,}" if each else "" for each in row)
            right = f"{row[number] / sum(row):.1%}" if sum(row) else ""
            table.add_row(NameCell(self._name(number)), *counts, right)
        return table

    def _worst(self, score: Score) -> Table:
        """Return the most frequent confusions."""
        table = Table(box=box.SIMPLE, title="most frequent confusions")
        table.add_column("true class")
        table.add_column("predicted")
        for column in ("images", "of"):
            table.add_column(column, justify="right", no_wrap=True)
        for each in score.confusions()[:_FEW]:
            names = (NameCell(self._name(number)) for number in (each.label, each.answer))
            table.add_row(*names, f"{each.images:,}", f"{score.table[each.label].sum():,}")
        return table

    def _name(self, number: int) -> str:
        return f"{number} {self.names[number]}" if self.names else str(number)

    def _lines(self) -> Iterator[str]:
        yield self.model.statement()
        score, answered = self.score, self.answered
        if score is not None and score.count:
            text = f"accuracy: {score.right / score.count:.2%} of {counted(score.count, 'image')}"
            if score.has_ranks:
                text += f"; top-{RANKS} {score.among / score.count:.2%}"
            yield f"{text}; on {self.device}"
        if self.oracle is not None:
            equal, same = self._agreeing("equal"), self._agreeing("same")
            yield (
                f"compared with {self.oracle}: bit-exact outputs for {equal:,} of {answered:,} "
                f"images, same class for {same:,}"
            )
        if cycles := self.answers.cycles:
            spread = f"{cycles[0]:,}" if len(cycles) == 1 else f"{cycles[0]:,} to {cycles[-1]:,}"
            yield f"{spread} cycles per run"
        for reason, images in self.answers.failures.items():
            yield f"no result for {counted(images, 'image')}: {reason}"
