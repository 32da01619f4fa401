"""Pages for the browser: everything in one file, nothing is loaded from elsewhere."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tpulite.compiler.schedule.live_tensors import Grouped
from tpulite.needs import require_package
from tpulite.report.network_graph import NetworkGraph
from tpulite.report.profile import Profile
from tpulite.report.speed import Speed
from tpulite.runtime.model_compare import Comparison

__all__ = ["PACKAGES", "write_comparison", "write_page"]

PACKAGES = ("bokeh", "fast_sugiyama")
"""What draws, and what places boxes: the extra ``report``."""


def write_page(
    path: Path,
    profile: Profile,
    speed: Speed,
    network: NetworkGraph | None,
    facts: Mapping[str, str],
    grouped: Sequence[Grouped] = (),
) -> None:
    """Write a page that any browser shows, without a network.

    Parameters
    ----------
    path : Path
        File to write.
    profile : Profile
        What the run costs, layer by layer, and what each engine does when.
    speed : Speed
        Its cycles, in milliseconds if there is a clock.
    network : NetworkGraph, optional
        Its operators; a program without a network has none.
    facts : mapping of str to str
        What else stands in its head: how it was compiled.
    grouped : sequence of Grouped
        Live ranges of each part, if it has just been compiled.

    Raises
    ------
    ValueError
        If a package is missing that draws.
    """
    _require()
    from tpulite.report.html.page import make_page  # takes a second to import

    path.write_text(make_page(profile, speed, network, facts, grouped), encoding="utf-8")


def write_comparison(
    path: Path, comparison: Comparison, network: NetworkGraph, facts: Mapping[str, str]
) -> None:
    """Write a page about a comparison, which is like that of :func:`write_page`.

    Parameters
    ----------
    path : Path
        File to write.
    comparison : Comparison
        What came of it.
    network : NetworkGraph
        The operators that were compared.
    facts : mapping of str to str
        What was compared with what, and how.

    Raises
    ------
    ValueError
        If a package is missing that draws.
    """
    _require()
    from tpulite.report.html.comparison import make_comparison

    path.write_text(make_comparison(comparison, network, facts), encoding="utf-8")


def _require() -> None:
    for package in PACKAGES:
        require_package(package, "report", "a page")
