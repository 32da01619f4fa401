"""Compiling for a command: what is going on, and how large the result is."""

import warnings
from dataclasses import replace

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tpulite.cli.common import say
from tpulite.compiler.options import Options
from tpulite.counted import counted
from tpulite.report import CompilationReport, report_programs
from tpulite.runtime.model import Model
from tpulite.runtime.model_compile import Dump


def compile_model(model: Model, *, cache: bool, dump: Dump | None = None) -> Model:
    """Compile a network, telling on stderr what is done at the moment if that is a terminal.

    Warnings, of a rewriting that had to be left out, say, are a line each on stderr.

    Parameters
    ----------
    cache : bool
        Whether programs may come from the user's cache.
    dump : callable, optional
        Gets what the stages make; see :meth:`tpulite.runtime.model.Model.compile`.
    """
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    quiet = not console.is_terminal
    with (
        Progress(*columns, console=console, transient=True, disable=quiet) as progress,
        warnings.catch_warnings(),
    ):
        warnings.showwarning = lambda message, *_: say(console, f"tpulite: {message}")
        task = progress.add_task("compile")
        return model.compile(
            cache=cache,
            progress=lambda step: progress.update(task, description=f"compile: {step}"),
            dump=dump,
        )


def validate_model(model: Model) -> str:
    """Check that every program computes its layers, whatever the inputs are; return a line.

    RuntimeError if one does not; NotImplementedError if there is a softmax, which validation does
    not know.
    """
    from tpulite.compiler.translation import validate_translation

    for number, (program, layers) in enumerate(zip(model.programs, model.layers, strict=True)):
        if wrong := validate_translation(layers, program, model.options):
            raise RuntimeError(
                f"program {number} does not compute its layers: a bug of tpulite, or a changed "
                f"file. {wrong[0]}"
            )
    count = len(model.programs)
    return f"validated: {counted(count, 'program')}, for all inputs"


def report_model(model: Model, *, full: bool, cache: bool) -> dict[str, CompilationReport]:
    """Report on a compiled network, by heading; nothing if no part of it is the machine's.

    Parameters
    ----------
    full : bool
        Whether to predict cycles, and to compile it without layer groups for comparison.
    cache : bool
        Whether programs may come from the user's cache.
    """
    if not model.programs:
        return {}
    ways = {"without grouping": model.options.ungrouped}
    if model.options.grouping:
        ways = {"with grouping": model.options} | ways
    if model.options.groups == "document":
        ours = replace(model.options, groups="cost", allocator=Options().allocator)
        ways = {
            "document": model.options,
            "with grouping": ours,
            "without grouping": ours.ungrouped,
        }
    first, *others = ways
    reports = {first: _report(model, cycles=full)}
    for heading in others if full else ():
        other = compile_model(model.with_options(ways[heading]), cache=cache)
        reports[heading] = _report(other, cycles=True)
    return reports


def _report(model: Model, *, cycles: bool) -> CompilationReport:
    return replace(
        report_programs(model.steady_programs, cycles=cycles),
        removed_channels=sum(part.removed_channels for part in model.simplified),
        removed_macs=sum(part.removed_macs for part in model.simplified),
    )
