"""A chain of dense layers step by step: every sum and every activation, computed by the device.

Programs of users drain accumulators once a layer, after bias, scale and ReLU. Here each layer has a
program with a product for each step, which is drained before the next one: raw sums, raw sums that
begin with the bias, int8 without the ReLU, and the layer itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from string import ascii_uppercase

import numpy as np

from tpulite.arch.numerics import INT8
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.golden.ops import requantize_sums
from tpulite.graph.layers import Activation, Conv, LayerGraph, is_pointwise
from tpulite.graph.requantization import Requantization
from tpulite.runtime.device import Device
from tpulite.runtime.model_plan import PlannedModel
from tpulite.runtime.session import Session

_UNIT = INT8[-1]
"""The largest input and weight, whose products carry most of an offset."""


@dataclass(frozen=True, eq=False)
class Step:
    """A matrix between the input and the output."""

    name: str  #: A, B, C and so on.
    formula: str  #: What it is made of: ``A + b1``.
    #: Ndarray of int32 or int8, [inputs, channels]. What the device has computed.
    values: np.ndarray
    expected: np.ndarray  #: What numpy computes of the same input of the layer.

    @property
    def different(self) -> int:
        """How many elements are not numpy's."""
        return int(np.count_nonzero(self.values != self.expected))


def run_steps(
    model: PlannedModel, inputs: np.ndarray, device: str | Device = "golden"
) -> tuple[Step, ...]:
    """Run a chain of dense layers step by step.

    Parameters
    ----------
    inputs : ndarray, [inputs, channels]
        Its inputs.
    device : str or Device
        Where each step runs.

    Returns
    -------
    tuple of Step
        For each layer the product, the sum with the bias, the scaled int8, and what its ReLU, if it
        has one, makes of that.

    Raises
    ------
    ValueError
        If the network is something else, or its inputs have another shape or dtype.
    RuntimeError
        If the machine stops at a fault.
    """
    layers = _dense_layers(model)
    x, channels = np.asarray(inputs), layers[0].weight.shape[2]
    if x.dtype != np.int8 or not x.size or x.size % channels:
        raise ValueError(f"Input must be int8 [n, {channels}], not {x.dtype} {list(x.shape)}")
    x = x.reshape(-1, channels)
    names, steps, before = _names(), [], "x"
    options = replace(model.options, batch=1, resident=False, effort=0)
    for index, layer in enumerate(layers, start=1):
        named = list(zip(_stages(layer), names, strict=False))
        network, padded = _network(layer, x, {name: stage for stage, name in named})
        outputs = _run(network, padded, model, options, device)
        expected = _expected(layer, x)
        for stage, name in named:
            formula = {
                "product": f"{before} @ W{index}",
                "biased": f"{before} + b{index}",
                "scaled": f"int8({before} * scale{index})",
                "activated": f"ReLU({before})",
            }[stage]
            steps.append(Step(name, formula, outputs[name], expected[stage]))
            before = name
        x = outputs[before]
    return tuple(steps)


def check_steps(model: PlannedModel, name: str = "") -> None:
    """Check that a network is a chain of dense layers; ValueError, by its name, if it is not."""
    _dense_layers(model, name)


def _dense_layers(model: PlannedModel, name: str = "") -> tuple[Conv, ...]:
    """Return the layers of a network that is a chain of dense ones and nothing else."""
    name, where = name or model.graph.name, "--steps needs a chain of int8 dense layers"
    if len(model.layers) != 1 or model.plan.hosts or len(model.graph.inputs) != 1:
        raise ValueError(f"{name}: {where}, all of them on the machine: leave it out")
    (part,) = model.layers
    (before,), found = part.inputs, []
    for layer in part.layers:
        if part.activations[before].shape[1] != 1 or part.unsigned:
            raise ValueError(f"{name}: {where}, and {before!r} is not an int8 matrix: leave it out")
        if not (is_pointwise(layer) and _is_dense(layer, before)):
            raise ValueError(f"{name}: {where}, and layer {layer.name!r} is not one: leave it out")
        found.append(layer)
        before = layer.output
    return tuple(found)


