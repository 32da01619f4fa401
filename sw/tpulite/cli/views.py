"""The options ``--trace`` and ``--html``: a run to look at."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tpulite.atomic import write_whole
from tpulite.cli.compiling import report_model
from tpulite.cli.help import Topic, option
from tpulite.cli.paths import OUTPUT
from tpulite.compiler.options import Options
from tpulite.needs import PAGE_PACKAGES, require_package
from tpulite.report import report_programs
from tpulite.report.network_graph import NetworkGraph
from tpulite.runtime.model import Model

if TYPE_CHECKING:
    from tpulite.compiler.schedule.live_tensors import Grouped
    from tpulite.report.html import Answered, Head
    from tpulite.report.profile import Profile
    from tpulite.report.speed import Speed


@dataclass(frozen=True)
class Views:
    """What was chosen of :func:`view_options`."""

    trace: Path | None = None  #: Where a trace for Perfetto goes.
    html: Path | None = None  #: Where a page for the browser goes.

    def __bool__(self) -> bool:
        return self.trace is not None or self.html is not None

    def save(
        self,
        model: Model,
        profile: "Profile",
        mhz: float | None,
        host_ms: float | None = None,
        *,
        grouped: "Sequence[Grouped]" = (),
        answers: "Sequence[Answered]" = (),
    ) -> None:
        """Write them, each whole or not at all.

        Parameters
        ----------
        mhz, host_ms : float, optional
            Clock frequency in MHz, and milliseconds of an inference on the CPU.
        grouped : sequence of Grouped
            Live ranges, for the page.
        answers : sequence of Answered
            What came out of inputs, for the page.
        """
        self._write_trace(profile, mhz)
        if self.html is not None:
            from tpulite.report.html import Report, write_page
            from tpulite.report.operator_details import describe_operators
            from tpulite.report.speed import Speed

            facts = facts_of(model)
            for report in report_model(model, full=False, cache=True).values():
                facts["memory"] = report.line()
            page = Report(
                _command(),
                profile,
                Speed(profile.cycles, profile.batch, mhz, model.cpu_share, host_ms),
                NetworkGraph.of(model.plan.placed),
                describe_operators(model.plan.placed.graph),
                str(model.exactness),
                facts,
                grouped,
                answers,
            )
            write_whole(self.html, partial(write_page, report=page))

    def save_program(
        self, profile: "Profile", speed: "Speed", answers: "Sequence[Answered]" = ()
    ) -> None:
        """Write those of a program that is no network's, each whole or not at all."""
        self._write_trace(profile, speed.mhz)
        if self.html is not None:
            from tpulite.report.html import Report, write_page

            programs = [run.program for run in profile.runs]
            facts = {"memory": report_programs(programs, cycles=False).line()}
            report = Report(_command(), profile, speed, facts=facts, answers=answers)
            write_whole(self.html, partial(write_page, report=report))

    def _write_trace(self, profile: "Profile", mhz: float | None) -> None:
        if self.trace is not None:
            from tpulite.report.perfetto_trace import write_trace

            nanoseconds = 1000 / (mhz or 1000)
            save = partial(write_trace, runs=profile.runs, nanoseconds=nanoseconds)
            write_whole(self.trace, save)


def page_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--html`` alone; the command gets a path, ``html``."""
    return option(
        "--html",
        group=Topic.OUTPUT,
        callback=_needs(PAGE_PACKAGES, "report", "--html"),
        type=OUTPUT,
        help="Write an HTML report.",
    )(command)


def view_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; the command gets them as ``views``."""

    @option(
        "--trace",
        group=Topic.OUTPUT,
        callback=_needs(("perfetto",), "trace", "--trace"),
        type=OUTPUT,
        help="Write a trace for ui.perfetto.dev.",
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


def page_head(model: Model, title: str, facts: Mapping[str, str]) -> "Head":
    """Return what a page says of a network first: machine, numerics, and facts."""
    from tpulite.report.html import Head
    from tpulite.report.html.shell import machine_line

    lines = [machine_line(model.config), f"numerics: {model.exactness}"]
    return Head(title, _command(), lines, facts={**facts, **facts_of(model)})


def facts_of(model: Model) -> dict[str, str]:
    """Return how a network is compiled, and what of it runs on the CPU."""
    default = vars(Options())
    chosen = [f"{k}={v}" for k, v in vars(model.options).items() if v != default[k]]
    return {
        "compiler options": ", ".join(chosen) or "the default ones",
        "runs on the CPU": NetworkGraph.of(model.plan.placed).on_the_cpu() or "nothing",
    }


def _command() -> str:
    return click.get_current_context().info_name or ""
