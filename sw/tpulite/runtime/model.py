"""Networks ready to run: where each operator runs, whose bits it has, programs for the machine."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.compiler.rewrite.simplify.network import Simplified
from tpulite.frontend.files import load_graph
from tpulite.frontend.given_shapes import GivenShapes
from tpulite.frontend.states import with_states
from tpulite.golden.layers import run_layers
from tpulite.graph.graph import Graph
from tpulite.graph.passes import simplify
from tpulite.quant.library import as_library, chosen_numerics, is_named
from tpulite.quant.partition import MachineSegment, crossings
from tpulite.runtime.device import Device
from tpulite.runtime.host.tables import tabulate
from tpulite.runtime.inputs import check_inputs
from tpulite.runtime.model_plan import PlannedModel
from tpulite.runtime.model_run import ModelResults, Runner, as_dtype, join_runs
from tpulite.runtime.model_summary import OperatorSummary, cpu_share, statement, summarize
from tpulite.runtime.states import States


@dataclass(frozen=True, eq=False, repr=False)
class Model(PlannedModel):
    """A network ready to run.

    Load, run and compare in four lines::

        model = Model.load("net.tflite")
        results = model.run(x, device="rtl")
        assert (results.outputs["y"] == model.reference(x)["y"]).all()
        print(results.cycles)

    Parameters, attributes and errors are those of :class:`tpulite.runtime.model_plan.PlannedModel`.
    """

    def __repr__(self) -> str:
        operators = self.summary()
        host = sum(operator.where == "host" for operator in operators)
        return (
            f"<Model {self.graph.name}: {len(operators)} operators, {host} on the CPU, "
            f"{self.macs:,} MACs, numerics {self.exactness}>"
        )

    @classmethod
    def load(  # noqa: PLR0913 - what one may say of a network
        cls,
        source: str | Path | Graph,
        *,
        exact: str | None = None,
        strict: bool = False,
        host_fallback: bool = False,
        config: Config | None = None,
        options: Options | None = None,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
        dims: Mapping[str, int] | None = None,
        states: Mapping[str, str] | None = None,
    ) -> "Model":
        """Read a network and plan its run; nothing is compiled yet.

        Parameters
        ----------
        source : str, Path or Graph
            A TFLite or ONNX file, or what was read from one.
        exact : str, optional
            The numerics; by default those of the format's own library.
        strict : bool
            Whether the host may compute only what is naturally its own, at the network's ends.
        host_fallback : bool
            Deprecated, without effect: the host computes what the machine cannot.
        config : Config, optional
            The machine; 16 x 16 multipliers by default.
        options : Options, optional
            How to compile it.
        shapes : mapping of str to tuple of int, optional
            Shapes of inputs by name: ``{"x": (1, 3, 64, 64)}``; of a file only.
        dims : mapping of str to int, optional
            Extents by the names that an ONNX file has for them: ``{"sequence": 128}``.
        states : mapping of str to str, optional
            Outputs that are inputs of the next run: ``{"h_next": "h"}``.

        Raises
        ------
        ValueError
            If the file is no network, its shapes stay open or do not fit, states are no outputs
            and inputs of it, or an operator of it can be computed nowhere.
        """
        given = GivenShapes(shapes or {}, dims or {})
        if isinstance(source, Graph) and given:
            raise ValueError("shapes and dims need a file, and this is a graph")
        graph = source if isinstance(source, Graph) else load_graph(source, given)
        graph = with_states(graph, tuple((states or {}).items()))
        exactness = chosen_numerics(graph, exact)
        graph = tabulate(simplify(as_library(graph, exactness)), exactness)
        config, options = config or Config(), options or Options()
        return cls(graph, exactness, config, strict, options=options)

    def run(
        self,
        inputs: np.ndarray | Mapping[str, np.ndarray],
        device: str | Device = "golden",
        *,
        tensors: bool = False,
        reset: bool = False,
    ) -> ModelResults:
        """Run one or many inputs; a network with states takes them for frames of one sequence.

        States are those of :attr:`state`: the next call goes on where this one ends.

        Parameters
        ----------
        inputs : ndarray or mapping of str to ndarray
            Inputs by name, the array alone if there is only one, along the first axis.
        device : str or Device
            Where the machine's segments run.
        tensors : bool
            Whether to keep all tensors. Channels that the compiler left out are constants, or are
            not known: see :meth:`known_channels`.
        reset : bool
            Whether states begin anew with every input.

        Raises
        ------
        ValueError
            If an input is missing, unknown, or has a wrong dtype or shape.
        RuntimeError
            If the machine stops at a fault.
        """
        runner = Runner(self, device, tensors=tensors, state=self.state)
        return join_runs(list(runner.runs(self._each(inputs), reset=reset)))

    @cached_property
    def state(self) -> States:
        """What the network keeps between calls of :meth:`run`, by name: read it, or set it."""
        return States(self.graph)

    def reset(self) -> None:
        """Let states begin anew."""
        self.state.reset()

    def reference(
        self,
        inputs: np.ndarray | Mapping[str, np.ndarray],
        *,
        simplified: bool = False,
        state: States | None = None,
    ) -> dict[str, np.ndarray]:
        """Return all tensors by their definition: no program, no machine.

        Parameters
        ----------
        inputs : ndarray or mapping of str to ndarray
            As for :meth:`run`.
        simplified : bool
            Whether to compute what the compiler leaves of the network, and of parts on the CPU no
            more than a run does; then not all channels are known.
        state : States, optional
            What the first input finds; by default states begin anew, and :attr:`state` is left as
            it is.
        """
        state = States(self.graph) if state is None else state
        runs = []
        for one in self._each(inputs):
            values = self._reference(state.given() | one, simplified)
            state.keep(lambda name, values=values: self.value(name, values))
            runs.append(ModelResults({}, (), values))
        return dict(join_runs(runs).tensors)

    def known_channels(self) -> dict[str, np.ndarray]:
        """Return for each tensor with unknown channels which ones are known: a mask, bool [C].

        The compiler leaves out channels that no result needs; those of them that are constant are
        known nevertheless.
        """
        names = [
            name for part in self.layers for name in part.activations if name in self.graph.tensors
        ]
        masks = ((name, each.known(name)) for each in self.simplified for name in names)
        return {name: mask for name, mask in masks if mask is not None and not mask.all()}

    def with_classes(self, classes: int) -> Self:
        """Return the same network, so many of whose outputs are classes; programs stay the same.

        Raises
        ------
        ValueError
            If it has several outputs, or the only one not so many values.
        """
        return replace(self, graph=replace(self.graph, classes=classes), planned=self.plan)

    def summary(self) -> tuple[OperatorSummary, ...]:
        """Return every operator, where it runs and why."""
        return summarize(self.plan.placed)

    @property
    def macs(self) -> int:
        """Multiplications of one run, those of the host included."""
        return sum(operator.macs for operator in self.summary())

    @property
    def host_macs(self) -> int:
        """Multiplications of one run that the host computes."""
        return sum(operator.macs for operator in self.summary() if operator.where == "host")

    @property
    def cpu_share(self) -> float | None:
        """Which part of the multiplications of a run is the CPU's; None if that is unknown."""
        return cpu_share(self.summary())

    @property
    def crossings(self) -> int:
        """How many tensors go from host to machine or back, in a run."""
        return crossings(self.segments)

    def statement(self) -> str:
        """Return in words whose bits the results are, and what the host has to do with them."""
        named = is_named(self.graph, self.exactness)
        return statement(self.summary(), self.exactness, self.crossings, named=named)

    def _each(self, inputs: np.ndarray | Mapping[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
        checked, count = check_inputs(self.graph, inputs)
        return [{name: x[i, ...] for name, x in checked.items()} for i in range(count)]

    def _reference(
        self, inputs: Mapping[str, np.ndarray], simplified: bool
    ) -> dict[str, np.ndarray]:
        values = dict(inputs)
        parts = iter(self.simplified if simplified else map(Simplified, self.layers))
        hosts = iter(self.plan.hosts)
        for segment in self.segments:
            if isinstance(segment, MachineSegment):
                values |= dict(self._run_layers(next(parts), values))
            else:
                values |= next(hosts).run(values, tensors=not simplified)
        return values

    def _run_layers(
        self, simplified: Simplified, values: Mapping[str, np.ndarray]
    ) -> Iterable[tuple[str, np.ndarray]]:
        layers = simplified.layers
        inputs = {
            name: as_dtype(self.value(name, values), "int8").reshape(layers.activations[name].shape)
            for name in layers.inputs
        }
        for name, image in simplified.restore(run_layers(layers, inputs)).items():
            tensor = self.graph.tensors.get(name)
            if tensor is not None and tensor.data is None:
                yield name, as_dtype(image, tensor.dtype).reshape(tensor.shape)
