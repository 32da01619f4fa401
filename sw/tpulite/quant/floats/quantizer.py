"""A prepared float network becomes int8: rewrites, ranges, and ONNX Runtime's QDQ writer."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnxruntime import quantization
from onnxruntime.quantization.calibrate import TensorData, TensorsData
from onnxruntime.quantization.qdq_quantizer import QDQQuantizer
from onnxruntime.quantization.quant_utils import load_model_with_shape_infer

from tpulite.frontend.onnx.read.attributes import attributes_of
from tpulite.frontend.onnx.read.model import NUMERICS
from tpulite.quant.floats.affine import (
    center_clips,
    fold_affines,
    write_batch_norms,
    write_hard_sigmoids,
)
from tpulite.quant.floats.biases import fold_factors, join_biases
from tpulite.quant.floats.blocks import inside_blocks, tables_inside
from tpulite.quant.floats.channels import Scaled, scale_channels
from tpulite.quant.floats.dead import drop_unread, flush_constants, live_channels
from tpulite.quant.floats.feature_norms import write_feature_norms
from tpulite.quant.floats.graph import MOVING, Links, sort_nodes
from tpulite.quant.floats.head_groups import repeat_by_tiles, share_heads
from tpulite.quant.floats.integral import integral_channels
from tpulite.quant.floats.masks import clamp_masks, narrow_masks
from tpulite.quant.floats.mixed import Judge, leave_floats, spread
from tpulite.quant.floats.observe import Feed, observe
from tpulite.quant.floats.outliers import split_outliers
from tpulite.quant.floats.products import Weights
from tpulite.quant.floats.ranges import Method, Range, choose_range
from tpulite.quant.floats.recurrent.split import Rounding, split_recurrent
from tpulite.quant.floats.recurrent.states import state_moves
from tpulite.quant.floats.rotations import angles_of, multiply_positions, turn_by_products
from tpulite.quant.floats.sigmoids import join_sigmoids, multiply_cubes
from tpulite.quant.floats.spectra import Spectra, find_spectra, split_spectra
from tpulite.quant.floats.streams import Streams, scale_streams
from tpulite.quant.int4_onnx import int4_onnx
from tpulite.quant.int8_onnx import QUANTIZED, compensate_weights
from tpulite.quant.one_scale import share_scales

_RESERVE = 2
"""How much smaller the loss of outputs must be than allowed, for other samples may lose more."""

_COMPENSATING = 128
"""Samples whose inputs of products decide how weights are rounded."""

_SHARES = {"rmin": np.float32(0), "rmax": np.float32(255 / 256)}
_GIVEN = {
    "Sigmoid": _SHARES,
    "Softmax": _SHARES,
    "Tanh": {"rmin": np.float32(-1), "rmax": np.float32(127 / 128)},
}
"""Ranges of what LiteRT's operators make of integers: they have no other scale."""

_QUANTIZED = (
    *("Add", "AveragePool", "BatchNormalization", "Clip", "Concat", "Conv"),
    *("ConvTranspose", "DepthToSpace", "Elu"),
    *("Flatten", "Resize", "Slice", "SpaceToDepth", "Split", "Tile"),
    *("Gelu", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "HardSigmoid", "HardSwish"),
    *("LeakyRelu", "MatMul", "MaxPool", "Mul", "Pad", "ReduceMean", "Relu", "Reshape"),
    *("Selu", "Sigmoid", "Softplus", "Softsign", "Squeeze", "Sub", "Tanh", "Transpose"),
    "Unsqueeze",
)
"""Operators that the machine has; the quantizer alone would leave many of them in floats."""


@dataclass(frozen=True)
class Settings:
    """What a user decides: see :func:`tpulite.quant.calibrate.quantize_onnx`."""

    per_channel: bool
    reduce_range: bool
    symmetric: bool
    ranges: Method
    percentile: float
    min_cosine: float
    numerics: str
    int4: bool

    @property
    def integers(self) -> bool:
        """Whether float operators get LiteRT's definition by integers."""
        return self.numerics != "ort"


