"""An evaluation: images in ranges, answers from the store or from workers, and what they say."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpulite.evaluate.network import RANKS, Images, Network
from tpulite.executors import Executor
from tpulite.executors.kept import Records, run_kept

Tell = Callable[[int, int], None]
"""Called with how many images are answered, and how many there are."""

_RANGE = 16
"""Images of a task: some work for most networks, and little that an interruption loses."""


@dataclass(frozen=True)
class Answers:
    """Answers to the images of a data set, in their order."""

    #: What is known of each image: its likeliest classes, ``ranked``; ``equal`` and ``same`` if a
    #: library ran it, too. Empty if its task failed.
    images: tuple[Mapping[str, Any], ...]
    #: Different numbers of cycles that runs took, if the device has a clock.
    cycles: tuple[int, ...]
    failures: Mapping[str, int]  #: How many images have no answers, by reason.


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A network and a data set."""

    network: Network  #: The network.
    identity: str  #: What answers depend on besides network and images.
    count: int  #: How many images there are.
    #: Returns images from one number up to another: inputs by name, [count, *shape].
    read: Callable[[int, int], Mapping[str, np.ndarray]]
    batch: int = 1  #: Images that a run of the machine takes.

    def run(
        self,
        executor: Executor[Images, dict[str, Any]],
        records: Records,
        *,
        fresh: bool = False,
        tell: Tell = lambda *_: None,
    ) -> Answers:
        """Answer all images; what is known already is not asked again.

        ValueError if an image cannot be read; OSError if answers cannot be kept.
        """
        ranges: dict[str, list[range]] = {}
        images: list[dict[str, Any]] = [{} for _ in range(self.count)]
        cycles: set[int] = set()
        failures: dict[str, int] = {}
        answered = 0
        tell(answered, self.count)
        for done in run_kept(self._tasks(ranges), executor, records, fresh=fresh):
            numbers = ranges[done.task].pop()
            answered += len(numbers)
            tell(answered, self.count)
            if done.result is None:
                failures[done.failure] = failures.get(done.failure, 0) + len(numbers)
                continue
            cycles.update(done.result["cycles"] or ())
            for place, number in enumerate(numbers):
                images[number] = {
                    name: done.result[name][place]
                    for name in ("ranked", "equal", "same")
                    if done.result.get(name) is not None
                }
        return Answers(tuple(images), tuple(sorted(cycles)), failures)

    def _tasks(self, ranges: dict[str, list[range]]) -> Iterator[Images]:
        """Yield images in ranges, and note where those of each key belong."""
        network = hashlib.blake2b(digest_size=16)
        graph = self.network.graph
        source = graph.source if graph is not None else None
        for part in (self.identity, self.network.device, self.network.oracle):
            network.update(f"{part}\n".encode())
        for data in (self.network.data, b"" if source is None else source.data):
            network.update(f"{len(data)}\n".encode() + data)
        step = -(-_RANGE // self.batch) * self.batch
        for start in range(0, self.count, step):
            numbers = range(start, min(start + step, self.count))
            values = self.read(numbers.start, numbers.stop)
            digest = network.copy()
            for name, array in values.items():
                digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
                digest.update(np.ascontiguousarray(array).data)
            ranges.setdefault(digest.hexdigest(), []).append(numbers)
            yield Images(digest.hexdigest(), values)


@dataclass(frozen=True)
class Confusion:
    """How many images of a class are taken for another."""

    label: int
    answer: int
    images: int


@dataclass(frozen=True, eq=False)
class Score:
    """Answers to labelled images."""

    #: Ndarray of int, [classes, classes]. How many images of each class got which answer.
    table: np.ndarray
    among: int  #: How many have their class among the :data:`RANKS` likeliest.

    @classmethod
    def of(cls, images: Sequence[Mapping[str, Any]], labels: np.ndarray, classes: int) -> "Score":
        """Count; images without answers do not count."""
        table, among = np.zeros((classes, classes), np.int64), 0
        for image, label in zip(images, labels.tolist(), strict=True):
            if image:
                table[label, image["ranked"][0]] += 1
                among += label in image["ranked"]
        return cls(table, among)

    @property
    def count(self) -> int:
        """How many images count."""
        return int(self.table.sum())

    @property
    def right(self) -> int:
        """How many are right."""
        return int(self.table.trace())

    @property
    def has_ranks(self) -> bool:
        """Whether there are so many classes that it says something to be among the likeliest."""
        return len(self.table) > RANKS

    def confusions(self) -> tuple[Confusion, ...]:
        """Return what is taken for something else, the most frequent first."""
        wrong = self.table - np.diag(self.table.diagonal())
        places = zip(*(index.tolist() for index in np.nonzero(wrong)), strict=True)
        found = [Confusion(a, b, int(wrong[a, b])) for a, b in places]
        return tuple(sorted(found, key=lambda each: -each.images))
