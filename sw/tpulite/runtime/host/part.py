"""Segments of the host: their files, and how they run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from tpulite.graph.graph import Graph, Origin, Tensor
from tpulite.quant.exactness import Exactness
from tpulite.quant.partition import HostSegment
from tpulite.runtime.host.libraries import (
    LackingError,
    Run,
    open_library,
    reads_sums_unsigned,
    require_library,
)
from tpulite.runtime.host.ops import run_node

T = TypeVar("T")
Values = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class LibraryFile:
    """A part of a network's file."""

    data: bytes  #: The file.
    #: Tensors of the graph in the order of the file's inputs, and what they are there.
    inputs: tuple[tuple[str, Origin], ...]
    #: Tensors of the graph, what they are in the file, and which of its outputs each one is.
    outputs: tuple[tuple[str, Origin, int], ...]

    @property
    def is_tflite(self) -> bool:
        """Whether it is a TFLite file, whose bytes 4 to 7 are its kind."""
        return self.data[4:8] == b"TFL3"


@dataclass(frozen=True, eq=False)
class HostPart:
    """A segment of the host, ready to run; its library's session is made once."""

    graph: Graph  #: The network.
    segment: HostSegment  #: The segment.
    exactness: Exactness  #: The numerics.
    file: LibraryFile | None = None  #: What a library runs, if one must.

    def open(self) -> "HostPart":
        """Open the library's session, if there is to be one; return this part.

        ValueError if the library is missing or refuses the operators, all of which are named.
        """
        if self.segment.library:
            self._checked(lambda: require_library(self.segment.library))
            self._checked(lambda: self.part)
            _ = self._run
        return self

    def run(self, values: Values, *, tensors: bool = False) -> dict[str, np.ndarray]:
        """Compute the segment's outputs for one input.

        Parameters
        ----------
        values : mapping of str to ndarray
            At least its inputs, in the graph's shapes and dtypes.
        tensors : bool
            Whether to compute every tensor that the graph and the file have.

        Raises
        ------
        ValueError
            If the library refuses the values.
        """
        if not self.segment.library:
            known = dict(values)
            for node in self.segment.nodes:
                known |= run_node(node, self.graph, known, self.exactness)
            return {name: known[name] for node in self.segment.nodes for name in node.outputs}
        file, run = (self._whole, self._run_whole) if tensors else (self.part, self._run)
        try:
            results = run([self._given(name, origin, values) for name, origin in file.inputs])
            return {
                name: origin.taken(results[index], self.graph.tensors[name])
                for name, origin, index in file.outputs
            }
        except Exception as error:  # a library's, for values that it cannot take; of wrong files
            message = str(error).strip().splitlines() or [type(error).__name__]
            raise ValueError(f"{self._named}: {message[0]}") from error

    def _given(self, name: str, origin: Origin, values: Values) -> np.ndarray:
        """Return what the library gets for a tensor of the graph."""
        tensor = self.graph.tensors[name]
        value = values[name] if tensor.data is None else tensor.data
        if tensor.fits(value):
            value = origin.to_file(value)
        return np.asarray(value, order="C")  # scalars keep their rank

    @cached_property
    def part(self) -> LibraryFile:
        """What a library runs."""
        return self.file or self._cut(tensors=False)

    @cached_property
    def _whole(self) -> LibraryFile:
        return self.file or self._cut(tensors=True)

    def _cut(self, *, tensors: bool) -> LibraryFile:
        if self.segment.library == self.graph.format:
            return cut_segment(self.graph, self.segment, tensors=tensors)
        return write_segment(self.graph, self.segment, self.exactness, tensors=tensors)

    @cached_property
    def _run(self) -> Run:
        return self._opened(self.part)

    @cached_property
    def _run_whole(self) -> Run:
        return self._opened(self._whole)

    def _opened(self, file: LibraryFile) -> Run:
        return self._checked(lambda: open_library(file.data, self.segment.library, self.exactness))

    def _checked(self, step: Callable[[], T]) -> T:
        try:
            return step()
        except Exception as error:  # cutting reads parts of a file that nobody has checked
            kind = LackingError if isinstance(error, LackingError) else ValueError
            raise kind(f"{self._named} run by the library: {error}") from error

    @property
    def _named(self) -> str:
        nodes = self.segment.nodes
        names = ", ".join(f"{node.name!r} ({node.source or node.op})" for node in nodes[:3])
        more = f" and {len(nodes) - 3} more nodes" if len(nodes) > 3 else ""
        return f"{self.graph.name}: {names}{more}"


def cut_segment(graph: Graph, segment: HostSegment, *, tensors: bool = False) -> LibraryFile:
    """Return the part of a network's file that computes a segment.

    Parameters
    ----------
    tensors : bool
        Whether every tensor of it is an output.

    Raises
    ------
    ValueError
        If the graph was not read from a file.
    """
    if graph.source is None:
        reasons = (f"{n.name!r}: {r}" for n, r in zip(segment.nodes, segment.reasons, strict=True))
        raise ValueError(
            f"{graph.name} was not read from a file, so no library can run {next(reasons)}"
        )
    origins = graph.source.origins
    outputs = tuple(name for name in segment.outputs if name in origins)
    if tensors:
        every = [name for node in segment.nodes for name in node.outputs if name in origins]
        outputs = (*outputs, *(name for name in dict.fromkeys(every) if name not in outputs))
    # One name for each; who needs what is no tensor of the file computes it again.
    inputs = {origins[name].key: name for name in segment.inputs if name in origins}
    ends = list(dict.fromkeys(origins[name].key for name in outputs))
    if graph.format == "tflite":
        from tpulite.frontend.tflite.cut import cut_tflite

        data, more = cut_tflite(graph.source.data, list(map(int, inputs)), list(map(int, ends)))
    else:
        from tpulite.frontend.onnx.cut import cut_onnx

        types = {str(key): _file_type(graph.tensors[x], origins[x]) for key, x in inputs.items()}
        data, more = cut_onnx(graph.source.data, types, list(map(str, ends)))
    network = {origins[name].key: name for name in graph.given if name in origins}
    given = (*inputs.values(), *(network[key] for key in more))
    return LibraryFile(
        data,
        tuple((name, origins[name]) for name in given),
        tuple((name, origins[name], ends.index(origins[name].key)) for name in outputs),
    )


def write_segment(
    graph: Graph, segment: HostSegment, exactness: Exactness, *, tensors: bool = False
) -> LibraryFile:
    """Return a TFLite file that computes a segment of a network of another format.

    Parameters
    ----------
    segment : HostSegment
        Operators that TFLite has, between tensors of integers.
    tensors : bool
        Whether every tensor of it is an output.
    """
    from tpulite.frontend.tflite.writer import write_tflite

    every = tuple(name for node in segment.nodes for name in node.outputs)
    outputs = every if tensors else segment.outputs
    ends = {"inputs": segment.inputs, "outputs": outputs, "states": ()}
    part = replace(graph, nodes=segment.nodes, **ends)
    return LibraryFile(
        write_tflite(part, unsigned_sums=reads_sums_unsigned(exactness)),
        tuple((name, Origin(name)) for name in segment.inputs),
        tuple((name, Origin(name), index) for index, name in enumerate(outputs)),
    )


def _file_type(tensor: Tensor, origin: Origin) -> tuple[str, tuple[int, ...]]:
    return origin.dtype(tensor), tensor.shape if origin.shape is None else origin.shape
