"""A network in a worker: what it answers to images, as plain values."""

import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tpulite.graph.graph import Graph
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import load_model_file, save_model
from tpulite.runtime.model_run import Runner, join_runs
from tpulite.runtime.oracles import Oracle, open_oracle


def file_batch(graph: Graph) -> int:
    """Return the first extent of all inputs and outputs, if they have one in common, else 1."""
    shapes = [graph.tensors[name].shape for name in (*graph.inputs, *graph.outputs)]
    extents = {shape[0] if len(shape) > 1 else 1 for shape in shapes}
    return max(extents.pop(), 1) if len(extents) == 1 else 1


def of_one_image(graph: Graph) -> Graph:
    """Return a graph whose inputs and outputs have the shapes that one image of the batch has."""
    if file_batch(graph) == 1:
        return graph
    ends = {name: graph.tensors[name] for name in (*graph.inputs, *graph.outputs)}
    single = {name: replace(x, shape=(1, *x.shape[1:])) for name, x in ends.items()}
    return replace(graph, tensors={**graph.tensors, **single})


def in_batches(
    images: Sequence[Mapping[str, np.ndarray]], batch: int
) -> Iterator[dict[str, np.ndarray]]:
    """Yield inputs of so many images each; the last image fills the last batch."""
    for start in range(0, len(images), batch):
        some = [images[min(i, len(images) - 1)] for i in range(start, start + batch)]
        yield {name: np.concatenate([image[name] for image in some]) for name in some[0]}


RANKS = 5
"""Classes of an answer at most, the likeliest first."""


@dataclass(frozen=True, eq=False)
class Network:
    """A compiled network that can be sent anywhere, and what it is compared with."""

    data: bytes  #: The compiled network, as a file.
    device: str  #: Where it runs.
    oracle: str = ""  #: A library that runs it, too; or nothing.
    graph: Graph | None = None  #: What the library runs: as it was read, not simplified.

    @classmethod
    def of(
        cls, model: Model, device: str, oracle: str | None = None, graph: Graph | None = None
    ) -> "Network":
        """Pack a network, which is compiled if it is not."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "network.tpulite"
            save_model(model, path)
            return cls(path.read_bytes(), device, oracle or "", graph)

    def open(self) -> "_Opened":
        """Make it ready to run here."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "network.tpulite"
            path.write_bytes(self.data)
            return _Opened(self, load_model_file(path))


@dataclass(frozen=True, eq=False)
class Images:
    """Some images of a data set."""

    key: str  #: A name for all that answers depend on.
    values: Mapping[str, np.ndarray]  #: Inputs by name, [count, *shape].

    def each(self) -> list[dict[str, np.ndarray]]:
        """Return the inputs of each image by name."""
        count = len(next(iter(self.values.values())))
        return [{name: array[i, ...] for name, array in self.values.items()} for i in range(count)]


@dataclass(frozen=True, eq=False)
class _Opened:
    """A network with its device and its library."""

    network: Network
    model: Model

    @cached_property
    def runner(self) -> Runner:
        return Runner(self.model, self.network.device)

    @cached_property
    def library(self) -> Oracle | None:
        network = self.network
        if network.graph is None:
            return None
        return open_oracle(network.oracle, Path(network.graph.name), network.graph)

    def _theirs(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the library's outputs for an input that has nothing to do with others."""
        assert self.library is not None
        self.library.reset()
        return self.library.outputs(values)

    def answer(self, images: Images) -> dict[str, Any]:
        each, names = images.each(), self.model.graph.outputs
        batch = file_batch(self.model.graph)
        runs = each if batch == 1 else list(in_batches(each, batch))
        run = join_runs(list(self.runner.runs(runs, reset=True)))
        ours = _by_image(run.outputs, batch * len(runs))[: len(each)]
        record: dict[str, Any] = {
            "ranked": [self._ranked(one[names[0]]) for one in ours] if len(names) == 1 else None,
            "cycles": run.cycles,
        }
        if self.library is not None:
            theirs = [x for one in runs for x in _by_image(self._theirs(one), batch)]
            pairs = list(zip(ours, theirs, strict=False))  # images that fill a batch do not count
            for field, alike in (("equal", _equal), ("same", self._same)):
                record[field] = [
                    all(alike(a[x], b[x].reshape(-1)) for x in names) for a, b in pairs
                ]
        return record

    def _ranked(self, values: np.ndarray) -> list[int]:
        """Return the likeliest classes."""
        values = values[: self.model.graph.classes]
        order = np.argsort(-values.astype(np.float64), kind="stable")
        return order[:RANKS].tolist()

    def _same(self, a: np.ndarray, b: np.ndarray) -> bool:
        return self._ranked(a)[0] == self._ranked(b)[0]


_here = threading.local()
"""Of each thread of a worker: the network that it has opened."""


def answer_images(network: Network, images: Images) -> dict[str, Any]:
    """Run images.

    Parameters
    ----------
    network : Network
        The network; a thread opens it once.

    Returns
    -------
    dict
        Plain values. ``ranked``: the :data:`RANKS` likeliest classes of each image, of those that
        are alike the first, or None for a network of several outputs. ``cycles``: those of each
        run, None if the device has no clock. With a library, ``equal`` and ``same``: for each image
        whether all outputs have its bits, and whether their largest elements are the same ones.

    Raises
    ------
    ValueError
        If a library or the device is missing.
    RuntimeError
        If the machine stops at a fault.
    """
    opened = getattr(_here, "opened", None)
    if opened is None or opened.network is not network:
        opened = _here.opened = network.open()
    return opened.answer(images)


def _by_image(outputs: Mapping[str, np.ndarray], count: int) -> list[dict[str, np.ndarray]]:
    """Return the outputs of each of so many images."""
    rows = {name: values.reshape(count, -1) for name, values in outputs.items()}
    return [{name: values[i] for name, values in rows.items()} for i in range(count)]


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()
