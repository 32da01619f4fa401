"""A network as firmware has it: an image that the chip reads, a memory, and the steps of a run."""

import math
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.memory import PAGE_BYTES, Window
from tpulite.export.host_steps import HostCall, copied
from tpulite.export.library_steps import planned_calls
from tpulite.graph.graph import Graph, State, Tensor
from tpulite.graph.layers import has_int16
from tpulite.program import Program
from tpulite.quant.partition import HostSegment, MachineSegment
from tpulite.runtime.model import Model
from tpulite.tensor_spec import TensorSpec

_TYPES = ("float32", "int8", "uint8", "int16", "int32", "int64")
"""Of tensors that C knows."""

_WORK_ALIGNMENT = 16

_SHARED = (Window.INPUT, Window.OUTPUT, Window.SCRATCH)


@dataclass(frozen=True, eq=False)
class HostTensor:
    """A tensor of the host."""

    tensor: Tensor  #: What it is; a constant has its data.
    place: str  #: ``INPUT``, ``OUTPUT``, ``MEMORY`` or ``CONSTANT``.
    index: int = 0  #: Which input or output, or its first byte in the memory.

    @property
    def nbytes(self) -> int:
        """Bytes of one input."""
        return math.prod(self.tensor.shape) * np.dtype(self.tensor.dtype).itemsize


@dataclass(frozen=True)
class HostStep:
    """An operator of the CPU, the tensors that it reads, one or two, and its result, by number."""

    call: HostCall
    sources: tuple[int, ...]
    target: int


@dataclass(frozen=True, eq=False)
class ExportedProgram:
    """A program in the image, and its windows in the memory."""

    program: Program  #: The program.
    #: Their first bytes in the image.
    constants: int
    commands: int
    windows: Mapping[Window, int]  #: First byte in the memory of each window but the constants.
    #: Fields of their layouts, by :func:`tpulite.export.network.layout_fields`.
    inputs: tuple[Mapping[str, object], ...]
    outputs: tuple[Mapping[str, object], ...]


@dataclass(frozen=True, eq=False)
class ExportedState:
    """A state, and its tensors by their numbers: ``source`` behind a run, ``target`` before."""

    state: State
    source: int
    target: int


@dataclass(frozen=True, eq=False)
class ExportedNetwork:
    """Everything that the sources hold."""

    graph: Graph  #: The network.
    config: Config  #: The machine.
    batch: int  #: Inputs of a run.
    image: bytes  #: Constants and commands of all programs, each from a page on.
    memory_bytes: int  #: Windows, which programs share, then tensors between steps of the host.
    tensors: tuple[HostTensor, ...]  #: Tensors of the host; steps and layouts have their numbers.
    steps: tuple[HostStep | ExportedProgram, ...]  #: In the order of a run.
    #: What is copied behind a run, for the next. No source is a target.
    states: tuple[ExportedState, ...] = ()

    @property
    def programs(self) -> tuple[ExportedProgram, ...]:
        """Programs in the order of a run."""
        return tuple(step for step in self.steps if isinstance(step, ExportedProgram))

    @property
    def classes(self) -> int:
        """How many values of the first output are classes."""
        graph = self.graph
        return graph.classes or math.prod(graph.tensors[graph.outputs[0]].shape)


def export_network(model: Model) -> ExportedNetwork:
    """Lay out a network for firmware.

    Raises
    ------
    ValueError
        If :func:`check_exportable` refuses it, or tensors have types or values that the C code
        cannot have.
    """
    check_exportable(model)
    return _Exporter(model).network()