def quantize_prepared(
    model: onnx.ModelProto,
    feeds: Sequence[Feed],
    settings: Settings,
    progress: Callable[[int, int], None] | None = None,
) -> bytes:
    """Quantize a network.

    Parameters
    ----------
    model : ModelProto
        The network, its BatchNorms folded and its constants computed; changed in place.
    feeds : sequence of mapping of str to ndarray
        Samples.
    settings : Settings
        What the user decides.
    progress : callable, optional
        Called with the number of samples that were read and the number of all.

    Returns
    -------
    bytes
        The QDQ file.
    """
    _name_all(model.graph)
    judge = Judge(model, feeds)
    narrow_masks(model)
    flush_constants(model.graph)
    join_sigmoids(model.graph)
    multiply_positions(model)
    turn_by_products(model)
    share_heads(model)
    repeat_by_tiles(model)
    if settings.integers:
        write_feature_norms(model, feeds)
    drop_unread(model.graph)
    if settings.integers:
        write_hard_sigmoids(model.graph)
    center_clips(model.graph, inside_blocks(model.graph))
    fold_affines(model)
    fold_factors(model)
    join_biases(model)
    _name_all(model.graph)
    streams = Streams()
    if settings.integers:
        write_batch_norms(model)
        multiply_cubes(model.graph)
        streams = scale_streams(model, feeds)
        join_biases(model)
        split_outliers(model, feeds)
        _name_all(model.graph)
    spectra = Spectra() if settings.integers else find_spectra(model.graph)
    blocks = inside_blocks(model.graph) | angles_of(model.graph) | spectra.inside
    scaled = Scaled({}, frozenset())
    if not settings.integers:
        scaled = scale_channels(model, feeds, blocks - tables_inside(model.graph, blocks))
    seen = observe(model, feeds, progress, live=settings.integers)
    masks = clamp_masks(model, seen)
    inside = blocks | scaled.inside | masks.inside | streams.inside | state_moves(model.graph)
    fixed = _before_moves(scaled.ranges | masks.ranges | streams.ranges, model.graph)
    clips = _clips(model.graph)
    wide = (node for node in model.graph.node if node.name in spectra.products)
    largest = {node.name: seen.tensors[node.input[0]].largest for node in wide}

    weights = Weights(settings.per_channel, settings.reduce_range)

    def written(method: Method, *, keep: bool = False) -> bytes:
        ranges = {
            name: choose_range(each, method, settings.percentile)
            for name, each in seen.tensors.items()
        }
        ranges |= fixed
        data = _write(model, ranges, inside, settings, streams.weights, keep=keep)
        data = share_scales(data, clips, requantize=settings.integers)
        data = split_spectra(data, spectra, largest, weights)
        rounding = Rounding(ranges, weights, settings.integers, settings.symmetric)
        return split_recurrent(data, rounding)

    floats = {f"{x}{QUANTIZED}": value for x, value in Links(model.graph).constants.items()}

    def compensated(data: bytes) -> bytes:
        return compensate_weights(data, floats, spread(feeds, _COMPENSATING), weights.most)

    method = settings.ranges if settings.percentile == 100 else "percentile"
    found = written(method)
    cosine, decibels = judge.of_file(found)
    if method == "mse":
        other = written("minmax")
        whole = judge.of_file(other)
        if whole[1] > decibels:
            method, found, (cosine, decibels) = "minmax", other, whole
    other = compensated(found)
    whole = judge.of_file(other)
    compensates = whole[1] > decibels
    if compensates:
        found, cosine = other, whole[0]
    reserve = 1 if settings.integers else _RESERVE  # what stays in floats leaves the machine
    least = 1 - (1 - settings.min_cosine) / reserve
    if settings.min_cosine and cosine < least:
        keeping = written(method, keep=True)
        if compensates:
            keeping = compensated(keeping)
        mixed = leave_floats(keeping, judge, least)
        # A little less loss is no reason to leave integers.
        worth = max(cosine, min(settings.min_cosine, (1 + cosine) / 2))
        found = mixed if judge.of_file(mixed)[0] > worth else found
    return int4_onnx(found, judge, settings.min_cosine) if settings.int4 else found


def _clips(graph: onnx.GraphProto) -> dict[str, Range]:
    """Return between which numbers the results of Relu and Clip are."""
    links = Links(graph)
    found: dict[str, Range] = {}
    for node in graph.node:
        if node.op_type == "Relu":
            found[node.output[0]] = 0.0, np.inf
        elif node.op_type == "Clip":
            low, high = (links.scalar(x) for x in [*node.input[1:], "", ""][:2])
            ends = -np.inf if low is None else low, np.inf if high is None else high
            found[node.output[0]] = ends
    return found


