"""A data set on the command line, and what a network answers to its images."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from tpulite.cli.help import Topic, option
from tpulite.cli.inputs import pixels_option
from tpulite.cli.labelled import DataSet, SetReader, count_classes, load_names
from tpulite.cli.paths import DATA, PATH
from tpulite.cli.workers import Workers, study_progress
from tpulite.evaluate.evaluation import Answers, Evaluation
from tpulite.evaluate.network import Network, answer_images, of_one_image
from tpulite.graph.graph import Graph
from tpulite.runtime.host.libraries import library_package
from tpulite.runtime.identity import Library, device_packages, identity
from tpulite.runtime.model import Model
from tpulite.runtime.model_run import Runner
from tpulite.runtime.oracles import oracle_package

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Images:
    """What was chosen of :func:`image_options`."""

    path: Path | None  #: The data set.
    #: Files of the images' classes, and of the names of all classes.
    labels: Path | None
    names: Path | None
    pixels: tuple[float, float] | None  #: What black and white are to the network.
    limit: int | None  #: Most images.

    def read(self, model: Model) -> tuple[DataSet, tuple[str, ...]]:
        """Read the data set as inputs of a network, and the names of the classes if there are some.

        ValueError if something cannot be read or does not suit the network; the file comes first.
        """
        assert self.path is not None
        single = of_one_image(model.graph)
        names = () if self.names is None else load_names(self.names, single)
        classes = count_classes(single) if len(single.outputs) == 1 else 0
        reader = SetReader(single, model.exactness, classes, names, self.pixels)
        found = reader.read(self.path, self.labels)
        if found.labels is not None and not classes:
            raise ValueError(
                f"accuracy needs a network with one output, not {list(model.graph.outputs)}"
            )
        return found, names


def image_options(*, required: bool) -> Callable[[Command], Command]:
    """Make the options of a data set; the command gets them as :class:`Images`, ``images``."""
    options = (
        option(
            "--data",
            group=Topic.INPUT,
            type=DATA,
            required=required,
            help="Data set: a folder with a subfolder of images per class, a folder of images, a "
            ".npz file with images x and classes y, or digits.",
        ),
        option(
            "--labels",
            group=Topic.INPUT,
            type=PATH,
            help="Classes of the images, if the data set has none: FILE,CLASS lines, or a .npy.",
        ),
        option("--names", group=Topic.INPUT, type=PATH, help="Class names, one per line."),
        pixels_option,
        option(
            "--limit",
            group=Topic.INPUT,
            type=click.IntRange(min=1),
            help="Number of images.  [default: all]",
        ),
    )

    def add_all(command: Command) -> Command:
        @wraps(command)
        def collect(**arguments: Any) -> Any:
            chosen = [arguments.pop(x) for x in ("data", "labels", "names", "pixels", "limit")]
            return command(**arguments, images=Images(*chosen))

        for add in reversed(options):
            collect = add(collect)
        return collect  # type: ignore[return-value]

    return add_all


@dataclass(frozen=True, eq=False)
class Answering:
    """How a compiled network answers images."""

    model: Model  #: The network.
    device: str  #: Where it runs.
    work: Workers  #: The processes.
    fresh: bool  #: Whether to ask again what is known already.
    oracle: str | None = None  #: A library that answers, too, from the network's ``graph``.
    graph: Graph | None = None  #: The network as it was read.

    def answers(self, data: DataSet, count: int) -> Answers:
        """Answer the first images of a data set."""
        model, work = self.model, self.work
        batch = max((program.batch for program in model.programs), default=1)
        needed = partial(identity, device_packages(self.device), self._libraries())
        network = Network.of(model, self.device, self.oracle, self.graph)
        evaluation = Evaluation(network, needed(), count, data.read, batch)
        if ":" in self.device:  # of which there is only one
            work = replace(work, processes=work.processes or 1)
        elif work.scheduler is None:
            Runner(model, self.device)  # which builds a simulator once, and not in each process
        where = work.executor(answer_images, network, needed)
        with where as executor, study_progress() as tell:
            return evaluation.run(executor, work.records("evaluate"), fresh=self.fresh, tell=tell)

    def _libraries(self) -> tuple[Library, ...]:
        """Return the libraries that answers depend on."""
        found: dict[str, Library] = {}
        graph = self.model.graph
        for library in {host.segment.library for host in self.model.plan.hosts} - {""}:
            package, extra = library_package(library)
            found[package] = package, extra, f"the CPU part of {graph.name}"
        if self.oracle is not None:
            package, extra = oracle_package(self.oracle)
            found[package] = package, extra, f"--oracle {self.oracle}"
        return tuple(found.values())
