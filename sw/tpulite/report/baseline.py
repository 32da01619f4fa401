"""Baselines: what a network cost and how right it was, kept in a file to compare later runs with.

A figure gets worse, better, or stays. Figures are comparable only under the same conditions: the
same network, machine, numerics, options and data.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ElementTree, SubElement, indent

from tpulite.near import no_such

SCHEMA = 1
"""Version of the file: another one is refused."""

FIGURES = {
    "cycles": "cycles",
    "dram_bytes": "DRAM bytes",
    "cpu_macs": "MACs on the CPU",
    "buffer_peak_rows": "buffer rows at the peak",
    "accuracy": "accuracy",
}
"""Names of the figures, as files and options have them and as tables do."""

_HIGHER_IS_BETTER = ("accuracy",)

_DIGEST = 64
"""Characters of a SHA-256, of which messages show the first."""


class Verdict(StrEnum):
    """How a figure compares with the baseline; ``allowed`` is worse, but not by too much."""

    BETTER = "better"
    EQUAL = "equal"
    ALLOWED = "allowed"
    WORSE = "worse"


@dataclass(frozen=True)
class Allowance:
    """By how much a figure may be worse than the baseline."""

    value: float = 0.0  #: The amount.
    #: Whether it is percent of the baseline's figure; of accuracy, percentage points.
    percent: bool = False

    def of(self, name: str, figure: float) -> float:
        """Return the amount in the unit of a figure whose baseline is given."""
        if not self.percent:
            return self.value
        return self.value / 100 * (1 if name in _HIGHER_IS_BETTER else figure)

    def __str__(self) -> str:
        return f"{self.value:g}{'%' if self.percent else ''}"


@dataclass(frozen=True)
class Figure:
    """A figure of a run beside that of the baseline."""

    name: str  #: One of :data:`FIGURES`.
    #: Both figures.
    baseline: float
    found: float
    allowed: Allowance = Allowance()  #: By how much it may be worse.

    @property
    def title(self) -> str:
        """Its name in tables."""
        return FIGURES[self.name]

    @property
    def verdict(self) -> Verdict:
        """How it compares."""
        worse = self.found - self.baseline
        if self.name in _HIGHER_IS_BETTER:
            worse = -worse
        if worse <= 0:
            return Verdict.BETTER if worse else Verdict.EQUAL
        return (
            Verdict.ALLOWED if worse <= self.allowed.of(self.name, self.baseline) else Verdict.WORSE
        )

    @property
    def change(self) -> str:
        """The difference in words: percent of the baseline; of accuracy, percentage points."""
        difference = self.found - self.baseline
        if not difference:
            return ""
        if self.name in _HIGHER_IS_BETTER:
            return f"{100 * difference:+.2f} pp"
        if not self.baseline:
            return f"{difference:+,}"
        return f"{100 * difference / self.baseline:+.2f}%"

    def text(self, value: float) -> str:
        """Return one of its values in words."""
        return f"{value:.2%}" if self.name in _HIGHER_IS_BETTER else f"{value:,}"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "name": self.name,
            "baseline": self.baseline,
            "found": self.found,
            "allowed": str(self.allowed),
            "verdict": str(self.verdict),
        }


@dataclass(frozen=True)
class Baseline:
    """What is compared: figures, and the conditions under which they hold."""

    network: str  #: Its name.
    version: str  #: The tpulite that measured.
    #: Plain values by name. Two baselines can be compared if they are equal.
    conditions: Mapping[str, Any]
    #: By names of :data:`FIGURES`; without accuracy if no data set was evaluated.
    figures: Mapping[str, float]

    def text(self) -> str:
        """Return the file: JSON of a line for each value, so that changes show in a diff."""
        record = {
            "schema": SCHEMA,
            "network": self.network,
            "tpulite": self.version,
            "conditions": dict(self.conditions),
            "figures": dict(self.figures),
        }
        return json.dumps(record, indent=2) + "\n"


def read_baseline(path: Path) -> Baseline:
    """Read a baseline.

    ValueError if the file is none, or of another schema; the message begins with the path.
    """
    try:
        record = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(record, dict) or not isinstance(record.get("schema"), int):
        raise ValueError(f"{path} is not a baseline, as tpulite check --update writes it")
    if record["schema"] != SCHEMA:
        raise ValueError(
            f"{path} has schema {record['schema']}, not {SCHEMA}: write it again with --update"
        )
    conditions, figures = record.get("conditions"), record.get("figures")
    if not isinstance(conditions, dict) or not isinstance(figures, dict):
        raise ValueError(f"{path} has no conditions or no figures: write it again with --update")
    if unknown := figures.keys() - FIGURES.keys():
        raise ValueError(f"{path}: {no_such('figure', unknown.pop(), FIGURES)}")
    for name, value in figures.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or value < 0:
            raise ValueError(f"{path}: {name} is {value!r}, not a number")
    return Baseline(str(record.get("network")), str(record.get("tpulite")), conditions, figures)


def read_allowance(text: str) -> tuple[str, Allowance]:
    """Read ``FIGURE=AMOUNT`` or ``FIGURE=PERCENT%``.

    Raises
    ------
    ValueError
        If it is neither, or there is no such figure.

    Examples
    --------
    >>> read_allowance("cycles=1%")
    ('cycles', Allowance(value=1.0, percent=True))
    """
    name, _, amount = text.partition("=")
    if name not in FIGURES:
        raise ValueError(no_such("figure", name, FIGURES))
    try:
        value = float(amount.removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ValueError(f"{text} must be as in cycles=1% or cycles=500")
    return name, Allowance(value, amount.endswith("%"))


def check_conditions(path: Path, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Check that figures were measured under the conditions of now.

    ValueError if they were not; the message begins with the path of the baseline.
    """
    for name in dict.fromkeys((*then, *now)):
        if then.get(name) != now.get(name):
            verb = "differ" if name.endswith("s") else "differs"
            raise ValueError(
                f"{path}: {name} {verb}: baseline {_short(then.get(name))}, now "
                f"{_short(now.get(name))}; use the same, or write it again with --update"
            )


