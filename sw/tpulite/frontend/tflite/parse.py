"""TFLite files as plain values, read through the published schema.

A corrupt file leads the schema's accessors anywhere, so all of them are called here, and nothing
that they return is trusted.
"""

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import tflite

from tpulite.frontend.foreign import TFLITE
from tpulite.frontend.tflite.bodies import body_macs, operator_number

_MAX_RANK = 8

# What the schema's accessors raise, besides struct.error, when an offset leads astray.
_ASTRAY = (IndexError, TypeError, OverflowError, AttributeError, ValueError)

_CONV = ("Padding", "StrideH", "StrideW", "DilationHFactor", "DilationWFactor")
_POOL = ("Padding", "StrideH", "StrideW", "FilterHeight", "FilterWidth")
_FUSED = "FusedActivationFunction"
_MASKS = ("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask", "Offset")

# The options that we use: for each operator the table of the schema and its fields.
_OPTIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "ADD": ("AddOptions", (_FUSED,)),
    "AVERAGE_POOL_2D": ("Pool2DOptions", (*_POOL, _FUSED)),
    "BATCH_MATMUL": ("BatchMatMulOptions", ("AdjX", "AdjY")),
    "CALL_ONCE": ("CallOnceOptions", ("InitSubgraphIndex",)),
    "CONCATENATION": ("ConcatenationOptions", ("Axis", _FUSED)),
    "CONV_2D": ("Conv2DOptions", (*_CONV, _FUSED)),
    "DEPTHWISE_CONV_2D": ("DepthwiseConv2DOptions", (*_CONV, _FUSED)),
    "FULLY_CONNECTED": ("FullyConnectedOptions", (_FUSED, "WeightsFormat")),
    "GATHER": ("GatherOptions", ("Axis", "BatchDims")),
    "GELU": ("GeluOptions", ("Approximate",)),
    "DEPTH_TO_SPACE": ("DepthToSpaceOptions", ("BlockSize",)),
    "LEAKY_RELU": ("LeakyReluOptions", ("Alpha",)),
    "MAX_POOL_2D": ("Pool2DOptions", (*_POOL, _FUSED)),
    **dict.fromkeys(("MEAN", "REDUCE_MAX", "REDUCE_MIN", "SUM"), ("ReducerOptions", ("KeepDims",))),
    "MIRROR_PAD": ("MirrorPadOptions", ("Mode",)),
    "MUL": ("MulOptions", (_FUSED,)),
    "PACK": ("PackOptions", ("Axis", "ValuesCount")),
    "RESIZE_BILINEAR": ("ResizeBilinearOptions", ("AlignCorners", "HalfPixelCenters")),
    "RESIZE_NEAREST_NEIGHBOR": (
        "ResizeNearestNeighborOptions",
        ("AlignCorners", "HalfPixelCenters"),
    ),
    "SOFTMAX": ("SoftmaxOptions", ("Beta",)),
    "SPACE_TO_DEPTH": ("SpaceToDepthOptions", ("BlockSize",)),
    "SPLIT": ("SplitOptions", ("NumSplits",)),
    "STRIDED_SLICE": ("StridedSliceOptions", _MASKS),
    "SUB": ("SubOptions", (_FUSED,)),
    "SVDF": ("SVDFOptions", ("Rank", _FUSED)),
    "TRANSPOSE_CONV": ("TransposeConvOptions", ("Padding", "StrideH", "StrideW", _FUSED)),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (
        "UnidirectionalSequenceLSTMOptions",
        (_FUSED, "CellClip", "ProjClip", "TimeMajor"),
    ),
    "UNPACK": ("UnpackOptions", ("Axis", "Num")),
    "VAR_HANDLE": ("VarHandleOptions", ("Container", "SharedName")),
}


@dataclass(frozen=True, eq=False)
class FileTensor:
    """A tensor, as the file has it."""

    name: str  #: Name; may be empty, or that of another tensor, too.
    #: Extents, and extents with -1 where they are dynamic (empty if the file has none).
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    type: str  #: The schema's name of the type, or a number that it does not know.
    data: np.ndarray | None  #: Ndarray of uint8. Bytes of a constant.
    #: Quantization; empty if there is none.
    scale: np.ndarray
    zero_point: np.ndarray
    axis: int  #: Axis of several scales.
    #: Whether it keeps its value between runs, whether its data are compressed.
    variable: bool
    sparse: bool


