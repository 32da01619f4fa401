"""Networks ready to run: where each operator runs, whose bits it has, programs for the machine."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.simplify.network import Simplified, simplify_layers
from tpulite.frontend.files import load_graph
from tpulite.golden.layers import run_layers
from tpulite.graph.graph import Graph
from tpulite.graph.layers import LayerGraph
from tpulite.graph.passes import simplify
from tpulite.program import Program
from tpulite.quant.exactness import Exactness, default_exactness
from tpulite.quant.partition import MachineSegment, Segment, partition
from tpulite.quant.place import Placed, place
from tpulite.runtime.compile_cache import ProgramCache
from tpulite.runtime.device import Device
from tpulite.runtime.host_ops import can_run, host_reason, run_node
from tpulite.runtime.inputs import check_inputs
from tpulite.runtime.model_compile import Dump, Progress, compile_parts
from tpulite.runtime.model_run import ModelResults, Runner, as_dtype, join_runs
from tpulite.runtime.model_summary import OperatorSummary, statement, summarize

__all__ = ["Model"]

_PLAN = ("placed", "segments", "layers")
"""Attributes that are worked out once and have nothing to do with options."""


@dataclass(frozen=True, eq=False)
class Model:
    """A network and the plan of its run: segments of the host and of the machine in turn.

    Load, run and compare in four lines::

        model = Model.load("net.tflite")
        results = model.run(x, device="rtl")
        assert (results.outputs["y"] == model.reference(x)["y"]).all()
        print(results.cycles)

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

    Attributes
    ----------
    placed : Placed
        Where each node runs, and why.
    segments : tuple of Segment
        Segments in the order in which they run.
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

    @classmethod
    def load(
        cls,
        source: str | Path | Graph,
        *,
        exact: str | None = None,
        host_fallback: bool = False,
        config: Config | None = None,
        options: Options | None = None,
    ) -> "Model":
        """Read a network and plan its run; nothing is compiled yet.

        Parameters
        ----------
        source : str, Path or Graph
            A TFLite or ONNX file, or what was read from one.
        exact : str, optional
            Whose bits; by default those of the format's own library.
        host_fallback : bool
            Whether the host may compute what the machine cannot.
        config : Config, optional
            The machine; 16 x 16 multipliers by default.
        options : Options, optional
            How to compile it.

        Raises
        ------
        ValueError
            If the file is no network, or an operator of it can be computed nowhere.
        """
        graph = simplify(source if isinstance(source, Graph) else load_graph(source))
        exactness = default_exactness(graph.format) if exact is None else Exactness(exact)
        config, options = config or Config(), options or Options()
        return cls(graph, exactness, config, host_fallback, options=options)

    @cached_property
    def segments(self) -> tuple[Segment, ...]:  # noqa: D102
        return partition(self.placed, host_fallback=self.host_fallback)

    @cached_property
    def placed(self) -> Placed:  # noqa: D102
        return place(self.graph, self.exactness)

    @cached_property
    def layers(self) -> tuple[LayerGraph, ...]:  # noqa: D102
        return tuple(x.layers for x in self.segments if isinstance(x, MachineSegment))

    @cached_property
    def simplified(self) -> tuple[Simplified, ...]:  # noqa: D102
        return tuple(simplify_layers(part, self.config, self.options) for part in self.layers)

    @cached_property
    def programs(self) -> tuple[Program, ...]:  # noqa: D102
        return self.compiled or compile_parts(self.layers, self.config, self.options)

    def with_options(self, options: Options) -> "Model":
        """Return the same network, to be compiled in another way."""
        other = replace(self, options=options, compiled=())
        # What does not depend on options need not be worked out again.
        vars(other).update({name: vars(self)[name] for name in _PLAN if name in vars(self)})
        return other

    def compile(
        self, *, cache: bool = False, progress: Progress | None = None, dump: Dump | None = None
    ) -> "Model":
        """Return this model with its programs.

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
        if not self.compiled and (dump is not None or "programs" not in vars(self)):
            vars(self)["programs"] = compile_parts(
                self.layers,
                self.config,
                self.options,
                cache=ProgramCache.default() if cache else None,
                progress=progress,
                dump=dump,
            )
        return self

    def debug_programs(self) -> tuple[Program, ...]:
        """Compile programs that store every image, for comparisons tensor by tensor.

        Their images are those of the simplified layers.
        """
        every = (self._all_outputs(each.layers) for each in self.simplified)
        return tuple(compile_layers(layers, self.config, self.options) for layers in every)

    def run(
        self,
        inputs: np.ndarray | Mapping[str, np.ndarray],
        device: str | Device = "golden",
        *,
        tensors: bool = False,
    ) -> ModelResults:
        """Run one or many inputs.

        Parameters
        ----------
        inputs : ndarray or mapping of str to ndarray
            Inputs by name, the array alone if there is only one, along the first axis.
        device : str or Device
            Where the machine's segments run.
        tensors : bool
            Whether to keep all tensors. Channels that the compiler left out are constants, or are
            not known: see :meth:`known_channels`.

        Raises
        ------
        ValueError
            If an input is missing, unknown, or has a wrong dtype or shape.
        RuntimeError
            If the machine stops at a fault.
        """
        runner = Runner(self, device, tensors=tensors)
        return join_runs(list(runner.runs(self._each(inputs))))

    def reference(
        self, inputs: np.ndarray | Mapping[str, np.ndarray], *, simplified: bool = False
    ) -> dict[str, np.ndarray]:
        """Return all tensors by their definition: no program, no machine.

        Parameters
        ----------
        inputs : ndarray or mapping of str to ndarray
            As for :meth:`run`.
        simplified : bool
            Whether to compute what the compiler leaves of the network; then not all channels are
            known.
        """
        runs = [
            ModelResults({}, (), self._reference(one, simplified)) for one in self._each(inputs)
        ]
        return dict(join_runs(runs).tensors)

    def known_channels(self) -> dict[str, np.ndarray]:
        """Return for each tensor with unknown channels which ones are known: a mask, bool [C].

        The compiler leaves out channels that no result needs; those of them that are constant are
        known nevertheless.
        """
        names = [name for part in self.layers for name in part.images if name in self.graph.tensors]
        masks = ((name, each.known(name)) for each in self.simplified for name in names)
        return {name: mask for name, mask in masks if mask is not None and not mask.all()}

    def summary(self) -> tuple[OperatorSummary, ...]:
        """Return every operator, where it runs and why."""
        return summarize(self.placed)

    @property
    def macs(self) -> int:
        """Multiplications of one run, those of the host included."""
        return sum(operator.macs for operator in self.summary())

    @property
    def host_macs(self) -> int:
        """Multiplications of one run that the host computes."""
        return sum(operator.macs for operator in self.summary() if operator.where == "host")

    def statement(self) -> str:
        """Return in words whose bits the results are, and the host's share of the MACs."""
        return statement(self.summary(), self.exactness)

    def value(self, name: str, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return a tensor's value, perhaps a constant."""
        data = self.graph.tensors[name].data
        return values[name] if data is None else data

    def _all_outputs(self, layers: LayerGraph) -> LayerGraph:
        outputs = tuple(layer.output for layer in layers.layers)
        tensors = self.graph.tensors
        unsigned = {x for x in outputs if x in tensors and tensors[x].dtype == "uint8"}
        return replace(layers, outputs=outputs, unsigned=layers.unsigned | unsigned)

    def _each(self, inputs: np.ndarray | Mapping[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
        checked, count = check_inputs(self.graph, inputs)
        return [{name: x[i] for name, x in checked.items()} for i in range(count)]

    def _reference(
        self, inputs: Mapping[str, np.ndarray], simplified: bool
    ) -> dict[str, np.ndarray]:
        values = dict(inputs)
        parts = iter(self.simplified if simplified else map(Simplified, self.layers))
        for segment in self.segments:
            if isinstance(segment, MachineSegment):
                values |= dict(self._run_layers(next(parts), values))
            else:
                for node in segment.nodes:
                    values |= run_node(node, self.graph, values, self.exactness)
        return values

    def _run_layers(
        self, simplified: Simplified, values: Mapping[str, np.ndarray]
    ) -> Iterable[tuple[str, np.ndarray]]:
        layers = simplified.layers
        inputs = {
            name: as_dtype(self.value(name, values), "int8").reshape(layers.images[name].shape)
            for name in layers.inputs
        }
        for name, image in simplified.restore(run_layers(layers, inputs)).items():
            tensor = self.graph.tensors.get(name)
            if tensor is not None and tensor.data is None:
                yield name, as_dtype(image, tensor.dtype).reshape(tensor.shape)