@dataclass(eq=False)
class _Exporter:
    """What has been laid out so far."""

    model: Model
    image: bytearray = field(default_factory=bytearray)
    laid: dict[bytes, int] = field(default_factory=dict)
    tensors: list[HostTensor] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    memory_bytes: int = 0

    @property
    def batch(self) -> int:
        return max(program.batch for program in self.model.programs)

    def network(self) -> ExportedNetwork:
        model, graph = self.model, self.model.graph
        places = [_windows(program) for program in model.programs]
        self.memory_bytes = max(end for _, end in places)
        for index, name in enumerate(graph.inputs):
            self._add(graph.tensors[name], "INPUT", index)
        for index, name in enumerate(graph.outputs):
            if not self._is_given(name):
                self._add(graph.tensors[name], "OUTPUT", index)
        programs = iter(zip(model.programs, places, strict=True))
        steps: list[HostStep | ExportedProgram] = []
        for segment in model.segments:
            if isinstance(segment, MachineSegment):
                program, (windows, _) = next(programs)
                steps.append(self._program(program, windows))
            elif isinstance(segment, HostSegment):
                steps += self._host(segment)
        steps += self._passed_on()
        states = []
        for state in graph.states:
            source, target = self._number(state.output), self._number(state.input)
            if self._is_given(state.output):  # perhaps what another state held, which changes
                tensor, given = graph.tensors[state.output], source
                source = self._add(tensor, "MEMORY")
                steps.append(HostStep(copied(tensor), (given,), source))
            states.append(ExportedState(state, source, target))
        return ExportedNetwork(
            graph,
            model.config,
            self.batch,
            bytes(self.image),
            _up(self.memory_bytes, PAGE_BYTES),
            tuple(self.tensors),
            tuple(steps),
            tuple(states),
        )

    def _host(self, segment: HostSegment) -> Iterator[HostStep]:
        for node, call in planned_calls(segment, self.model.graph, self.model.exactness):
            assert call is not None, "check_exportable refuses it"
            numbers = tuple(self._number(name) for name in call.reads)
            yield HostStep(call.make(), numbers, self._number(node.outputs[0]))

    def _passed_on(self) -> Iterator[HostStep]:
        """Yield copies of the outputs that nobody computes: inputs and constants."""
        graph = self.model.graph
        for index, name in enumerate(graph.outputs):
            if self._is_given(name):
                tensor, source = graph.tensors[name], self._number(name)
                yield HostStep(copied(tensor), (source,), self._add(tensor, "OUTPUT", index))

    def _is_given(self, name: str) -> bool:
        graph = self.model.graph
        return name in graph.given or graph.tensors[name].data is not None

    def _program(self, program: Program, windows: Mapping[Window, int]) -> ExportedProgram:
        constants, commands = self._lay(program.constants), self._lay(program.encode())
        tensors, config = self.model.graph.tensors, self.model.config
        inputs, outputs = (
            tuple(
                layout_fields(
                    spec,
                    config,
                    tensor=self._number(spec.name),
                    offset=windows[spec.window],
                    flip=spec.dtype != tensors[spec.name].dtype,
                )
                for spec in specs
            )
            for specs in (program.inputs, program.outputs)
        )
        return ExportedProgram(program, constants, commands, windows, inputs, outputs)

    def _lay(self, data: bytes) -> int:
        """Add a part to the image, unless it is there, and return its first byte."""
        if data not in self.laid:
            start = self.laid[data] = _up(len(self.image), PAGE_BYTES)
            self.image += bytes(start - len(self.image)) + data
        return self.laid[data]

    def _number(self, name: str) -> int:
        """Return the number of a tensor, which may be new."""
        if name not in self.numbers:
            tensor = self.model.graph.tensors[name]
            self._add(tensor, "MEMORY" if tensor.data is None else "CONSTANT")
        return self.numbers[name]

    def _add(self, tensor: Tensor, place: str, index: int = 0) -> int:
        if tensor.dtype not in _TYPES:
            raise ValueError(f"Tensor {tensor.name!r} is {tensor.dtype}: C code has {_TYPES}")
        added = HostTensor(tensor, place, index)
        if place == "MEMORY":
            start = _up(self.memory_bytes, _WORK_ALIGNMENT)
            added = HostTensor(tensor, place, start)
            self.memory_bytes = start + self.batch * added.nbytes
        self.numbers.setdefault(tensor.name, len(self.tensors))
        self.tensors.append(added)
        return len(self.tensors) - 1


