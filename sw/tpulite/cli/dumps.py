"""The options ``--dump`` and ``--dump-dir``: what the stages of the compiler have made, as text."""

from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tpulite.atomic import write_whole
from tpulite.cli.help import Topic, option
from tpulite.cli.paths import FOLDER
from tpulite.compiler.passes import PASSES
from tpulite.compiler.schedule.allocate import Allocation
from tpulite.compiler.schedule.scheduled import Schedule
from tpulite.compiler.state import BoundChoice
from tpulite.graph.layers import LayerGraph
from tpulite.near import no_such
from tpulite.runtime.model import Model

if TYPE_CHECKING:
    from tpulite.compiler.schedule.live_tensors import Grouped

Command = TypeVar("Command", bound=Callable[..., Any])

_PASSES = tuple(each.name for each in PASSES)

_NEEDED = ("mark-views", "choose-tiles", "schedule", "spread-buffers")
"""Passes that others refer to: the last that change layers and groups, and where these lie."""

_ROAD = "choose-bound"
"""The pass after which none of that may be in the program."""

_GROUPS = tuple(each.name for each in PASSES if each.makes == "groups")
"""Passes that choose groups: only the last choice has live ranges."""


def dump_options(command: Command) -> Command:
    """Add ``--dump`` and ``--dump-dir``; the command gets them as :class:`Dumps`, ``dumps``."""

    @wraps(command)
    def collect(dump: str | None, dump_dir: Path | None, **arguments: Any) -> Any:
        return command(**arguments, dumps=Dumps(dump, dump_dir))

    for add in (
        option(
            "--dump-dir",
            group=Topic.COMPILER,
            type=FOLDER,
            help="Write the texts of --dump to this folder, as PART.NAME.txt.",
        ),
        option(
            "--dump",
            group=Topic.COMPILER,
            metavar="NAME[,NAME]",
            help=f"Show what compiler passes make: {', '.join(_PASSES)}; or all.",
        ),
    ):
        collect = add(collect)
    return collect  # type: ignore[return-value]


class Dumps:
    """Results of the stages that were asked for, kept until the compilation has succeeded.

    Parameters
    ----------
    stages : str, optional
        Names, joined by commas, or ``all``; None: no stage.
    folder : Path, optional
        Where to write the texts.

    Raises
    ------
    UsageError
        If there is no such stage, or a folder and no stage.
    """

    def __init__(self, stages: str | None, folder: Path | None) -> None:
        if stages is None and folder is not None:
            raise click.UsageError("--dump-dir needs --dump.")
        names = [] if stages is None else stages.split(",")
        self.stages = _PASSES if names == ["all"] else tuple(names)
        self._folder = folder
        for name in self.stages:
            if name not in _PASSES:
                raise click.UsageError(f"--dump {no_such('pass', name, _PASSES)}")
        self._values: dict[tuple[int, str], object] = {}

    def __call__(self, part: int, stage: str, value: object) -> None:
        """Keep a result; a later one of the same stage takes its place."""
        if stage in self.stages or stage in (*_NEEDED, _ROAD):
            self._values[part, stage] = value

    def texts(self, model: Model) -> dict[str, str]:
        """Return the texts, by part and stage.

        ValueError if the compiler has gone through no stage of a name.
        """
        if not self.stages:
            return {}
        from tpulite.compiler.dump.stages import Compilation, stage_text

        texts = {}
        for part, layers in enumerate(model.layers):
            ordered, groups, schedule, places = (
                self._values.get((part, stage)) for stage in _NEEDED
            )
            assert isinstance(ordered, LayerGraph)
            assert schedule is None or isinstance(schedule, Schedule)
            assert places is None or isinstance(places, Allocation)
            about = Compilation(ordered, model.config, model.options, schedule, places)
            early = Compilation(ordered, model.config, model.options)
            for stage in (stage for stage in _PASSES if stage in self.stages):
                if (part, stage) not in self._values:
                    raise ValueError(f"compiling {layers.name} has no stage {stage!r}")
                value = self._values[part, stage]
                other = stage in _GROUPS and value != groups
                texts[f"{part}.{stage}"] = stage_text(value, early if other else about)
        return texts

    def grouped(self, model: Model) -> "tuple[Grouped, ...]":
        """Return the live ranges of each part; of none that was not compiled now, or is bound."""
        from tpulite.compiler.schedule.live_tensors import Grouped, live_sections

        found = []
        for part in range(len(model.layers)):
            choice = self._values.get((part, _ROAD))
            if isinstance(choice, BoundChoice) and choice.program is not None:
                continue
            layers, groups, schedule, places = (self._values.get((part, x)) for x in _NEEDED)
            if isinstance(schedule, Schedule) and isinstance(places, Allocation):
                assert isinstance(layers, LayerGraph) and isinstance(groups, tuple)
                found.append(Grouped(layers, live_sections(layers, groups, schedule, places)))
        return tuple(found)

    def write(self, texts: dict[str, str]) -> None:
        """Print texts, or write files."""
        if self._folder is None:
            for name, text in texts.items():
                click.echo(f"--- {name}\n{text}")
            return
        self._folder.mkdir(exist_ok=True)
        for name, text in texts.items():
            write = partial(Path.write_text, data=text, encoding="utf-8")
            write_whole(self._folder / f"{name}.txt", write)
