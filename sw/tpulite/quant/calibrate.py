"""Quantization after training: a float ONNX network and some data become an int8 one."""

import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime
from google.protobuf.message import DecodeError
from onnx import helper, numpy_helper
from onnxruntime.quantization.shape_inference import quant_pre_process

from tpulite.quant.floats.dequantized import dequantize_weights, has_integer_weights
from tpulite.quant.floats.expand import expand_group_norms, expand_operators, with_shapes
from tpulite.quant.floats.feature_norms import NORMS
from tpulite.quant.floats.graph import has_attention
from tpulite.quant.floats.norm_forms import find_norms
from tpulite.quant.floats.observe import Feed
from tpulite.quant.floats.quantizer import Settings, quantize_prepared
from tpulite.quant.floats.ranges import Method
from tpulite.quant.floats.rounded import drop_idle_clips
from tpulite.quant.int4_onnx import OPSET_INT4
from tpulite.quant.prepare import HARD_SWISH, prepare, standard_opset, write_pads

__all__ = [
    "NUMERICS",
    "Feed",
    "check_samples",
    "default_numerics",
    "fixed_batch",
    "has_integers",
    "quantize_onnx",
]

NUMERICS = ("ort", "litert-ref")
"""Numerics in which a network can be quantized."""

_WARNING, _FATAL = 2, 4  # severities of ONNX Runtime

_IMAGE = 4
"""Axes of a feature map of two axes of pixels."""

_CONSTANTS_ALONE = 4
"""Version of the format; before it constants had to be inputs as well."""


