"""A network and the plan of its run: where each operator runs, programs for the machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.rewrite.simplify.network import Simplified, simplify_layers
from tpulite.graph.graph import Graph
from tpulite.graph.layers import LayerGraph
from tpulite.program import Program
from tpulite.quant.exactness import Exactness
from tpulite.quant.partition import MachineSegment, Segment, partition
from tpulite.quant.place import Placed, place
from tpulite.runtime.compile_cache import ProgramCache
from tpulite.runtime.host.ops import can_run, host_reason
from tpulite.runtime.model_compile import Dump, Progress, compile_parts

__all__ = ["Plan", "PlannedModel"]


@dataclass(frozen=True, eq=False)
class Plan:
    """Where a network runs, whatever the options are.

    Parameters
    ----------
    placed : Placed
        Where each node runs, and why.
    segments : tuple of Segment
        Segments in the order in which they run.
    """

    placed: Placed
    segments: tuple[Segment, ...]


@dataclass(frozen=True, eq=False)
class PlannedModel:
    """A network and the plan of its run: segments of the host and of the machine in turn.

    Parameters
    ----------
    graph : Graph
        The network, simplified.
    exactness : Exactness
        Whose bits it reproduces.
    config : Config
        The machine.
    host_fallback : bool
        Whether the host may compute what the machine cannot, between its segments.
    compiled : tuple of Program
        Programs of the segments of the machine, if they are known; else they are compiled when
        they are needed.
    options : Options
        How they are compiled.
    planned : Plan, optional
        The plan, if it is known.

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
        If the machine cannot compute an operator and the host may not; the message lists them all.
    """

    graph: Graph
    exactness: Exactness
    config: Config
    host_fallback: bool = False
    compiled: tuple[Program, ...] = ()
    options: Options = field(default_factory=Options)
    planned: Plan | None = None

    def __post_init__(self) -> None:
        lost = [
            f"node {node.name!r} ({node.source or node.op}): "
            + host_reason(node, self.graph, self.exactness)
            for segment in self.segments
            if not isinstance(segment, MachineSegment)
            for node in segment.nodes
            if not can_run(node, self.graph, self.exactness)
        ]
        if lost:
            raise ValueError(
                f"Neither machine nor host can run {len(lost)} of {len(self.graph.nodes)} nodes "
                f"of {self.graph.name!r}: {'; '.join(lost)}"
            )

    @cached_property
    def plan(self) -> Plan:  # noqa: D102
        if self.planned is not None:
            return self.planned
        placed = place(self.graph, self.exactness)
        return Plan(placed, partition(placed, host_fallback=self.host_fallback))

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
        return self.compiled or compile_parts(self.layers, self.config, self.options)

    @property
    def steady_programs(self) -> tuple[Program, ...]:
        """Programs of every run but the first, which may have to load what stays on chip."""
        return self.programs[-1:] if self.options.resident else self.programs

    def with_options(self, options: Options) -> Self:
        """Return the same network, to be compiled in another way."""
        return replace(self, options=options, compiled=(), planned=self.plan)

    def compile(
        self, *, cache: bool = False, progress: Progress | None = None, dump: Dump | None = None
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
        every = (self._all_outputs(each.layers) for each in self.simplified)
        return tuple(compile_layers(layers, self.config, self.options) for layers in every)

    def value(self, name: str, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return a tensor's value, perhaps a constant."""
        data = self.graph.tensors[name].data
        return values[name] if data is None else data

    def _all_outputs(self, layers: LayerGraph) -> LayerGraph:
        outputs = tuple(layer.output for layer in layers.layers)
        tensors = self.graph.tensors
        unsigned = {x for x in outputs if x in tensors and tensors[x].dtype == "uint8"}
        return replace(layers, outputs=outputs, unsigned=layers.unsigned | unsigned)
