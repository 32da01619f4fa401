"""A network and the plan of its run: where each operator runs, programs for the machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.compiler.rewrite.simplify.network import Simplified, simplify_layers
from tpulite.graph.graph import Graph
from tpulite.graph.layers import LayerGraph
from tpulite.program import Program
from tpulite.quant.exactness import Exactness
from tpulite.quant.lower.network import lacking
from tpulite.quant.partition import HostSegment, MachineSegment, Segment, partition
from tpulite.quant.place import place
from tpulite.quant.placed import Placed
from tpulite.runtime.compile_cache import ProgramCache
from tpulite.runtime.host.part import HostPart, LibraryFile

if TYPE_CHECKING:  # the compiler is imported when something is compiled
    from tpulite.runtime.model_compile import Dump, Progress


@dataclass(frozen=True, eq=False)
class Plan:
    """Where a network runs, whatever the options are."""

    placed: Placed  #: Where each node runs, and why.
    segments: tuple[Segment, ...]  #: Segments in the order in which they run.
    hosts: tuple[HostPart, ...]  #: Those of the host, libraries' sessions open.

    @classmethod
    def of(
        cls,
        placed: Placed,
        *,
        strict: bool = False,
        files: Sequence[LibraryFile] | None = None,
        opened: bool = True,
    ) -> Self:
        """Cut a network into segments, and open the libraries that run those of the host.

        Parameters
        ----------
        strict : bool
            Whether the host may run only operators that are naturally its own, at the ends.
        files : sequence of LibraryFile, optional
            What libraries run, if that has been cut before: one for each segment that needs it.
        opened : bool
            Whether to open the libraries now, not when they first run.

        Raises
        ------
        ValueError
            If an operator can be computed nowhere, or not by whom it may be.
        """
        segments = partition(placed, strict=strict)
        cut = None if files is None else iter(files)
        hosts = []
        for segment in segments:
            if isinstance(segment, HostSegment):
                file = next(cut, None) if cut is not None and segment.library else None
                if cut is not None and segment.library:
                    _check_part(file, segment)
                host = HostPart(placed.graph, segment, placed.exactness, file)
                hosts.append(host.open() if opened else host)
        return cls(placed, segments, tuple(hosts))


def _check_part(file: LibraryFile | None, segment: HostSegment) -> None:
    """Refuse a part that was cut for another library, as earlier releases did."""
    if file is None:
        raise ValueError("the part for the library is missing")
    if file.is_tflite != (segment.library == "tflite"):
        raise ValueError("another library runs its parts by now: compile the network again")


@dataclass(frozen=True, eq=False)
class PlannedModel:
    """A network and the plan of its run: segments of the host and of the machine in turn.

    Attributes
    ----------
    plan : Plan
        Where each node runs, and the segments.
    layers : tuple of LayerGraph
        Integer layers of the segments of the machine.
    simplified : tuple of Simplified
        What the compiler makes of them first.
    programs : tuple of Program
        Programs of the segments of the machine.

    Raises
    ------
    ValueError
        If nobody can compute an operator, or the machine cannot and the host may not; or if the
        network has states, and a run is to take several inputs.
    """

    graph: Graph  #: The network, simplified.
    exactness: Exactness  #: The numerics that it reproduces.
    config: Config  #: The machine.
    #: Whether the host may compute only what is naturally its own, at the network's ends.
    strict: bool = False
    #: Programs of the segments of the machine, if they are known; else they are compiled when they
    #: are needed.
    compiled: tuple[Program, ...] = ()
    options: Options = field(default_factory=Options)  #: How they are compiled.
    planned: Plan | None = None  #: The plan, if it is known.

    def __post_init__(self) -> None:
        if self.graph.states and self.options.batch > 1:
            raise ValueError(
                f"{self.graph.name} keeps states between runs: --batch must be 1, "
                f"not {self.options.batch}"
            )
        _ = self.plan

    @cached_property
    def plan(self) -> Plan:  # noqa: D102
        if self.planned is not None:
            return self.planned
        return Plan.of(self._placed(strict=self.strict, library=True), strict=self.strict)

    def _placed(self, *, strict: bool, library: bool) -> Placed:
        return place(
            self.graph,
            self.exactness,
            lacking=lacking(self.graph, self.config),
            strict=strict,
            vector=self.config.array_size,
            library=library,
        )

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Segments in the order in which they run."""
        return self.plan.segments

    @cached_property
    def layers(self) -> tuple[LayerGraph, ...]:  # noqa: D102
        return tuple(x.layers for x in self.segments if isinstance(x, MachineSegment))

    @cached_property
    def simplified(self) -> tuple[Simplified, ...]:  # noqa: D102
        return tuple(simplify_layers(part, self.config, self.options) for part in self.layers)

    @cached_property
    def programs(self) -> tuple[Program, ...]:  # noqa: D102
        from tpulite.runtime.model_compile import compile_parts

        return self.compiled or compile_parts(self.layers, self.config, self.options)

    @cached_property
    def kept_segments(self) -> tuple[Segment, ...]:
        """Segments up to the last one that computes what the network keeps from run to run."""
        kept = {state.output for state in self.graph.states}
        ends = [i for i, each in enumerate(self.segments, 1) if kept.intersection(each.outputs)]
        return self.segments[: max(ends, default=0)]

    @property
    def kept_programs(self) -> tuple[Program, ...]:
        """Programs of these segments."""
        return self.programs[: sum(isinstance(x, MachineSegment) for x in self.kept_segments)]

    @property
    def steady_programs(self) -> tuple[Program, ...]:
        """Programs of every run but the first, which may have to load what stays on chip."""
        return self.programs[-1:] if self.options.resident else self.programs

    def with_options(self, options: Options) -> Self:
        """Return the same network, to be compiled in another way."""
        return replace(self, options=options, compiled=(), planned=self.plan)

    def without_library(self) -> Self:
        """Return the same network as code runs it that has no library, still to be compiled.

        The CPU then has what it must have alone. If it is run here, a library computes what only
        that knows, between tensors of the file.
        """
        if not self.plan.placed.libraries:
            return self
        planned = Plan.of(self._placed(strict=True, library=False), opened=False)
        return replace(self, compiled=(), planned=planned)

    def compile(
        self, *, cache: bool = False, progress: "Progress | None" = None, dump: "Dump | None" = None
    ) -> Self:
        """Return this model with its programs, which are compiled unless they are known.

        Parameters
        ----------
        cache : bool
            Whether to look for programs in the user's cache, and to keep them there.
        progress : callable, optional
            Called with a line of text at every step.
        dump : callable, optional
            Called with the index of a program, the name of a stage and its result; see
            :func:`tpulite.compiler.pipeline.compile_layers`. Then nothing is taken from the cache.

        Raises
        ------
        ValueError
            If a layer does not suit the machine or the options.
        """
        if self.compiled:
            return self
        from tpulite.runtime.model_compile import compile_parts

        programs = compile_parts(
            self.layers,
            self.config,
            self.options,
            cache=ProgramCache.default() if cache else None,
            progress=progress,
            dump=dump,
        )
        return replace(self, compiled=programs, planned=self.plan)

    def debug_programs(self) -> tuple[Program, ...]:
        """Compile programs that store every image, for comparisons tensor by tensor.

        Their images are those of the simplified layers.
        """
        from tpulite.compiler.pipeline import compile_layers

        every = (self._all_outputs(each.layers) for each in self.simplified)
        return tuple(compile_layers(layers, self.config, self.options) for layers in every)

    def value(self, name: str, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return a tensor's value, perhaps a constant; ValueError if nothing has computed it."""
        data = self.graph.tensors[name].data
        if data is None and name not in values:
            raise ValueError(f"nothing computes {name!r}")
        return values[name] if data is None else data

    def _all_outputs(self, layers: LayerGraph) -> LayerGraph:
        outputs = tuple(layer.output for layer in layers.layers)
        tensors = self.graph.tensors
        unsigned = {x for x in outputs if x in tensors and tensors[x].dtype == "uint8"}
        return replace(layers, outputs=outputs, unsigned=layers.unsigned | unsigned)
