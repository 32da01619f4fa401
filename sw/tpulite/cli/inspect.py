"""The command ``inspect``: every operator, where it runs, and why."""

from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tpulite.cli.common import (
    PATH,
    csv_option,
    json_option,
    meaning_options,
    read_graph,
    save_csv,
    save_json,
)
from tpulite.graph.passes import simplify
from tpulite.quant.exactness import Exactness, default_exactness
from tpulite.runtime.model_summary import OperatorSummary, statement, summarize

__all__ = ["inspect"]


@click.command()
@click.argument("model", type=PATH)
@meaning_options
@json_option
@csv_option
def inspect(
    model: Path,
    exact: str | None,
    calibration: Path | None,
    json_path: Path | None,
    csv_path: Path | None,
) -> None:
    """List the operators of a network: shapes, MACs, where each runs, and why.

    Nothing is compiled, so networks that the machine cannot run are shown, too.
    """
    graph = simplify(read_graph(model, calibration))
    exactness = default_exactness(graph.format) if exact is None else Exactness(exact)
    operators = summarize(graph, exactness)
    record = {
        "network": graph.name,
        "exactness": str(exactness),
        "operators": [operator.as_dict() for operator in operators],
    }
    save_json(json_path, record)
    if csv_path is not None:
        save_csv(csv_path, [_row(operator) for operator in operators])
    console = Console()
    console.print(_table(graph.name, operators))
    console.print(statement(operators, exactness), highlight=False, markup=False, soft_wrap=True)


def _table(title: str, operators: tuple[OperatorSummary, ...]) -> Table:
    macs = sum(operator.macs for operator in operators)
    table = Table(title=title, box=box.SIMPLE, show_footer=True)
    table.add_column("operator", footer="total", no_wrap=True)
    table.add_column("node", overflow="fold")
    table.add_column("input", overflow="fold")
    table.add_column("output", overflow="fold")
    table.add_column("where", no_wrap=True)
    table.add_column("MACs", footer=f"{macs:,}", justify="right", no_wrap=True)
    table.add_column("reason", overflow="fold")
    for operator in operators:
        table.add_row(
            escape(operator.operator),
            escape(operator.name),
            _shapes(operator.inputs),
            f"{_shapes(operator.outputs)} {operator.dtype}",
            "[red]nobody" if operator.where == "nobody" else operator.where,
            f"{operator.macs:,}" if operator.macs else "",
            escape(operator.reason),
        )
    return table


def _row(operator: OperatorSummary) -> dict[str, Any]:
    shapes = {"inputs": _shapes(operator.inputs), "outputs": _shapes(operator.outputs)}
    return operator.as_dict() | shapes


def _shapes(shapes: tuple[tuple[int, ...], ...]) -> str:
    return ", ".join("x".join(str(extent) for extent in shape) or "scalar" for shape in shapes)