def _is_dense(layer: Conv, before: str) -> bool:
    scaled = layer.requantization is not None
    return scaled and layer.inputs == (before,) and not layer.weight_zero_point


def _names() -> Iterator[str]:
    """Yield A to Z, then A1 to Z1 and so on."""
    for turn in count():
        yield from (f"{letter}{turn or ''}" for letter in ascii_uppercase)


def _stages(layer: Conv) -> tuple[str, ...]:
    """Return what a layer computes one after the other."""
    stages = ("product", "biased", "scaled")
    record = _record(layer)
    clips = np.any(record.low > INT8[0]) or np.any(record.high < INT8[-1])
    return (*stages, "activated") if clips else stages


def _record(layer: Conv) -> Requantization:
    assert layer.requantization is not None
    return layer.requantization


def _unlimited(record: Requantization) -> Requantization:
    return replace(record, low=INT8[0], high=INT8[-1])


def _expected(layer: Conv, x: np.ndarray) -> dict[str, np.ndarray]:
    """Return every stage in numpy."""
    record, weight = _record(layer), layer.weight[0, 0].astype(np.int32)
    product = (x.astype(np.int32) - layer.input_zero_point) @ weight
    scaled = requantize_sums(product, _unlimited(record))
    return {
        "product": product,
        "biased": product + record.bias,
        "scaled": scaled,
        "activated": np.clip(scaled, record.low, record.high),
    }


def _network(layer: Conv, x: np.ndarray, stages: dict[str, str]) -> tuple[LayerGraph, np.ndarray]:
    """Return a network with an output for each stage, and its input.

    Nothing can be added to sums that are not scaled, so the input has constants behind its
    channels, whose products are the bias: of 127 and 127 as many as necessary, and of 1.
    """
    record, weight = _record(layer), layer.weight
    zero = layer.input_zero_point * weight.sum(axis=(0, 1, 2), dtype=np.int64)
    offsets = {"product": -zero, "biased": record.bias - zero}
    rows = max(_offset_rows(offset) for offset in offsets.values())
    constants = np.full((len(x), rows), _UNIT, np.int8)
    constants[:, -1] = 1
    padded = np.concatenate([x, constants], axis=1)[:, None]
    nothing = np.zeros((rows, weight.shape[3]), np.int8)
    records = {"scaled": _unlimited(record), "activated": record}
    layers, activations = [], {"x": Activation(padded.shape)}  # type: ignore[arg-type]
    for name, stage in stages.items():
        raw = stage in offsets
        more = _offset_weights(offsets[stage], rows) if raw else nothing
        layers.append(
            replace(
                layer,
                name=name,
                inputs=("x",),
                output=name,
                weight=np.concatenate([weight, more[None, None]], axis=2),
                requantization=records.get(stage),
                input_zero_point=0 if raw else layer.input_zero_point,
            )
        )
        shape = (len(x), 1, weight.shape[3])
        activations[name] = Activation(shape, "int32" if raw else "int8")
    return LayerGraph("steps", tuple(layers), activations, ("x",), tuple(stages)), padded


def _offset_rows(offset: np.ndarray) -> int:
    """Return how many constants an offset needs."""
    return -(-int(np.abs(offset).max()) // _UNIT // _UNIT) + 2


def _offset_weights(offset: np.ndarray, rows: int) -> np.ndarray:
    """Return weights [rows, outputs] of constants 127, the last of which is 1."""
    coarse, fine = np.divmod(np.abs(offset), _UNIT)
    begin = np.arange(rows - 1)[:, None] * _UNIT
    digits = np.clip(coarse - begin, 0, _UNIT)
    return (np.concatenate([digits, fine[None]]) * np.sign(offset)).astype(np.int8)


def _run(
    network: LayerGraph,
    x: np.ndarray,
    model: PlannedModel,
    options: Options,
    device: str | Device,
) -> dict[str, np.ndarray]:
    """Compile a network, run it on the device, and return its outputs as matrices."""
    results = Session(compile_layers(network, model.config, options), device).run(x)
    if results.fault is not None:
        raise RuntimeError(f"{model.graph.name} stopped with {results.fault}")
    return {name: values.reshape(len(x), -1) for name, values in results.outputs.items()}
