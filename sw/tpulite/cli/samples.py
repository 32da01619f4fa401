"""Samples on the command line: what a network of floats is calibrated with."""

from pathlib import Path

import numpy as np

from tpulite.cli.common import load_inputs
from tpulite.cli.inputs import InputReader, errors_named
from tpulite.graph.graph import Graph
from tpulite.quant.exactness import Exactness
from tpulite.runtime.pictures import PICTURES

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
        counts = {len(values) if values.ndim else 0 for values in given.values()}
        if len(counts) != 1:
            raise ValueError(f"{path} must hold as many of each input, not {sorted(counts)}")
        return [{name: given[name][i] for name in given} for i in range(counts.pop())], ()
    read = InputReader(graph, Exactness.ORT, pixels).read(path)
    each = [{name: read.values[name][i] for name in graph.inputs} for i in range(len(read.names))]
    return each, read.remarks