def compare_figures(
    path: Path,
    baseline: Mapping[str, float],
    found: Mapping[str, float],
    allowed: Mapping[str, Allowance],
) -> Sequence[Figure]:
    """Compare figures with those of a baseline.

    Parameters
    ----------
    path : Path
        The baseline's file, which messages begin with.
    baseline, found : mapping of str to int or float
        What was, and what is, by names of :data:`FIGURES`.
    allowed : mapping of str to Allowance
        By how much figures may be worse; the others by nothing.

    Raises
    ------
    ValueError
        If one has a figure that the other lacks.
    """
    if lacking := baseline.keys() ^ found.keys():
        raise ValueError(f"{path}: {min(lacking)} cannot be compared: write it again with --update")
    return [
        Figure(name, baseline[name], value, allowed.get(name, Allowance()))
        for name, value in found.items()
    ]


def _short(value: Any) -> str:
    """Return a value of a condition in a few words."""
    if value in (None, {}, []):
        return "none"
    if isinstance(value, dict):
        return " ".join(f"{name}={_short(each)}" for name, each in value.items())
    text = str(value)
    return f"{text[:12]}..." if len(text) == _DIGEST else text


def write_junit(path: Path, network: str, figures: Sequence[Figure]) -> None:
    """Write a test suite with a test for each figure, which fails if the figure is worse.

    Parameters
    ----------
    network : str
        The network, which the suite is named after.
    """
    worse = [figure for figure in figures if figure.verdict == Verdict.WORSE]
    counts = {"tests": len(figures), "failures": len(worse), "errors": 0, "skipped": 0}
    suites = Element("testsuites")
    named = {"name": f"tpulite check {network}"} | {x: str(n) for x, n in counts.items()}
    suite = SubElement(suites, "testsuite", named)
    for figure in figures:
        test = SubElement(
            suite, "testcase", {"classname": f"tpulite.check.{network}", "name": figure.name}
        )
        then, now = figure.text(figure.baseline), figure.text(figure.found)
        said = f"{figure.title}: {now}, baseline {then}, allowed {figure.allowed}"
        if figure in worse:
            SubElement(test, "failure", {"message": said, "type": "regression"}).text = said
        else:
            SubElement(test, "system-out").text = f"{said}: {figure.verdict}"
    indent(suites)
    ElementTree(suites).write(path, encoding="utf-8", xml_declaration=True)
