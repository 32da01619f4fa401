"""Networks on the command line: what they mean, where they run, and how they are read."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from tpulite.arch.config import Config
from tpulite.cli.common import config_option
from tpulite.cli.help import Choice, Parsed, Topic, option
from tpulite.cli.inputs import errors_named, read_feeds
from tpulite.cli.options import Choices
from tpulite.cli.paths import PATH
from tpulite.cli.shapes import dim_option, given_shapes, shape_option
from tpulite.configs import named_config
from tpulite.frontend.cut import cut_graph
from tpulite.frontend.files import load_graph, network_name
from tpulite.frontend.given_shapes import AS_IN_FILE, GivenShapes
from tpulite.frontend.states import with_states
from tpulite.graph.graph import Graph
from tpulite.graph.passes import simplify
from tpulite.needs import require_package
from tpulite.quant.exactness import Exactness
from tpulite.quant.library import as_library, chosen_numerics
from tpulite.quant.partition import RefusedError, partition
from tpulite.quant.place import place
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import is_model_file, load_model_file

Command = TypeVar("Command", bound=Callable[..., Any])


def _pair(text: str) -> tuple[str, str]:
    """Read two names, OUTPUT=INPUT."""
    after, _, before = text.partition("=")
    if not after or not before:
        raise ValueError(f"{text!r} must be OUTPUT=INPUT, like h_next=h")
    return after, before


@dataclass(frozen=True)
class Reading:
    """Choices of :func:`meaning_options`, :func:`plan_options` or :func:`answer_options`."""

    exact: str | None = None  #: The numerics; by default those of the format's own library.
    calibration: Path | None = None  #: Samples to quantize an ONNX file of floats with.
    #: Whether to refuse networks of which the machine cannot run all but the ends.
    strict: bool = False
    config_name: str = "16x16"  #: The machine.
    #: Tensors of the file between which the network is cut out; see :func:`cut_graph`.
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    shapes: GivenShapes = AS_IN_FILE  #: Shapes that the file leaves open.
    #: Outputs that are inputs of the next run; see :func:`with_states`.
    states: tuple[tuple[str, str], ...] = ()
    classes: int | None = None  #: How many outputs are classes; by default as many as the file says

    def graph(self, path: Path) -> Graph:
        """Read a network; with samples, quantize it first.

        ValueError if the file is no network, there are samples for one that is not an ONNX file of
        floats, or states are no outputs and inputs of it.
        """
        graph = self._quantized(path)
        try:
            return with_states(graph, self.states)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def _quantized(self, path: Path) -> Graph:
        """Read what was asked for, without states."""
        if self.calibration is None:
            return self._part(path)
        for package in ("onnx", "onnxruntime"):
            require_package(package, "onnx", "--calibrate")
        from tpulite.frontend.onnx.file import load_onnx
        from tpulite.quant.calibrate import default_numerics, quantize_onnx

        graph = self._part(path)
        with errors_named(path, self.calibration):
            if graph.format != "onnx" or graph.source is None:
                raise ValueError("--calibrate needs a float ONNX file, and this one is quantized")
            data = graph.source.data
            feeds, _ = read_feeds(self.calibration, graph, data)
            own = default_numerics(data)
            numerics = own if self.exact in (None, own) else "ort"
            return load_onnx(quantize_onnx(data, feeds, numerics=numerics), network_name(path))

    def _part(self, path: Path) -> Graph:
        """Read the part of a network that was asked for.

        It has the numerics of the whole, unless it begins or ends at a tensor that the library
        fuses away.
        """
        graph = load_graph(path, self.shapes)
        if not self.inputs and not self.outputs:
            return graph
        try:
            whole = as_library(graph, self.exactness(graph))
            with suppress(ValueError):
                return cut_graph(whole, self.inputs, self.outputs)
            return cut_graph(graph, self.inputs, self.outputs)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def exactness(self, graph: Graph) -> Exactness:
        """Return whose bits a network has."""
        return chosen_numerics(graph, self.exact)

    def model(self, path: Path, choices: Choices | None = None) -> Model:
        """Read a network or a compiled one, and plan its run.

        ValueError if it cannot be read or computed, options are given that a compiled one has
        settled, or there cannot be so many classes.
        """
        model = self._model(path, choices)
        if self.classes is None:
            return model
        try:
            return model.with_classes(self.classes)
        except ValueError as error:
            raise ValueError(f"{path}: --{error}") from error

    def _model(self, path: Path, choices: Choices | None) -> Model:
        """Read a network whose classes are those of its file."""
        config = named_config(self.config_name)
        options = None if choices is None else choices.options()
        if not is_model_file(path):
            graph = self.graph(path)
            try:
                return Model.load(
                    graph,
                    exact=self.exact,
                    strict=self.strict,
                    config=config,
                    options=options,
                )
            except RefusedError as error:
                advice = "".join(
                    f"; {way}" for way in ways_out(graph, self.exactness(graph), error)
                )
                raise ValueError(f"{error}{advice}") from error
        model = load_model_file(path)
        self.refuse(path, model.config)
        if choices is not None:
            choices.refuse(f"{path} is compiled")
        return model

    def refuse(self, path: Path, compiled_for: Config) -> None:
        """Check that nothing was chosen that a compiled network or program has settled.

        ValueError if something was.
        """
        if self.inputs or self.outputs:
            raise ValueError(f"{path} is compiled: give --inputs and --outputs to compile")
        if self.shapes:
            raise ValueError(f"{path} is compiled: give --shape and --dim to compile")
        if self.states:
            raise ValueError(f"{path} is compiled: give --state to compile")
        if self.exact or self.strict or self.calibration:
            raise ValueError(
                f"{path} is compiled: give --exact, --strict and --calibrate to compile"
            )
        chosen = click.get_current_context().get_parameter_source("config_name")
        if chosen is ParameterSource.COMMANDLINE and named_config(self.config_name) != compiled_for:
            raise ValueError(f"{path} is compiled for another configuration: leave out --config")


def meaning_options(command: Command) -> Command:
    """Add the options that decide what a network means; the command gets them as ``reading``."""
    return _with_options(command, *_MEANING)


def plan_options(command: Command) -> Command:
    """Add those that decide where it runs, too: ``--strict`` and ``--config``."""
    command = _OPTIONS["host_fallback"](command)
    return _with_options(command, "config_name", *_MEANING, "strict")


def answer_options(command: Command) -> Command:
    """Add :func:`plan_options`, and ``--classes`` for commands that care for answers."""
    command = _OPTIONS["host_fallback"](command)
    return _with_options(command, "config_name", *_MEANING, "strict", "classes")


_MEANING = ("inputs", "outputs", "shapes", "dims", "states", "exact", "calibration")

_OPTIONS = {
    "config_name": config_option,
    "host_fallback": option(
        "--host-fallback", is_flag=True, hidden=True, expose_value=False, help="Always so now."
    ),
    "inputs": option(
        "--inputs",
        group=Topic.NETWORK,
        multiple=True,
        metavar="TENSOR,...",
        help="Start the network at these tensors; operators before them are left out.",
    ),
    "outputs": option(
        "--outputs",
        group=Topic.NETWORK,
        multiple=True,
        metavar="TENSOR,...",
        help="End the network at these tensors; operators after them are left out.",
    ),
    "shapes": shape_option,
    "dims": dim_option,
    "states": option(
        "--state",
        "states",
        group=Topic.NETWORK,
        type=Parsed("output=input", _pair),
        multiple=True,
        metavar="OUTPUT=INPUT",
        help="Feed this output back to this input in the next run; zeros in the first.",
    ),
    "strict": option(
        "--strict",
        group=Topic.MACHINE,
        is_flag=True,
        help="Run all that the machine can on it; fail if operators between need the CPU.",
    ),
    "exact": option(
        "--exact",
        group=Topic.NUMERICS,
        type=Choice([exactness.value for exactness in Exactness]),
        help="Library to match bit for bit.  [default: litert-ref for TFLite, ort for ONNX]",
    ),
    "classes": option(
        "--classes",
        group=Topic.NETWORK,
        type=int,
        metavar="N",
        help="Number of classes: the first N outputs.  [default: from the file, else all]",
    ),
    "calibration": option(
        "--calibrate",
        "calibration",
        group=Topic.NUMERICS,
        type=PATH,
        help="Samples (.npy, or a folder) to quantize a float ONNX file with.",
    ),
}


def _with_options(command: Command, *names: str) -> Command:
    @wraps(command)
    def collect(**arguments: Any) -> Any:
        chosen = {name: arguments.pop(name) for name in names}
        given = given_shapes(chosen.pop("shapes"), chosen.pop("dims"))
        return command(**arguments, reading=Reading(**chosen, shapes=given))

    for name in reversed(names):
        collect = _OPTIONS[name](collect)
    return collect  # type: ignore[return-value]


def ways_out(graph: Graph, exactness: Exactness, error: RefusedError) -> list[str]:
    """Say with which options a network runs that was refused without."""
    ways = []
    graph = simplify(graph)
    floats = [
        node
        for node, _ in error.refused
        if all(error.graph.tensors[name].dtype == "float32" for name in node.outputs)
    ]
    quantized = any(tensor.quantization is not None for tensor in graph.tensors.values())
    if floats and not quantized:
        advice = (
            "--calibrate SAMPLES.npy quantizes it"
            if graph.format == "onnx"
            else "quantize it first"
        )
        return [f"this is a float network: {advice}"]
    if exactness != Exactness.LITERT_REF:
        try:
            partition(place(graph, Exactness.LITERT_REF), strict=True)
        except ValueError:
            pass
        else:
            ways.append("--exact litert-ref runs them on the machine, with LiteRT's numerics")
    ways.append("without --strict they run on the CPU")
    return ways
