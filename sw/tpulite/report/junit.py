"""Figures as JUnit XML, which CI services show as tests."""

from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, ElementTree, SubElement, indent

from tpulite.report.baseline import Figure, Verdict


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