def quantize_onnx(  # noqa: PLR0913 - settings by name
    data: bytes,
    calibration: np.ndarray | Sequence[np.ndarray | Feed],
    *,
    per_channel: bool = True,
    reduce_range: bool = False,
    symmetric: bool = False,
    ranges: Method = "mse",
    percentile: float = 100.0,
    min_cosine: float = 0.0,
    numerics: str = "ort",
    int4: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> bytes:
    """Quantize a network to int8 with ONNX Runtime's quantizer.

    BatchNorm is folded and activations are fused first. The result is an ONNX file whose operators
    stand between DequantizeLinear and QuantizeLinear (QDQ).

    Parameters
    ----------
    data : bytes
        ONNX file with floats; its weights may be integers with scales.
    calibration : ndarray or sequence
        Samples; what they contain decides the ranges of the activations. An array holds samples
        along its first axis; a sequence holds an array or a mapping of names to arrays for each
        sample. An array with one axis less than the input gets a batch of 1.
    per_channel : bool
        Whether each output channel of weights has its own scale.
    reduce_range : bool
        Whether weights have 7 bits, which ONNX Runtime needs on older x86 processors to compute
        without saturation; this machine does not.
    symmetric : bool
        Whether zero points of activations are 128, the middle of uint8.
    ranges : str
        How the ranges of activations are chosen: ``mse``, ``minmax``, ``percentile``, ``entropy``.
    percentile : float
        Share of the activations, in percent, that must lie in the range of a tensor; a little less
        than 100 ignores outliers. Below 100 it decides the ranges.
    min_cosine : float
        Cosine to the floats that each output should have; the activations that lose most stay in
        floats until it has. With 0 all are rounded.
    numerics : str
        ``ort``: what ONNX Runtime computes in floats between the quantized operators stays such.
        ``litert-ref``: it is defined by LiteRT's integer operators, as whose steps normalizations
        are written; the file's metadata say so. See :func:`default_numerics`.
    int4 : bool
        Whether weights of products have 4 bits. Those that lose most keep 8 until each output has
        the least cosine; the metadata of the file name them.
    progress : callable, optional
        Called with the number of samples that were read and the number of all.

    Returns
    -------
    bytes
        ONNX file with int8 or int4 weights, and uint8 activations or int8 ones for ``litert-ref``.

    Raises
    ------
    ValueError
        If the file cannot be used, is quantized already, has weights that are NaN, or the samples
        are missing, are not numbers or do not fit the inputs.
    """
    if numerics not in NUMERICS:
        raise ValueError(f"numerics must be one of {', '.join(NUMERICS)}, not {numerics!r}")
    if not 0 < percentile <= 100:
        raise ValueError(f"percentile must be above 0 and at most 100, not {percentile!r}")
    model = _parse(data)
    _check_weights(model)
    feeds = check_samples(data, calibration)
    settings = Settings(
        per_channel, reduce_range, symmetric, ranges, percentile, min_cosine, numerics, int4
    )
    with tempfile.TemporaryDirectory(prefix="tpulite-") as folder, _quiet():
        original, prepared = Path(folder, "float.onnx"), Path(folder, "prepared.onnx")
        try:
            least = OPSET_INT4 if int4 else HARD_SWISH
            fixed = _fixed(model, least)
            drop_idle_clips(fixed, feeds)
            opset = standard_opset(fixed)
            fixed = with_shapes(fixed, opset)
            expand_operators(fixed, opset)
            original.write_bytes(fixed.SerializeToString())
            # Shape inference with symbols would need sympy, and batches are fixed here.
            quant_pre_process(original, prepared, skip_symbolic_shape=True)
            prepare(prepared)
            ready = onnx.load(prepared)
            # Alphabets and names of classes, as ultralytics and PaddlePaddle write them.
            helper.set_model_props(ready, {x.key: x.value for x in model.metadata_props})
            return quantize_prepared(ready, feeds, settings, progress)
        except Exception as error:  # anything: it is foreign code on a foreign file
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise ValueError(f"ONNX Runtime cannot quantize the network: {lines[0]}") from error


def default_numerics(data: bytes) -> str:
    """Return the numerics in which a float network is quantized.

    That is ``litert-ref`` for transformers and networks with normalizations or transposed
    convolutions: ONNX Runtime computes those, and softmax before products, in floats, which no
    integer machine reproduces. Of other networks it computes nearly everything with integers.
    """
    model = _parse(data)
    if any(_is_transposed_convolution(node, model.graph) for node in model.graph.node):
        return "litert-ref"
    normalizes = find_norms(model) or any(x.op_type in NORMS for x in model.graph.node)
    return "litert-ref" if normalizes or has_attention(model.graph) else "ort"


def _is_transposed_convolution(node: onnx.NodeProto, graph: onnx.GraphProto) -> bool:
    """Tell whether an operator is a transposed convolution of one or two axes of pixels."""
    if node.op_type != "ConvTranspose":
        return False
    ranks = {tensor.name: len(tensor.dims) for tensor in graph.initializer}
    return ranks.get(node.input[1], _IMAGE) <= _IMAGE


def fixed_batch(data: bytes) -> bytes:
    """Return the float network that is quantized: its batch is 1 where it was variable.

    Raises
    ------
    ValueError
        If the file cannot be used, or is quantized already.
    """
    return _fixed(_parse(data)).SerializeToString()


def has_integers(data: bytes) -> bool:
    """Tell whether a file has integer weights: what is quantized is the float network behind it."""
    return has_integer_weights(onnx.load_model_from_string(data).graph)


def check_samples(
    data: bytes, calibration: np.ndarray | Sequence[np.ndarray | Feed]
) -> list[dict[str, np.ndarray]]:
    """Return samples as :func:`quantize_onnx` takes them, by names of inputs.

    Raises
    ------
    ValueError
        If they are missing, are not numbers or do not fit the inputs.
    """
    if calibration is None or not len(calibration):
        raise ValueError("there are no calibration samples; give at least one")
    inputs = _inputs(_parse(data))
    return [_check(inputs, sample, index) for index, sample in enumerate(calibration)]


def _parse(data: bytes) -> onnx.ModelProto:
    try:
        model = onnx.load_model_from_string(data)
    except (DecodeError, RuntimeError, ValueError) as error:
        raise ValueError(f"not an ONNX file, or a damaged one: {error}") from error
    if not model.graph.node:
        raise ValueError("the ONNX file has no operators")
    try:
        dequantize_weights(model)
    except Exception as error:  # what a damaged file says of its weights
        raise ValueError(f"its integer weights cannot be read: {error}") from error
    expand_group_norms(model, standard_opset(model))
    write_pads(model)
    for node in model.graph.node:
        if "QuantizeLinear" in node.op_type or node.op_type.startswith("QLinear"):
            name = node.name or node.output[0]
            raise ValueError(
                f"Node {name!r}: the network is already quantized; compile and run it as it is"
            )
    return model


def _check_weights(model: onnx.ModelProto) -> None:
    """Refuse weights that are NaN; infinite ones may be masks."""
    for tensor in model.graph.initializer:
        value = numpy_helper.to_array(tensor)
        if value.dtype.kind == "f" and np.isnan(value).any():
            raise ValueError(f"Tensor {tensor.name!r} has elements that are NaN")


def _inputs(model: onnx.ModelProto) -> dict[str, tuple[np.dtype, tuple[int | None, ...]]]:
    """Return dtype and extents of the inputs, None is variable; ValueError for unknown types."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = {}
    for value in model.graph.input:
        if value.name in constants:
            continue
        kind = value.type.tensor_type
        extents = tuple(
            extent.dim_value if extent.HasField("dim_value") and extent.dim_value > 0 else None
            for extent in kind.shape.dim
        )
        try:
            dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        except KeyError:
            raise ValueError(
                f"Input {value.name!r} has the unknown type {kind.elem_type}"
            ) from None
        inputs[value.name] = (dtype, extents)
    return inputs


def _fixed(model: onnx.ModelProto, least: int = HARD_SWISH) -> onnx.ModelProto:
    """Return the model with a batch of 1 where it was variable, in a version of its operators."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    for value in fixed.graph.input:
        extents = value.type.tensor_type.shape.dim
        if extents and (not extents[0].HasField("dim_value") or extents[0].dim_value < 1):
            extents[0].dim_value = 1
    del fixed.graph.value_info[:]
    for value in fixed.graph.output:
        value.type.tensor_type.ClearField("shape")
    if 0 < standard_opset(fixed) < least:
        fixed = onnx.version_converter.convert_version(fixed, least)
    # Not newer than its operators are: ONNX Runtime may know them, but not the file's version.
    oldest = helper.find_min_ir_version_for(list(fixed.opset_import), ignore_unknown=True)
    fixed.ir_version = max(oldest, _CONSTANTS_ALONE)
    return fixed


def _check(
    inputs: Mapping[str, tuple[np.dtype, tuple[int | None, ...]]], sample: Any, index: int
) -> dict[str, np.ndarray]:
    """Return a sample as a mapping of arrays that fit the inputs."""
    if not isinstance(sample, Mapping):
        if len(inputs) != 1:
            raise ValueError(
                f"Sample {index} must name its arrays; the inputs of the network are {list(inputs)}"
            )
        sample = {next(iter(inputs)): sample}
    if sample.keys() != inputs.keys():
        raise ValueError(f"Sample {index} has the inputs {sorted(sample)}, not {sorted(inputs)}")
    feed = {}
    for name, (dtype, extents) in inputs.items():
        value = np.asarray(sample[name])
        if value.dtype.kind not in "fiub":
            raise ValueError(f"Sample {index} of {name!r} must be numbers, not {value.dtype.name}")
        if value.ndim == len(extents) - 1:
            value = value[None]
        fits = value.ndim == len(extents) and all(
            expected in (None, found) for expected, found in zip(extents, value.shape, strict=True)
        )
        if not fits:
            wanted = ["any" if extent is None else extent for extent in extents]
            raise ValueError(
                f"Sample {index} of {name!r} must have the shape {wanted}, not {list(value.shape)}"
            )
        value = value.astype(dtype)
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise ValueError(f"Sample {index} of {name!r} holds NaN or infinite values")
        feed[name] = value
    return feed


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the quantizer, which warns of what it does anyway."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # it logs the tracebacks of errors, which are told below
    onnxruntime.set_default_logger_severity(_FATAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        onnxruntime.set_default_logger_severity(_WARNING)
        logging.disable(level)