def _before_moves(ranges: Mapping[str, Range], graph: onnx.GraphProto) -> dict[str, Range]:
    """Return ranges with those of tensors that are moved there: a move keeps the scale."""
    links = Links(graph)
    found = dict(ranges)
    for name, each in ranges.items():
        writer = links.writer.get(name)
        while writer is not None and writer.op_type in MOVING:
            before = writer.input[0]
            if links.only_reader(before) is None:
                break
            found.setdefault(before, each)
            writer = links.writer.get(before)
    return found


def _name_all(graph: onnx.GraphProto) -> None:
    """Give each operator a name of its own."""
    used: set[str] = set()
    for index, node in enumerate(graph.node):
        if not node.name or node.name in used:
            node.name = f"{node.op_type}_{index}_{node.output[0]}"
        used.add(node.name)


def _write(
    model: onnx.ModelProto,
    ranges: Mapping[str, Range],
    inside: Collection[str],
    settings: Settings,
    weights: Mapping[str, Sequence[float]],
    *,
    keep: bool,
) -> bytes:
    """Return the QDQ file of a network with ranges.

    Rounding clips like Relu and Clip before it, which are left out then unless they are kept.
    """
    data: dict[str, Any] = {
        name: TensorData(lowest=np.float32(low), highest=np.float32(high))
        for name, (low, high) in ranges.items()
    }
    with TemporaryDirectory(prefix="tpulite-") as folder:
        path = Path(folder, "rewritten.onnx")
        onnx.save(model, path)
        shaped = load_model_with_shape_infer(path)
    kinds = quantization.QuantType
    overrides = {}
    if settings.per_channel:
        overrides = live_channels(model.graph)
    if settings.per_channel and not settings.reduce_range:  # integers of 8 bits
        overrides |= integral_channels(model.graph)
    # One scale: ONNX Runtime would divide biases of all channels by the scales of those of a group.
    overrides |= {
        x.input[1]: [{"symmetric": True}]
        for x in model.graph.node
        if x.op_type == "ConvTranspose" and attributes_of(x).get("group", 1) > 1 and x.input[2:]
    }
    # ONNX Runtime would give them the range of what Relu leaves.
    outputs = {value.name for value in model.graph.output}
    clipped = {x.input[0] for x in model.graph.node if x.op_type in ("Clip", "Relu")}
    overrides |= {
        x: [{"rmin": np.float32(ranges[x][0]), "rmax": np.float32(ranges[x][1])}]
        for x in sorted(outputs & clipped & ranges.keys())
    }
    # Columns of weights that are integers.
    overrides |= {
        x: [{"axis": 1, "rmin": np.float32(-end), "rmax": np.float32(end)} for end in ends]
        for x, ends in weights.items()
    }
    if settings.integers:
        given = {x.output[0]: _GIVEN.get(x.op_type) for x in model.graph.node}
        overrides |= {name: [each] for name, each in given.items() if each}
    quantizer = QDQQuantizer(
        shaped,
        settings.per_channel,
        settings.reduce_range,
        kinds.QInt8,
        # An ordinary session on x86 leaves many products of int8 activations to floats.
        kinds.QInt8 if settings.integers else kinds.QUInt8,
        TensorsData(quantization.CalibrationMethod.MinMax, data),
        [],
        sorted(inside),
        [*_QUANTIZED, *(["Softmax"] if settings.integers else [])],
        {
            "ActivationSymmetric": settings.symmetric,
            "WeightSymmetric": True,
            "QDQKeepRemovableActivations": keep,
            # Or pooling and moving would stay in floats at the beginning of a network.
            "ForceQuantizeNoInputCheck": True,
            "TensorQuantOverrides": overrides,
        },
    )
    quantizer.quantize_model()
    quantizer.model.topological_sort()  # without what bodies read
    written = quantizer.model.model
    sort_nodes(written.graph)
    if settings.integers:
        known = {x.key: x.value for x in model.metadata_props}
        helper.set_model_props(written, known | {NUMERICS: settings.numerics})
    return written.SerializeToString()