def _windows(program: Program) -> tuple[dict[Window, int], int]:
    """Return the first byte of each window that the host or the chip writes, and the end."""
    starts, end = {}, 0
    for window in _SHARED:
        starts[window] = _up(end, PAGE_BYTES)
        end = starts[window] + program.window_bytes[window]
    return starts, end


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def check_exportable(model: Model) -> None:
    """Check what can be checked of a network before it is compiled.

    ValueError if an operator on the CPU has no function in C, all of which are named, nothing is
    left for the machine, or an option asks for programs that differ from run to run.
    """
    graph = model.graph
    refused = {}
    for segment in model.segments:
        if isinstance(segment, HostSegment):
            reasons = dict(zip((node.name for node in segment.nodes), segment.reasons, strict=True))
            for node, call in planned_calls(segment, graph, model.exactness):
                if call is None:
                    named = f"{node.source or node.op} {node.name!r}"
                    refused[node.name] = f"{named} ({reasons[node.name]})"
    if refused:
        ends = ",".join(_ends_before(model, refused))
        way = "--inputs and --outputs leave out what lies at the ends"
        if ends:
            way = f"with --outputs {shlex.quote(ends)} the network ends before that"
        raise ValueError(
            f"{graph.name} cannot be exported: firmware has no function for "
            f"{'; '.join(refused.values())}; {way}"
        )
    if not model.layers:
        raise ValueError(f"{graph.name} cannot be exported: nothing of it runs on the machine")
    ends = {x for layers in model.layers for x in (*layers.inputs, *layers.outputs)}
    wide = {x for x in ends if x in graph.tensors and graph.tensors[x].dtype == "int16"}
    if wide or any(map(has_int16, model.layers)):
        raise ValueError(
            f"{graph.name} cannot be exported: firmware has no layout of int16 activations"
        )
    if model.options.resident:
        raise ValueError("--resident cannot be exported: it makes another program for later runs")


def _ends_before(model: Model, refused: Collection[str]) -> tuple[str, ...]:
    """Return the tensors that end a network before some nodes, by their names in its file.

    They are the last ones that need none of these nodes. Empty if the machine would compute
    nothing, or the file has no such tensor.
    """
    graph = model.graph
    machine = {
        node.name
        for segment in model.segments
        if isinstance(segment, MachineSegment)
        for node in segment.nodes
    }
    origins = {} if graph.source is None else graph.source.origins
    made: dict[str, None] = {}
    lost: set[str] = set()
    read: set[str] = set()
    for node in graph.nodes:
        if node.name in refused or not lost.isdisjoint(node.inputs):
            lost.update(node.outputs)
            read.update(node.inputs)
        else:
            made.update(dict.fromkeys(node.outputs))
    ends = [name for name in made if name in read or name in graph.outputs]
    on_machine = any(node.name in machine and made.keys() & node.outputs for node in graph.nodes)
    if not on_machine or not all(name in origins for name in ends):
        return ()
    keys = {name: origins[name].key for name in ends}
    return tuple(dict.fromkeys(k if isinstance(k, str) else name for name, k in keys.items()))


def layout_fields(
    spec: TensorSpec, config: Config, *, tensor: int, offset: int, flip: bool = False
) -> dict[str, object]:
    """Return the fields of a ``tpulite_layout``.

    Parameters
    ----------
    spec : TensorSpec
        Where the tensor lies in its window, and how.
    tensor : int
        Its index among the tensors of the CPU.
    offset : int
        First byte of the window in the memory.
    flip : bool
        Whether the CPU has uint8 where the machine has int8, or the other way.

    Raises
    ------
    ValueError
        If packed rows and patches of it have different padding.
    """
    itemsize = np.dtype(spec.dtype).itemsize
    height, width = (spec.image or (spec.m, 1))[-2:]
    parts = spec.image[0] if spec.image and len(spec.image) == 3 else 1
    images = 1 if spec.stacked else spec.batch
    rows = {"count": height, "size": 1, "step": 1, "pad": 0}
    columns = rows | {"count": width}
    patches, packed = spec.patches, spec.packed_rows
    if patches is not None:
        rows, columns = (
            dict(zip(rows, extents, strict=True))
            for extents in zip(*(getattr(patches, name) for name in rows), strict=True)
        )
    fills = {lying.fill for lying in (patches, packed) if lying is not None} or {0}
    if len(fills) > 1:
        raise ValueError(f"Tensor {spec.name!r} is padded with {sorted(fills)}")
    return {
        "tensor": tensor,
        "offset": offset + spec.offset,
        "images": images,
        "image_bytes": spec.nbytes(config) // images,
        "parts": parts * (spec.batch if spec.stacked else 1),
        "height": height,
        "width": width,
        "pixel_bytes": spec.channels * itemsize,
        "flip": 0x80 if flip else 0,
        "vector_bytes": config.array_size * itemsize,
        "block_bytes": spec.block_bytes(config),
        "rows": rows,
        "columns": columns,
        "fill": fills.pop() & 0xFF,
        "line_bytes": 0 if packed is None else packed.vectors * config.array_size,
        "line_pad": 0 if packed is None else packed.pad,
        "transposed": int(packed is not None and packed.transposed),
    }
