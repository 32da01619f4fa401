"""Inputs on the command line: pictures, arrays, folders of them, and samples to quantize with."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from tpulite.cli.common import load_inputs
from tpulite.cli.help import Parsed, Topic, option
from tpulite.cli.paths import DATA
from tpulite.counted import counted
from tpulite.graph.graph import Graph, Tensor
from tpulite.quant.exactness import Exactness
from tpulite.runtime.inputs import as_inputs, check_inputs, random_inputs
from tpulite.runtime.pictures import PICTURES, load_picture, picture_remark
from tpulite.runtime.states import States

_ARRAYS = (".npy", ".npz")

PAIRS = (("x", "y"), ("images", "labels"), ("x_test", "y_test"))
"""What archives call images and their classes."""


def _pixels(text: str) -> tuple[float, float]:
    """Read two numbers, LOW:HIGH."""
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        raise ValueError(f"{text} is not a range LOW:HIGH, like 0:1 or -1:1") from None
    if not np.isfinite([low, high]).all() or low == high:
        raise ValueError(f"{text} must be two different finite numbers")
    return low, high


PIXELS = Parsed("low:high", _pixels)

source_option = option(
    "--input",
    "source",
    group=Topic.INPUT,
    type=DATA,
    help="Inputs: an image (PNG, JPEG, BMP), an array (.npy, .npz), a folder of them, or digits.",
)

pixels_option = option(
    "--pixels",
    group=Topic.INPUT,
    type=PIXELS,
    metavar="LOW:HIGH",
    help="Range of the training, such as -1:1, to which pixels are scaled.  [default: the "
    "input's full range]",
)


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs of a network."""

    values: dict[str, np.ndarray]  #: By name, [count, *shape].
    names: tuple[str, ...]  #: What each is called: its file, with a number if that holds several.
    remarks: tuple[str, ...] = ()  #: What was done to them, in words.
    #: States that the first of them finds, by name; the others as the network has them.
    states: dict[str, np.ndarray] = field(default_factory=dict)
    labels: np.ndarray | None = None  #: The class of each, if their file is a data set.

    def each(self, limit: int | None = None) -> list[dict[str, np.ndarray]]:
        """Return the first inputs, each by names."""
        count = min(len(self.names), limit or len(self.names))
        return [{name: x[i, ...] for name, x in self.values.items()} for i in range(count)]

    @classmethod
    def drawn(cls, graph: Graph, count: int, seed: int) -> "Inputs":
        """Return random inputs."""
        values, count = check_inputs(graph, random_inputs(graph, count, seed))
        names = tuple(f"input {number}" for number in range(count)) if count > 1 else ("input",)
        return cls(values, names, (f"{counted(count, 'random input')}, seed {seed}",))


@dataclass(frozen=True)
class InputReader:
    """How files become inputs of a network."""

    graph: Graph  #: The network.
    exact: Exactness  #: Whose rounding quantizes.
    pixels: tuple[float, float] | None = None  #: What black and white are to the network.
    #: Whether a file may give states, too, by their names: for all that are read, not for each.
    states: bool = False

    def read(self, path: Path, limit: int | None = None) -> Inputs:
        """Read a file, or all pictures and arrays of a folder by their names.

        Parameters
        ----------
        limit : int, optional
            Read no more files of a folder than that.

        Raises
        ------
        ValueError
            If something cannot be read or does not suit the network; the file comes first.
        """
        if not path.is_dir():
            return self._file(path)
        files = (x for x in sorted(path.iterdir()) if x.suffix.lower() in (*PICTURES, *_ARRAYS))
        parts = [self._file(x) for x in islice(files, limit)]
        if not parts:
            kinds = ", ".join((*PICTURES, *_ARRAYS))
            raise ValueError(f"{path} has no files with a suffix of {kinds}")
        values = {
            name: np.concatenate([part.values[name] for part in parts])
            for name in self.graph.inputs
        }
        names, remarks = (
            tuple(x for part in parts for x in getattr(part, field))
            for field in ("names", "remarks")
        )
        states = {name: state for part in parts[::-1] for name, state in part.states.items()}
        return Inputs(values, names, tuple(dict.fromkeys(remarks)), states)

    def _file(self, path: Path) -> Inputs:
        if path.suffix.lower() in PICTURES:
            with errors_named(path):
                image = load_picture(path, self.graph, self.exact, self.pixels)
            (name,) = self.graph.inputs
            remark = picture_remark(self.graph, self.pixels)
            return Inputs({name: image[None]}, (path.name,), (remark,))
        given, labels = load_inputs(path), None
        with errors_named(path):
            remarks, states = {}, {}
            if self.states and not isinstance(given, np.ndarray):
                names = [state.name for state in self.graph.states if state.name in given]
                states = {name: given.pop(name) for name in names}
                States(self.graph).begin(states)  # raises if one does not fit
            if not isinstance(given, np.ndarray):
                given, labels = self._images(given)
            if isinstance(given, np.ndarray) and len(self.graph.inputs) == 1:
                given = {self.graph.inputs[0]: given}
            if not isinstance(given, np.ndarray):
                converted = dict(self._converted(given, remarks))
                given = given | converted
            values, count = check_inputs(self.graph, given)
        names = [f"{path.name}[{i}]" for i in range(count)] if count > 1 else [path.name]
        said = tuple(f"{path.name}: {x}" for x in remarks)
        return Inputs(values, tuple(names), said, states, labels)

    def _images(
        self, given: dict[str, np.ndarray]
    ) -> tuple[np.ndarray | dict[str, np.ndarray], np.ndarray | None]:
        """Return the images of a data set and their classes; other arrays as they are."""
        for images, classes in PAIRS:
            found = images in given and classes in given and images not in self.graph.inputs
            if found and len(self.graph.inputs) == 1:
                tensor = self.graph.tensors[self.graph.inputs[0]]
                return image_shaped(given[images], tensor), given[classes]
        return given, None

    def _converted(
        self, given: dict[str, np.ndarray], remarks: dict[str, None]
    ) -> Iterator[tuple[str, np.ndarray]]:
        for name, values in given.items():
            if name in self.graph.inputs:
                converted, said = as_inputs(values, self.graph.tensors[name], self.exact)
                if said:
                    remarks[said] = None
                yield name, converted


