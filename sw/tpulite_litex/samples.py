"""Inputs of MLPerf Tiny: as bytes for a device, as tensors for the golden machine."""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["BENCHMARKS", "Benchmark", "Sample", "Tensors", "accuracy", "area_under_curve"]

_SIGN = 0x80
_LABELS = "y_labels.csv"


@dataclass(frozen=True)
class Benchmark:
    """What MLPerf Tiny asks of a network."""

    model: str  #: The benchmark's name for it.
    pixels: bool = False  #: Whether bytes of an input are pixels, from 0 to 255.
    #: Whether the result is how far the output is from the input: the mean of squares.
    reconstructs: bool = False


BENCHMARKS = {
    "ad": Benchmark("ad01", reconstructs=True),
    "kws": Benchmark("kws01"),
    "resnet8": Benchmark("ic01", pixels=True),
    "vww": Benchmark("vww01", pixels=True),
}
"""The closed benchmarks, by the zoo's names."""


@dataclass(frozen=True)
class Tensors:
    """The ends of an exported network, as its JSON file has them."""

    #: The network's input, what of it the chip reads, and the network's output.
    input: Mapping
    chip: Mapping
    output: Mapping
    benchmark: Benchmark  #: What is asked of it.

    @classmethod
    def of(cls, described: Mapping, benchmark: Benchmark) -> "Tensors":
        """Read the description of an exported network.

        Raises
        ------
        ValueError
            If it has not one input and one output, or the chip reads not one tensor.
        """
        tensors, places = described["tensors"], [each["place"] for each in described["tensors"]]
        layouts = described["programs"][0]["inputs"]
        ends = (places.count("input"), places.count("output"), len(layouts), described["batch"])
        if ends != (1, 1, 1, 1):
            raise ValueError(
                f"{described['network']} has {ends[0]} inputs, {ends[1]} outputs, {ends[2]} inputs"
                f" of the chip and a batch of {ends[3]}; the protocol is for one of each"
            )
        return cls(
            tensors[places.index("input")],
            tensors[layouts[0]["tensor"]],
            tensors[places.index("output")],
            benchmark,
        )

    def value(self, data: bytes) -> np.ndarray:
        """Return the network's input that bytes are, of its own type or of the chip's tensor.

        Raises
        ------
        ValueError
            If they are too many or too few.
        """
        if len(data) == _bytes(self.chip):
            flip = _SIGN if self.benchmark.pixels else 0
            integers = (np.frombuffer(data, np.uint8) ^ flip).view(self.chip["dtype"])
            if self.input["dtype"] != "float32":
                return integers.reshape(self.input["shape"])
            (scale,), (zero,) = self.chip["scale"], self.chip["zero_point"]
            values = np.float32(scale) * (integers.astype(np.float32) - np.float32(zero))
            return values.reshape(self.input["shape"])
        if len(data) != _bytes(self.input):
            raise ValueError(
                f"an input has {_bytes(self.input)} or {_bytes(self.chip)} bytes, not {len(data)}"
            )
        return np.frombuffer(data, self.input["dtype"]).reshape(self.input["shape"])

    def random(self, count: int, seed: int) -> Iterator[bytes]:
        """Yield random inputs: of the chip's tensor, but floats if they are to be compared."""
        generator = np.random.default_rng(seed)
        for _ in range(count):
            data = generator.bytes(_bytes(self.chip))
            if self.benchmark.reconstructs:
                data = self.value(data).astype("<f4").tobytes()
            yield data

    def written(self, data: bytes, output: np.ndarray) -> tuple[str, ...]:
        """Return what a device writes of an output."""
        values = output.reshape(-1)
        if self.output["scale"] is not None and values.dtype != np.float32:
            (scale,), (zero,) = self.output["scale"], self.output["zero_point"]
            values = np.float32(scale) * (values.astype(np.int32) - zero).astype(np.float32)
        if not self.benchmark.reconstructs:
            return tuple(f"{value:.3f}" for value in values.tolist())
        total = np.float32(0)
        for difference in values - self.value(data).reshape(-1):
            total += difference * difference
        return (f"{float(total / np.float32(values.size)):.3f}",)


@dataclass(frozen=True)
class Sample:
    """An input."""

    file: str  #: Where it comes from.
    data: bytes  #: What the device gets.
    label: int = -1  #: Its class; -1 if nobody knows.
    classes: int = 0  #: How many there are.

    @classmethod
    def read(cls, folder: Path, limit: int) -> list["Sample"]:
        """Read inputs of a dataset of the benchmark's runner.

        Its ``y_labels.csv`` has lines of file, classes, class, and where a file holds several
        inputs, their bytes and those from one to the next.
        """
        samples = []
        with (folder / _LABELS).open(newline="") as labels:
            rows = [[word.strip() for word in row] for row in csv.reader(labels) if row]
        for name, classes, label, *parts in rows[:limit]:
            data = (folder / name).read_bytes()
            size, stride = map(int, parts) if parts else (len(data), len(data))
            for at in range(0, len(data) - size + 1, stride):
                samples.append(cls(name, data[at : at + size], int(label), int(classes)))
        return samples


def accuracy(results: Mapping[str, Sequence[Sequence[float]]], labels: Mapping[str, int]) -> float:
    """Return the share of files whose mean result is largest at their class."""
    right = [
        int(np.argmax(np.mean(values, axis=0))) == labels[name] for name, values in results.items()
    ]
    return sum(right) / len(right)


def area_under_curve(
    results: Mapping[str, Sequence[Sequence[float]]], labels: Mapping[str, int]
) -> float:
    """Return the ROC AUC of files by their mean result: class 1 should have the larger ones."""
    scores = {name: float(np.mean(values)) for name, values in results.items()}
    normal = [score for name, score in scores.items() if labels[name] == 0]
    other = [score for name, score in scores.items() if labels[name] == 1]
    if not normal or not other:
        raise ValueError("the area under the curve needs inputs of both classes")
    wins = [(b > a) + 0.5 * (b == a) for a in normal for b in other]
    return sum(wins) / len(wins)


def _bytes(tensor: Mapping) -> int:
    return math.prod(tensor["shape"]) * np.dtype(tensor["dtype"]).itemsize
