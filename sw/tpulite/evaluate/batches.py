"""Networks whose file fixes a batch: an image is a row of their input."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tpulite.graph.graph import Graph


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
