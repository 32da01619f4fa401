"""Options of ``export --layout``, and what it does: weights as another machine reads them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from tpulite.cli.common import is_stdout, refuse_given, save_json, say
from tpulite.cli.help import Choice, Topic, option
from tpulite.cli.reading import Reading
from tpulite.layouts import BM1684X, FLOAT_TYPES, Geometry, describe, lay_out, write
from tpulite.quant.exactness import Exactness
from tpulite.runtime.model_file import is_model_file

Command = TypeVar("Command", bound=Callable[..., Any])

_LAYOUT = "bm1684x"

_OPTIONS = (
    option(
        "--layout",
        group=Topic.LAYOUT,
        type=Choice([_LAYOUT]),
        help="Write the weights in the layout of this machine, and no C.",
    ),
    option(
        "--lanes",
        "--npu-num",
        group=Topic.LAYOUT,
        type=click.IntRange(min=1),
        default=BM1684X.lanes,
        help="Lanes of the layout (NPU_NUM).",
    ),
    option(
        "--ic-parallel",
        group=Topic.LAYOUT,
        type=click.IntRange(min=1),
        help="Input channels per int8 vector (IC_PARALLEL).  [default: as many as lanes]",
    ),
    option(
        "--eu-num",
        group=Topic.LAYOUT,
        type=click.IntRange(min=1),
        help="Bytes that a lane processes at once (EU_NUM).  [default: as many as lanes]",
    ),
    option(
        "--3ic-optimize",
        "--optimize-3ic",
        "optimize_3ic",
        group=Topic.LAYOUT,
        type=Choice(["auto", "0", "1", "2", "3"]),
        default="auto",
        help="Fold kernel rows (1), columns (2) or both (3) into the input channels.",
    ),
    option(
        "--weights",
        group=Topic.LAYOUT,
        type=Choice(FLOAT_TYPES),
        help="Data type of float layers' weights.  [default: as in the file]",
    ),
)

_NAMES = ("layout", "lanes", "ic_parallel", "eu_num", "optimize_3ic", "weights")

_SHARED = ("network", "output", "json_path", "inputs", "outputs", "shapes", "dims", "calibration")
"""Parameters of the command that mean the same with a layout and without."""


@dataclass(frozen=True)
class LayoutChoices:
    """What was chosen of :func:`layout_options`, with a layout."""

    geometry: Geometry  #: The machine.
    optimize_3ic: int | None  #: The document's ``3ic_optimize``; None is the vendor's choice.
    weights: str | None  #: Type of the weights of float layers.

    def export(self, network: Path, reading: Reading, output: Path, json_path: Path | None) -> None:
        """Lay out a network, write the folder, and print the table.

        ValueError if it is no network, or none of its layers can be laid out.
        """
        if is_model_file(network):
            raise ValueError(f"{network} is compiled: --layout needs the original network file")
        graph = replace(reading, exact=Exactness.BM1684X.value).graph(network)
        layout = lay_out(
            graph,
            geometry=self.geometry,
            optimize_3ic=self.optimize_3ic,
            weights=self.weights,
        )
        files = write(layout, output)
        save_json(json_path, describe(layout))
        if not is_stdout(json_path):
            console = Console()
            console.print(layout)
            said = f"{output}: {', '.join(file.name for file in files)}"
            say(console, said)


def layout_options(command: Command) -> Command:
    """Add ``--layout`` and its options; the command gets them as ``layout``, None without it.

    With a layout, all options are refused that are for C; without, those of the layout are.
    """

    @wraps(command)
    def collect(**arguments: Any) -> Any:
        values = {name: arguments.pop(name) for name in _NAMES}
        if values["layout"] is None:
            refuse_given(_NAMES, f"without --layout {_LAYOUT}")
            return command(**arguments, layout=None)
        context = click.get_current_context()
        names = [param.name for param in context.command.params if param.name]
        others = tuple(name for name in names if name not in (*_SHARED, *_NAMES))
        refuse_given(others, f"with --layout {_LAYOUT}")
        lanes = values["lanes"]
        geometry = Geometry(
            lanes=lanes,
            parallel=values["ic_parallel"] or lanes,
            lane_bytes=values["eu_num"] or lanes,
        )
        mode = values["optimize_3ic"]
        choices = LayoutChoices(geometry, None if mode == "auto" else int(mode), values["weights"])
        return command(**arguments, layout=choices)

    for add in reversed(_OPTIONS):
        collect = add(collect)
    return collect  # type: ignore[return-value]
