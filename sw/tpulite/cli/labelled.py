"""Data sets on the command line: images, their classes, and names of classes."""

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from tpulite.cli.common import load_array, load_inputs
from tpulite.cli.inputs import PAIRS, errors_named, image_shaped
from tpulite.graph.graph import Graph
from tpulite.quant.exactness import Exactness
from tpulite.runtime.inputs import as_inputs, check_inputs
from tpulite.runtime.pictures import (
    PICTURES,
    load_picture,
    picture_remark,
    pixel_remark,
    pixels_to_inputs,
)


def load_names(path: Path, graph: Graph) -> tuple[str, ...]:
    """Read the names of a network's classes, one a line.

    ValueError if it is no text, or there are not as many as the network has classes.
    """
    try:
        names = tuple(line.strip() for line in path.read_text().rstrip().splitlines())
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file with a name per line") from error
    classes = count_classes(graph)
    if len(names) != classes:
        raise ValueError(f"{path} has {len(names)} names, and the network {classes} classes")
    return names


def load_classes(path: Path, count: int, graph: Graph) -> np.ndarray:
    """Read a class for each of so many inputs from a .npy file.

    ValueError if they are no classes of the only output, or not so many.
    """
    return check_classes(path, load_array(path), count, graph)


def check_classes(path: Path, labels: np.ndarray, count: int, graph: Graph) -> np.ndarray:
    """Return a class for each of so many inputs, [count], from what a file has.

    ValueError if they are no classes of the only output, or not so many.
    """
    integers = np.issubdtype(labels.dtype, np.integer)
    if labels.size != count or len(labels.reshape(-1)) != len(labels) or not integers:
        raise ValueError(
            f"{path} must hold {count} integers, one per input, not {labels.dtype} of shape "
            f"{list(labels.shape)}"
        )
    classes = count_classes(graph)
    labels = labels.reshape(-1)
    if wrong := [int(label) for label in labels if not 0 <= label < classes]:
        raise ValueError(f"{path}: labels must be from 0 to {classes - 1}, not {wrong[0]}")
    return labels


def count_classes(graph: Graph) -> int:
    """Return how many values of the only output are classes; ValueError if there are several."""
    if len(graph.outputs) != 1:
        raise ValueError(f"labels need a network with one output, not {list(graph.outputs)}")
    return graph.classes or math.prod(graph.tensors[graph.outputs[0]].shape)


Values = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class DataSet:
    """Images, and perhaps their classes."""

    names: Sequence[str]  #: What each image is called.
    labels: np.ndarray | None  #: The class of each.
    #: Returns images from one number up to another, as inputs of the network by name.
    read: Callable[[int, int], Values]
    remark: str = ""  #: What is done to them, in words.