@dataclass(frozen=True, eq=False)
class FileOperator:
    """An operator: its builtin name (or CUSTOM and a name), tensors by number, and options.

    ``macs`` are the multiplications in subgraphs that it calls, None if it calls none;
    ``intermediates`` are tensors that only say how it quantizes results inside.
    """

    code: str
    custom: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any]
    macs: int | None = None
    intermediates: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class FileModel:
    """A subgraph of a file."""

    tensors: tuple[FileTensor, ...]
    operators: tuple[FileOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def parse_tflite(data: bytes, subgraph: int = 0) -> FileModel:
    """Read a subgraph of a TFLite file.

    Parameters
    ----------
    data : bytes
        The file. Constants of the result are views of it.
    subgraph : int
        Which one; the first is the network.

    Raises
    ------
    ValueError
        If the file is not a TFLite file, or corrupt; the message says where.
    """
    if data[4:8] != TFLITE:
        raise ValueError(f"this is not a TFLite file: bytes 4 to 7 are {data[4:8]!r}, not 'TFL3'")
    with _reading("the model"):
        model = tflite.Model.GetRootAs(data)
        if model.Version() != 3:
            raise ValueError(f"version {model.Version()} of the schema, not 3")
        if not model.SubgraphsLength():
            raise ValueError("there is no subgraph")
        if not 0 <= subgraph < model.SubgraphsLength():
            raise ValueError(
                f"subgraph {subgraph} is used, and the file has {model.SubgraphsLength()}"
            )
        graph: Any = model.Subgraphs(subgraph)
        counts = graph.TensorsLength(), graph.OperatorsLength()
        inputs, outputs = _integers(graph, "Inputs"), _integers(graph, "Outputs")

    tensors, operators = [], []
    for i in range(counts[0]):
        with _reading(f"tensor {i}"):
            tensors.append(_tensor(data, model, graph.Tensors(i)))
    for i in range(counts[1]):
        with _reading(f"operator {i}"):
            operators.append(_operator(model, graph.Operators(i)))
    return FileModel(tuple(tensors), tuple(operators), inputs, outputs)


@contextmanager
def _reading(what: str) -> Iterator[None]:
    try:
        yield
    except struct.error as error:
        raise ValueError(
            f"the file is corrupt: {what} cannot be read: an offset is beyond its end"
        ) from error
    except _ASTRAY as error:
        raise ValueError(f"the file is corrupt: {what} cannot be read: {error}") from error


def _tensor(data: bytes, model: Any, tensor: Any) -> FileTensor:
    quantization = tensor.Quantization()
    empty = np.zeros(0)
    scale = zero_point = empty
    if quantization is not None:
        scale = quantization.ScaleAsNumpy() if quantization.ScaleLength() else empty
        zero_point = quantization.ZeroPointAsNumpy() if quantization.ZeroPointLength() else empty
    return FileTensor(
        name=(tensor.Name() or b"").decode(errors="replace"),
        shape=_extents(tensor, "Shape"),
        signature=_extents(tensor, "ShapeSignature"),
        type=_TYPES.get(tensor.Type(), str(tensor.Type())),
        data=_bytes(data, model, tensor.Buffer()),
        scale=scale,
        zero_point=zero_point,
        axis=quantization.QuantizedDimension() if quantization is not None else 0,
        variable=bool(tensor.IsVariable()),
        sparse=tensor.Sparsity() is not None,
    )


def _bytes(data: bytes, model: Any, index: int) -> np.ndarray | None:
    """Return the content of a buffer, or None if it is empty."""
    if not 0 <= index < model.BuffersLength():
        raise ValueError(f"no buffer {index}: the file has {model.BuffersLength()}")
    buffer = model.Buffers(index)
    if buffer.Size() and buffer.Offset() > 1:  # large files keep the bytes behind the flatbuffer
        return np.frombuffer(data, np.uint8, buffer.Size(), buffer.Offset())
    return buffer.DataAsNumpy() if buffer.DataLength() else None


def _operator(model: Any, operator: Any) -> FileOperator:
    index = operator.OpcodeIndex()
    if not 0 <= index < model.OperatorCodesLength():
        raise ValueError(f"no operator code {index}: the file has {model.OperatorCodesLength()}")
    code = model.OperatorCodes(index)
    number = operator_number(code)
    name = _OPERATORS.get(number, f"BUILTIN_{number}")
    return FileOperator(
        code=name,
        custom=(code.CustomCode() or b"").decode(errors="replace") if name == "CUSTOM" else "",
        inputs=_integers(operator, "Inputs"),
        outputs=_integers(operator, "Outputs"),
        options=_options(name, operator),
        macs=body_macs(model, operator, name),
        intermediates=_integers(operator, "Intermediates"),
    )


def _options(name: str, operator: Any) -> dict[str, Any]:
    """Return the options that we use; those of a missing table have the schema's defaults."""
    if name not in _OPTIONS:
        return {}
    table, fields = _OPTIONS[name]
    if operator.BuiltinOptionsType() != getattr(tflite.BuiltinOptions, table):
        return {}
    union = operator.BuiltinOptions()
    options = getattr(tflite, table)()
    options.Init(union.Bytes, union.Pos)
    return {field: getattr(options, field)() for field in fields}


def _extents(tensor: Any, field: str) -> tuple[int, ...]:
    length = getattr(tensor, f"{field}Length")()
    if length > _MAX_RANK:
        raise ValueError(f"{field} has {length} entries, more than {_MAX_RANK}")
    return _integers(tensor, field)


def _integers(table: Any, field: str) -> tuple[int, ...]:
    length = getattr(table, f"{field}Length")()
    return tuple(getattr(table, f"{field}AsNumpy")().tolist()) if length else ()


def _names(enumeration: type) -> dict[int, str]:
    return {value: name for name, value in vars(enumeration).items() if isinstance(value, int)}


_TYPES = _names(tflite.TensorType)
_OPERATORS = _names(tflite.BuiltinOperator)
