"""Labels on the command line: names of classes, or the class of each input."""

import math
from pathlib import Path

import numpy as np

from tpulite.cli.common import load_array
from tpulite.graph.graph import Graph


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