@dataclass(frozen=True)
class SetReader:
    """How files become labelled inputs of a network."""

    graph: Graph  #: The network, with one input.
    exact: Exactness  #: Whose rounding quantizes.
    classes: int  #: How many classes there are; 0 if the network has several outputs.
    names: Sequence[str] = ()  #: Names of the classes, if they are known.
    pixels: tuple[float, float] | None = None  #: What black and white are to the network.

    def read(self, path: Path, labels: Path | None = None) -> DataSet:
        """Read a data set: a folder of pictures, or an archive of arrays.

        Parameters
        ----------
        path : Path
            A folder with a folder of pictures for each class; one of pictures; or a .npz file with
            images ``x`` and classes ``y``.
        labels : Path, optional
            Classes, if the data have none: of each image in order (.npy), or lines FILE,CLASS.

        Raises
        ------
        ValueError
            If something cannot be read or does not suit the network; the file comes first.
        """
        if len(self.graph.inputs) != 1:
            raise ValueError(f"{path}: an image is one input, and the network has several")
        if path.is_dir():
            return self._folder(path, labels)
        return self._archive(path, labels)

    def _archive(self, path: Path, labels: Path | None) -> DataSet:
        given = load_inputs(path)
        arrays = {"x": given} if isinstance(given, np.ndarray) else given
        pair = next((pair for pair in PAIRS if pair[0] in arrays), None)
        if pair is None:
            known = " or ".join(f"{x!r} and {y!r}" for x, y in PAIRS)
            raise ValueError(f"{path} must hold {known}, not {', '.join(arrays) or 'nothing'}")
        images, classes = arrays[pair[0]], arrays.get(pair[1])
        if labels is not None and classes is not None:
            raise ValueError(f"{path} has its own classes, {pair[1]!r}: leave out --labels")
        if not images.ndim or not len(images):
            raise ValueError(f"{path} holds no images")
        whose = path if labels is None else labels
        if labels is not None:
            classes = load_array(labels) if labels.suffix == ".npy" else None
            if classes is None:
                raise ValueError(f"{labels} must be a .npy file with a class per image")
        if classes is not None:
            classes = self._checked(whose, classes, len(images))
        self._convert(path, images, 0, 1)
        names = [f"{path.name}[{i}]" for i in range(len(images))]
        return DataSet(names, classes, partial(self._convert, path, images), self._remark(images))

    def _folder(self, path: Path, labels: Path | None) -> DataSet:
        folders = sorted(each for each in path.iterdir() if each.is_dir())
        if labels is not None:
            files, classes = self._listed(path, labels)
        elif folders:
            files, classes = [], []
            for folder, label in zip(folders, self._numbers(path, folders), strict=True):
                found = _pictures(folder)
                files += found
                classes += [label] * len(found)
        else:
            files, classes = _pictures(path), None
        if not files:
            raise ValueError(f"{path} holds no images ({', '.join(PICTURES)})")
        array = None
        if classes is not None:
            array = self._checked(labels or path, np.array(classes), len(files))
        names = [file.relative_to(path).as_posix() for file in files]
        remark = picture_remark(self.graph, self.pixels)
        return DataSet(names, array, partial(self._load, files), remark)

    def _listed(self, path: Path, labels: Path) -> tuple[list[Path], list[int]]:
        """Return the pictures and classes of a file of labels."""
        if labels.suffix == ".npy":
            files, classes = _pictures(path), load_array(labels)
            return files, self._checked(labels, classes, len(files)).tolist()
        try:
            rows = [row for row in csv.reader(labels.read_text().splitlines()) if row]
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"{labels} must have lines FILE,CLASS: {error}") from error
        files, classes = [], []
        for number, row in enumerate(rows, start=1):
            if len(row) != 2:
                raise ValueError(f"{labels}, line {number}: not FILE,CLASS")
            name, label = (text.strip() for text in row)
            if not (file := path / name).is_file():
                if number == 1 and label not in self.names and not label.isdecimal():
                    continue  # headings
                raise ValueError(f"{labels}, line {number}: no such file: {file}")
            files.append(file)
            classes.append(self._number(f"{labels}, line {number}", label))
        return files, classes

    def _numbers(self, path: Path, folders: Sequence[Path]) -> list[int]:
        """Return the classes of folders: by name, by number, or in alphabetical order."""
        names = [folder.name for folder in folders]
        if self.names or all(name.isdecimal() for name in names):
            return [self._number(f"{path / name}", name) for name in names]
        if len(names) != self.classes:
            raise ValueError(
                f"{path} has {len(names)} folders, and the network {self.classes} classes: give "
                "their order with --names"
            )
        return list(range(len(names)))

    def _number(self, where: str, label: str) -> int:
        if label in self.names:
            return self.names.index(label)
        if not label.isdecimal():
            raise ValueError(f"{where}: unknown class {label!r}")
        return int(label)

    def _checked(self, path: Path, labels: np.ndarray, count: int) -> np.ndarray:
        """Return classes, of which there must be so many."""
        if labels.size != count or not np.issubdtype(labels.dtype, np.integer):
            raise ValueError(
                f"{path} must hold {count:,} integers, a class per image, not {labels.dtype} "
                f"of shape {list(labels.shape)}"
            )
        labels = labels.reshape(-1).astype(np.int64)
        wrong = labels[(labels < 0) | (labels >= self.classes)]
        if self.classes and wrong.size:
            limit = self.classes - 1
            raise ValueError(f"{path}: classes must be from 0 to {limit}, not {wrong[0]}")
        return labels

    def _load(self, files: Sequence[Path], start: int, stop: int) -> Values:
        images = []
        for file in files[start:stop]:
            with errors_named(file):
                images.append(load_picture(file, self.graph, self.exact, self.pixels))
        return {self.graph.inputs[0]: np.stack(images)}

    def _convert(self, path: Path, images: np.ndarray, start: int, stop: int) -> Values:
        name, part = self.graph.inputs[0], images[start:stop]
        with errors_named(path):
            if self._are_pixels(images):
                return {name: pixels_to_inputs(part, self.graph, self.exact, self.pixels)}
            tensor = self.graph.tensors[name]
            part, _ = as_inputs(part, tensor, self.exact)
            return check_inputs(self.graph, {name: image_shaped(part, tensor)})[0]

    def _are_pixels(self, images: np.ndarray) -> bool:
        """Tell bytes that are pixels from those that are the network's own integers."""
        dtype = self.graph.tensors[self.graph.inputs[0]].dtype
        return images.dtype == np.uint8 and (dtype != "uint8" or self.pixels is not None)

    def _remark(self, images: np.ndarray) -> str:
        if self._are_pixels(images):
            return pixel_remark(self.graph, self.pixels)
        return as_inputs(images[:1], self.graph.tensors[self.graph.inputs[0]], self.exact)[1]


def _pictures(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.suffix.lower() in PICTURES)
