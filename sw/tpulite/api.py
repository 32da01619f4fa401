"""What most people need of tpulite, as functions; ``import tpulite`` has them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.configs import named_config
from tpulite.frontend.dense_chain import dense_chain, save_dense_chain
from tpulite.frontend.files import load_graph, network_name
from tpulite.frontend.given_shapes import GivenShapes
from tpulite.report.profile import Profile, profile_model
from tpulite.report.traced_run import CYCLE_MODEL
from tpulite.runtime.device import Device
from tpulite.runtime.inputs import check_inputs, random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import Comparing, Comparison, compare_model
from tpulite.runtime.model_file import is_model_file, load_model_file
from tpulite.runtime.model_run import ModelResults
from tpulite.runtime.oracles import open_oracle
from tpulite.zoo import find_network

__all__ = ["compare", "compile", "load", "mlp", "profile", "run"]

Network = str | Path | Model
"""A file (.tflite, .onnx, .npz, .tpulite), a name of the zoo, or what :func:`load` has made."""


def load(  # noqa: PLR0913 - what one may say of a network
    network: Network,
    *,
    config: str | Config = "16x16",
    exact: str | None = None,
    strict: bool = False,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    dims: Mapping[str, int] | None = None,
    states: Mapping[str, str] | None = None,
    classes: int | None = None,
    **options: Any,
) -> Model:
    """Read a network and plan where it runs.

    Parameters
    ----------
    network : str, Path or Model
        A file (.tflite, .onnx, .npz, .tpulite), or a name of the zoo. A compiled network and a
        model stay as they are.
    config : str or Config
        The machine: ``"8x8"``, ``"16x16,ub_rows=4096"``.
    exact : str, optional
        The numerics: by default those of the format's own library.
    strict : bool
        Whether to refuse what the machine cannot run, but at the ends.
    shapes, dims : mapping, optional
        Shapes that a file leaves open, as of :meth:`Model.load`.
    states : mapping, optional
        Outputs that are inputs of the next run, as of :meth:`Model.load`.
    classes : int, optional
        How many outputs are classes, the first ones; by default as many as the file says, else all.
    **options
        Fields of :class:`tpulite.compiler.options.Options`: ``batch=16``.

    Raises
    ------
    OSError
        If there is no such file.
    ValueError
        If it cannot be read or computed.
    """
    if isinstance(network, Model):
        return network if classes is None else network.with_classes(classes)
    path = find_network(network)
    if is_model_file(path):
        if shapes or dims:
            raise ValueError(f"{path} is compiled: give shapes and dims with the original file")
        if states:
            raise ValueError(f"{path} is compiled: give states with the original file")
        model = load_model_file(path)
    else:
        model = Model.load(
            path,
            config=_machine(config),
            exact=exact,
            strict=strict,
            options=Options(**options),
            shapes=shapes,
            dims=dims,
            states=states,
        )
    return model if classes is None else model.with_classes(classes)


def mlp(
    weights: Sequence[np.ndarray],
    biases: Sequence[np.ndarray],
    scales: Sequence[ArrayLike],
    *,
    classes: int | None = None,
    save: str | Path | None = None,
    config: str | Config = "16x16",
    **options: Any,
) -> Model:
    """Build a chain of dense layers from arrays; a ReLU follows all of them but the last.

    Layer i computes ``int8(scale_i * (x @ W_i + b_i))``: the sum in int32, the product in float32,
    rounded half to even and saturated.

    Parameters
    ----------
    weights : sequence of ndarray of int8, [inputs, outputs]
        W of each layer.
    biases : sequence of ndarray of int32, [outputs] or [1, outputs]
        b of each layer.
    scales : sequence of float or ndarray of float32 or float64, one number or [outputs]
        scale of each layer, positive, rounded to float32.
    classes : int, optional
        How many of the last layer's outputs are classes, the first ones; all by default.
    save : str or Path, optional
        Write it to this .npz file, which all commands read: W1, b1, scale1, W2 and so on.
    config : str or Config
        The machine, as for :func:`load`.
    **options
        Fields of :class:`tpulite.compiler.options.Options`: ``batch=16``.

    Raises
    ------
    ValueError
        If an array has another dtype or shape, or there cannot be so many classes; the array is
        named first.
    OSError
        If the file cannot be written.
    """
    name = "mlp" if save is None else network_name(Path(save))
    graph = dense_chain(weights, biases, scales, classes=classes, name=name)
    if save is not None:
        save_dense_chain(Path(save), graph)
    return Model.load(graph, config=_machine(config), options=Options(**options))


def _machine(config: str | Config) -> Config:
    return named_config(config) if isinstance(config, str) else config


def compile(network: Network, **how: Any) -> Model:
    """Compile a network; arguments and errors are those of :func:`load`."""
    return load(network, **how).compile()


def run(
    network: Network,
    inputs: np.ndarray | Mapping[str, np.ndarray] | None = None,
    device: str | Device = "golden",
    *,
    tensors: bool = False,
    **how: Any,
) -> ModelResults:
    """Run one or many inputs.

    Parameters
    ----------
    network : str, Path or Model
        As for :func:`load`, which takes ``how``.
    inputs : ndarray or mapping of str to ndarray, optional
        Inputs by name, the array alone if there is only one, along the first axis; by default a
        random one.
    device : str or Device
        ``golden`` in numpy, ``rtl`` for the Verilated chip, or a device of your own.
    tensors : bool
        Whether to keep all tensors.

    Raises
    ------
    ValueError
        If an input is missing, unknown, or has a wrong dtype or shape.
    RuntimeError
        If the machine stops at a fault.
    """
    model = load(network, **how)
    given = random_inputs(model.graph, 1, seed=2024) if inputs is None else inputs
    return model.run(given, device, tensors=tensors)


def compare(
    network: str | Path,
    oracle: str = "litert-ref",
    inputs: np.ndarray | Mapping[str, np.ndarray] | None = None,
    *,
    count: int = 10,
    device: str | Device = "golden",
    **how: Any,
) -> Comparison:
    """Compare what a run gives with what a library gives, bit for bit, tensor by tensor.

    Parameters
    ----------
    network : str or Path
        A file that the library reads, or a name of the zoo.
    oracle : str
        ``litert-ref``, ``litert-opt``, ``litert-xnnpack``, ``tflm`` or ``ort``.
    inputs : ndarray or mapping of str to ndarray, optional
        As for :func:`run`; by default ``count`` random ones, always the same.
    count : int
        How many random ones.
    device : str or Device
        Where the compiled network runs, as for :func:`run`.

    Raises
    ------
    ValueError
        If the network cannot be compiled, or the library is not installed, does not read the file,
        or refuses it.
    """
    path = find_network(network)
    given = GivenShapes(how.get("shapes") or {}, how.get("dims") or {})
    library = open_oracle(oracle, path, load_graph(path, given))
    how.setdefault("exact", oracle)
    model = load(path, **how)
    given = random_inputs(model.graph, count, seed=2024) if inputs is None else inputs
    values, count = check_inputs(model.graph, given)
    each = [{name: array[i, ...] for name, array in values.items()} for i in range(count)]
    return compare_model(model, library, each, Comparing(device))


def profile(
    network: Network, device: str = CYCLE_MODEL, *, seed: int = 2024, **how: Any
) -> Profile:
    """Find out what each layer costs; print it for a table.

    Parameters
    ----------
    network : str, Path or Model
        As for :func:`load`, which takes ``how``.
    device : str
        The cycle model, or a device that counts: ``rtl``.
    """
    return profile_model(load(network, **how), device, seed=seed)
