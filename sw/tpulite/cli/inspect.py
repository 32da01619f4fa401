"""The command ``inspect``: every operator, where it runs, and why."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tpulite.atomic import write_whole
from tpulite.cli.common import (
    config_option,
    csv_option,
    json_option,
    refuse_given,
    save_csv,
    save_json,
    say,
)
from tpulite.cli.help import command
from tpulite.cli.paths import NETWORK
from tpulite.cli.reading import Reading, meaning_options, ways_out
from tpulite.cli.views import page_option
from tpulite.configs import named_config
from tpulite.counted import first_of
from tpulite.graph.passes import simplify
from tpulite.quant.library import as_library, is_named
from tpulite.quant.lower.network import lacking
from tpulite.quant.partition import MachineSegment, RefusedError, crossings, partition
from tpulite.quant.place import place
from tpulite.quant.placed import Placed
from tpulite.report.html import Head, write_inspection
from tpulite.report.name_cell import NameCell
from tpulite.report.network_facts import fact_lines, next_step
from tpulite.report.network_graph import NetworkGraph
from tpulite.report.operator_details import describe_operators
from tpulite.report.steps import join_steps
from tpulite.runtime.host.tables import tabulate
from tpulite.runtime.model_file import is_model_file
from tpulite.runtime.model_plan import Plan
from tpulite.runtime.model_summary import OperatorSummary, statement, summarize

_WIDE = 100
"""Columns of a terminal that has room for the shapes of inputs, too."""


@command(first=("--shape", "--outputs", "--exact", "--calibrate", "--html", "--json"))
@click.argument("model", type=NETWORK)
@meaning_options
@config_option
@page_option
@json_option
@csv_option
def inspect(
    model: Path,
    reading: Reading,
    config_name: str,
    html: Path | None,
    json_path: Path | None,
    csv_path: Path | None,
) -> None:
    """List the operators of a network: shapes, MACs, where each runs, and why.

    Nothing is compiled, so a network that the machine cannot run is listed, too. The exit code is
    1 if neither the machine nor the CPU can run the network.
    """
    config = named_config(config_name)
    if compiled := is_model_file(model):
        refuse_given(("config_name",), f"because {model} is compiled")
        read = reading.model(model)
        placed, config = read.plan.placed, read.config
    else:
        graph = reading.graph(model)
        exactness = reading.exactness(graph)
        graph = tabulate(simplify(as_library(graph, exactness)), exactness)
        placed = place(graph, exactness, lacking=lacking(graph, config), vector=config.array_size)
    segments, refused = partition(placed), _refused(placed)
    problem = "" if compiled else _problem(placed)
    graph, exactness = placed.graph, placed.exactness
    operators = summarize(placed)
    named = is_named(graph, exactness)
    said = statement(operators, exactness, crossings(segments), named=named)
    parts = [segment.layers for segment in segments if isinstance(segment, MachineSegment)]
    facts = list(fact_lines(graph, parts, config))
    record = {
        "network": graph.name,
        "facts": facts,
        "exactness": str(exactness),
        "crossings": crossings(segments),
        "refused": [] if refused is None else [node.name for node, _ in refused.refused],
        "problem": problem,
        "operators": [asdict(operator) for operator in operators],
    }
    save_json(json_path, record)
    if csv_path is not None:
        save_csv(csv_path, [_row(operator) for operator in operators])
    if html is not None:
        _write_page(html, placed, facts, said)
    console = Console()
    for line in facts:
        console.print(line, highlight=False, markup=False)
    console.print(_table(graph.name, operators, console.width))
    lines = [*_reasons(operators), "", said]
    if step := "" if compiled else next_step(placed, str(model), config, runs=bool(parts)):
        lines.append(step)
    if refused is not None and (parts or not step):
        names = _names([node.name for node, _ in refused.refused])
        ways = ways_out(graph, exactness, refused)
        lines.append("; ".join((f"compile --strict refuses {names}", *ways)))
    if problem:
        lines.append(f"the network cannot run: {problem}")
    for line in lines:
        say(console, line)
    if problem:
        raise click.exceptions.Exit(1)


def _reasons(operators: Sequence[OperatorSummary]) -> Iterator[str]:
    """Yield why operators do not run on the machine, those of a kind and a reason in one line."""
    alike: dict[tuple[str, str], list[str]] = {}
    for each in operators:
        if each.reason:
            alike.setdefault((each.operator, each.reason), []).append(each.name)
    for (operator, reason), names in alike.items():
        yield f"{_names(names)} ({operator}): {reason}"


def _names(names: Sequence[str]) -> str:
    """Return the first names; all time steps of an operator count as one."""
    return first_of([name for name, _ in join_steps(names, str, lambda _: None)])


def _write_page(path: Path, placed: Placed, facts: list[str], said: str) -> None:
    network = NetworkGraph.of(placed)
    boxes = network.operators
    tiles = {
        "operators": f"{len(boxes):,}",
        "operators on the CPU": f"{sum(box.where == 'host' for box in boxes):,}",
        "MACs": f"{sum(box.macs for box in boxes):,}",
        "MACs on the CPU": f"{sum(box.macs for box in boxes if box.where == 'host'):,}",
    }
    pairs = (line.partition(": ") for line in facts)
    rows = {name: text for name, _, text in pairs} | {"all": said}
    lines = [f"numerics: {placed.exactness}"]
    head = Head(placed.graph.name, "inspect", lines, tiles, rows)
    details = describe_operators(placed.graph)
    write_whole(path, partial(write_inspection, network=network, details=details, head=head))


def _refused(placed: Placed) -> RefusedError | None:
    """Return what compile says if the host may not help."""
    try:
        partition(placed, strict=True)
    except RefusedError as error:
        return error
    return None


def _problem(placed: Placed) -> str:
    """Return why the network cannot run, empty if it can."""
    try:
        Plan.of(placed)
    except ValueError as error:
        return str(error)
    return ""


def _table(title: str, operators: tuple[OperatorSummary, ...], width: int) -> Table:
    """Return a row for each operator, or for all time steps of one.

    Inputs are shown where `width` columns have room for them.
    """
    macs = sum(operator.macs for operator in operators)
    total = f"{macs:,}" if all(operator.counted for operator in operators) else f"≥ {macs:,}"
    wide = width >= _WIDE
    table = Table(
        title=escape(title),
        show_footer=True,
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
    )
    table.add_column("operator", footer="total", no_wrap=True)
    table.add_column("node")  # names give way, shapes do not
    if wide:
        table.add_column("input")
    table.add_column("output")
    table.add_column("type", no_wrap=True)
    table.add_column("where", no_wrap=True)
    table.add_column("MACs", footer=total, justify="right", no_wrap=True)
    lines = join_steps(
        operators, lambda each: each.name, lambda each: (each.operator, each.outputs, each.where)
    )
    for name, steps in lines:
        operator = replace(steps[0], macs=sum(step.macs for step in steps))
        table.add_row(
            escape(operator.operator),
            NameCell(name),
            *([_shapes(operator.inputs, "\n")] if wide else []),
            _shapes(operator.outputs, "\n"),
            operator.dtype,
            _PLACES.get(operator.where, operator.where),
            operator.macs_text,
        )
    return table


_PLACES = {"host": "CPU", "none": "view"}
"""What the table calls places; a view changes only the shape."""


def _row(operator: OperatorSummary) -> dict[str, Any]:
    shapes = {"inputs": _shapes(operator.inputs), "outputs": _shapes(operator.outputs)}
    return asdict(operator) | shapes


def _shapes(shapes: tuple[tuple[int, ...], ...], between: str = ", ") -> str:
    return between.join("x".join(str(extent) for extent in shape) or "scalar" for shape in shapes)
