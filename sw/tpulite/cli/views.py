"""The options ``--trace`` and ``--html``: a run to look at."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click

from tpulite.atomic import write_whole
from tpulite.cli.compiling import report_model
from tpulite.cli.help import Topic, option
from tpulite.cli.paths import OUTPUT
from tpulite.compiler.options import Options
from tpulite.compiler.schedule.live_tensors import Grouped
from tpulite.needs import require_package
from tpulite.report import report_programs
from tpulite.report.html import PACKAGES, write_page
from tpulite.report.network_graph import NetworkGraph
from tpulite.report.perfetto_trace import write_trace
from tpulite.report.profile import Profile
from tpulite.report.speed import Speed
from tpulite.runtime.model import Model
from tpulite.runtime.model_summary import host_lines

__all__ = ["Views", "facts_of", "page_option", "view_options"]


@dataclass(frozen=True)
class Views:
    """What was chosen of :func:`view_options`.

    Parameters
    ----------
    trace : Path, optional
        Where a trace for Perfetto goes.
    html : Path, optional
        Where a page for the browser goes.
    """

    trace: Path | None = None
    html: Path | None = None

    def __bool__(self) -> bool:
        return self.trace is not None or self.html is not None

    def save(
        self,
        model: Model,
        profile: Profile,
        mhz: float | None,
        host_ms: float | None = None,
        grouped: Sequence[Grouped] = (),
    ) -> None:
        """Write them, each whole or not at all; ``grouped`` are live ranges for the page."""
        self._write_trace(profile, mhz)
        if self.html is not None:
            network = NetworkGraph.of(model.plan.placed)
            speed = Speed(profile.cycles, profile.batch, mhz, model.cpu_share, host_ms)
            facts = facts_of(model)
            for report in report_model(model, full=False, cache=True).values():
                facts["a run"] = report.line()
            save = partial(
                write_page,
                profile=profile,
                speed=speed,
                network=network,
                facts=facts,
                grouped=grouped,
            )
            write_whole(self.html, save)

    def save_program(self, profile: Profile, speed: Speed) -> None:
        """Write those of a program that is no network's, each whole or not at all."""
        self._write_trace(profile, speed.mhz)
        if self.html is not None:
            programs = [run.program for run in profile.runs]
            facts = {"a run": report_programs(programs, cycles=False).line()}
            save = partial(write_page, profile=profile, speed=speed, network=None, facts=facts)
            write_whole(self.html, save)

    def _write_trace(self, profile: Profile, mhz: float | None) -> None:
        if self.trace is not None:
            nanoseconds = 1000 / (mhz or 1000)
            save = partial(write_trace, runs=profile.runs, nanoseconds=nanoseconds)
            write_whole(self.trace, save)


def page_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--html`` alone; the command gets a path, ``html``."""
    return option(
        "--html",
        group=Topic.OUTPUT,
        callback=_needs(PACKAGES, "report", "--html"),
        type=OUTPUT,
        help="Write a page for the browser.",
    )(command)


def view_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; the command gets them as ``views``."""

    @option(
        "--trace",
        group=Topic.OUTPUT,
        callback=_needs(("perfetto",), "trace", "--trace"),
        type=OUTPUT,
        help="Write a trace for Perfetto.",
    )
    @page_option
    @wraps(command)
    def run(*args: Any, trace: Path | None, html: Path | None, **named: Any) -> Any:
        return command(*args, views=Views(trace, html), **named)

    return run


def _needs(packages: tuple[str, ...], extra: str, option: str) -> Callable[..., Path | None]:
    """Check, before any work, that the packages are there that write a file."""

    def check(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
        for package in packages if path is not None else ():
            require_package(package, extra, option)
        return path

    return check


def facts_of(model: Model) -> dict[str, str]:
    """Return what the head of a page says of whose bits a network has, and how it is compiled."""
    default = vars(Options())
    chosen = [f"{k}={v}" for k, v in vars(model.options).items() if v != default[k]]
    host = [line.removeprefix("host, ") for line in host_lines(model.summary())]
    return {
        "arithmetic": f"bits of {model.exactness}",
        "compiler": ", ".join(chosen) or "all options as they are by default",
        "host": "; ".join(host) or "computes nothing",
    }
