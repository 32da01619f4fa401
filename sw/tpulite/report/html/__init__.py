"""Pages for the browser: everything in one file, nothing is loaded from elsewhere."""

from collections.abc import Mapping
from pathlib import Path

from tpulite.needs import PAGE_PACKAGES, require_package
from tpulite.report.html.head import Answered, Report
from tpulite.report.html.shell import Head
from tpulite.report.network_graph import NetworkGraph
from tpulite.report.operator_details import OperatorDetails
from tpulite.runtime.model_compare import Comparison

__all__ = [
    "Answered",
    "Head",
    "Report",
    "write_comparison",
    "write_inspection",
    "write_page",
]


def write_page(path: Path, report: Report) -> None:
    """Write a page that any browser shows, without a network.

    ValueError if a package is missing that places boxes.
    """
    _require()
    from tpulite.report.html.page import make_page

    path.write_text(make_page(report), encoding="utf-8")


def write_comparison(
    path: Path,
    comparison: Comparison,
    network: NetworkGraph,
    details: Mapping[str, OperatorDetails],
    head: Head,
) -> None:
    """Write a page about a comparison, which is like that of :func:`write_page`."""
    _require()
    from tpulite.report.html.comparison import make_comparison

    path.write_text(make_comparison(comparison, network, details, head), encoding="utf-8")


def write_inspection(
    path: Path, network: NetworkGraph, details: Mapping[str, OperatorDetails], head: Head
) -> None:
    """Write a page about a network that is not compiled, like that of :func:`write_page`."""
    _require()
    from tpulite.report.html.inspection import make_inspection

    path.write_text(make_inspection(network, details, head), encoding="utf-8")


def _require() -> None:
    for package in PAGE_PACKAGES:
        require_package(package, "report", "a page")