def image_shaped(images: np.ndarray, tensor: Tensor) -> np.ndarray:
    """Return images, each of which may be flat, in the shape of an input."""
    shape = tensor.shape[1:]
    if images.ndim == 2 and images.shape[1] == math.prod(shape):
        return images.reshape(-1, *shape)
    return images


@contextmanager
def drawn_named(source: Path | None) -> Iterator[None]:
    """Let an error within say how to give inputs, if those that it may be about were drawn."""
    try:
        yield
    except ValueError as error:
        if source is None:
            raise ValueError(
                f"{error}; the inputs were random: give your own with --input"
            ) from error
        raise


@contextmanager
def errors_named(path: Path, *others: Path) -> Iterator[None]:
    """Let an error within begin with a file, unless it begins with that or another one."""
    try:
        yield
    except ValueError as error:
        if str(error).startswith(tuple(map(str, (path, *others)))):
            raise
        raise ValueError(f"{path}: {error}") from error


Samples = np.ndarray | list[dict[str, np.ndarray]]
"""An array of samples along its first axis, or the inputs of each by name."""


def read_feeds(
    path: Path, graph: Graph, data: bytes, pixels: tuple[float, float] | None = None
) -> tuple[list[dict[str, np.ndarray]], tuple[str, ...]]:
    """Read samples as the inputs of an ONNX file of floats take them.

    Parameters
    ----------
    path, graph, pixels
        As of :func:`read_samples`.

    Returns
    -------
    feeds : list of dict of str to ndarray
        The inputs of each sample by name.
    remarks : tuple of str
        As of :func:`read_samples`.

    Raises
    ------
    ValueError
        If something cannot be read, does not suit the network (the file of the samples then comes
        first), or the network is no ONNX file of floats.
    """
    from tpulite.quant.calibrate import check_samples, fixed_batch

    fixed_batch(data)  # whose errors are about the network
    samples, remarks = read_samples(path, graph, pixels)
    with errors_named(path):
        return check_samples(data, samples), remarks


def read_samples(
    path: Path, graph: Graph, pixels: tuple[float, float] | None = None
) -> tuple[Samples, tuple[str, ...]]:
    """Read samples: an array (.npy, .npz), a picture, or a folder of them.

    Parameters
    ----------
    graph : Graph
        The network, whose input says how large pictures are.
    pixels : (float, float), optional
        What black and white are to the network; 0 and 1 by default.

    Returns
    -------
    samples : ndarray or list of dict of str to ndarray
        The samples.
    remarks : tuple of str
        What was done to them, in words.

    Raises
    ------
    ValueError
        If something cannot be read or does not suit the network; the file comes first.
    """
    if not path.is_dir() and path.suffix.lower() not in PICTURES:
        given = load_inputs(path)
        if isinstance(given, np.ndarray):
            if not given.ndim:
                raise ValueError(f"{path} must hold samples along its first axis, not one number")
            return given, ()
        counts = {len(values) for values in given.values() if values.ndim}
        if len(counts) != 1:
            raise ValueError(f"{path} must hold as many of each input, not {sorted(counts)}")
        return [
            {name: values[i] if values.ndim else values for name, values in given.items()}
            for i in range(counts.pop())
        ], ()  # one number is that of all samples
    read = InputReader(graph, Exactness.ORT, pixels).read(path)
    each = [{name: read.values[name][i] for name in graph.inputs} for i in range(len(read.names))]
    return each, read.remarks
