"""Shapes that a TFLite file leaves open: LiteRT works them out, from those of the inputs.

Converters write -1 into the signature of every extent that depends on the batch, and 1 into its
shape, however far the batch has moved (``[-1, 6, 16]`` reshaped to ``[-1, 16]`` is stored as
``[1, 16]`` and has six rows). Operators on shapes (SHAPE, GATHER, PACK) compute
the rest in the run.
"""

import importlib.util
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpulite.frontend.given_shapes import AXES, FileInput, GivenShapes, Open
from tpulite.frontend.tflite.cut import keep_buffers, pack, unpack, widen_filters
from tpulite.frontend.tflite.parse import FileModel, FileTensor, parse_tflite
from tpulite.needs import require_package

_SHAPES_ALONE = frozenset({"RANK", "SHAPE"})
"""Operators whose results follow from the shape of their input."""

_SAYS_SHAPE: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("ARG_MAX", "ARG_MIN", "BROADCAST_TO", "EXPAND_DIMS", "MEAN"), (1,)),
    **dict.fromkeys(("MIRROR_PAD", "MULTINOMIAL", "ONE_HOT", "PAD", "PADV2", "RESHAPE"), (1,)),
    **dict.fromkeys(("REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN"), (1,)),
    **dict.fromkeys(("REDUCE_PROD", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), (1,)),
    **dict.fromkeys(("SPARSE_TO_DENSE", "SUM", "TILE", "TOPK_V2", "TRANSPOSE"), (1,)),
    **dict.fromkeys(("BATCH_TO_SPACE_ND", "SLICE", "SPACE_TO_BATCH_ND", "SPLIT_V"), (1, 2)),
    **dict.fromkeys(("CONV_3D_TRANSPOSE", "FILL", "RANDOM_STANDARD_NORMAL"), (0,)),
    **dict.fromkeys(("RANDOM_UNIFORM", "SPLIT", "TRANSPOSE_CONV"), (0,)),
    "RANGE": (0, 1, 2),
    "SCATTER_ND": (2,),
    "STRIDED_SLICE": (1, 2, 3),
}
"""Inputs whose values, not only whose shapes, say what shape the results have."""

_DECIDED_BY_DATA = frozenset(
    {
        *("CALL", "CUSTOM", "IF", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"),
        *("READ_VARIABLE", "UNIQUE", "WHERE", "WHILE"),
    }
)
"""Operators whose results have a shape that only the run knows, if the file leaves it open."""

_MOVING = frozenset(
    {
        *("BROADCAST_ARGS", "BROADCAST_TO", "CAST", "CONCATENATION", "EXPAND_DIMS", "FILL"),
        *("GATHER", "PACK"),
        *("RESHAPE", "SLICE", "SQUEEZE", "STRIDED_SLICE", "TILE", "TRANSPOSE", "UNPACK"),
    }
)
"""Operators whose results all kernels agree on, those of floats included."""

_INTEGERS = frozenset({"BOOL", "INT32", "INT64"})
"""Types of shapes and of what is computed with them."""


class UnsettledError(ValueError):
    """LiteRT does not run a file whose shapes are open; what it stores may do."""


def settle_shapes(data: bytes, model: FileModel, given: GivenShapes) -> bytes:
    """Return a file that says every shape, or the same one if it does so already.

    Operators that compute with shapes become constants. Tensors keep their numbers. Extents that
    the data decide in the run stay open, and so do those behind them. Without LiteRT the shapes
    that the file stores must do.

    Parameters
    ----------
    data : bytes
        A TFLite file.
    model : FileModel
        What it holds.
    given : GivenShapes
        Shapes of inputs, where they are not the file's.

    Raises
    ------
    UnsettledError
        If LiteRT does not run the file, and no shapes are given; the message is LiteRT's.
    ValueError
        If an input has an open extent besides its batch that is not given, or LiteRT refuses what
        is.
    """
    opened = any(min((*x.signature, *x.shape), default=0) < 0 for x in model.tensors)
    if (not opened and not given) or not _sound(model):
        return data
    inputs = {model.tensors[i].name or f"tensor_{i}": i for i in model.inputs}
    extents = {name: _extents(model.tensors[i]) for name, i in inputs.items()}
    shapes = given.settle(extents, fixed=False)
    if given:
        for package in ("ai_edge_litert", "flatbuffers"):
            require_package(package, "litert", "--shape of a TFLite file")
    elif importlib.util.find_spec("ai_edge_litert") is None:
        return data
    wanted = {number: shapes[name] for name, number in inputs.items()}
    try:
        return _settled(data, model, wanted)
    except Exception as error:  # LiteRT's, and of parts of a file that nobody has checked
        line = str(error).strip().splitlines() or [type(error).__name__]
        if not given:  # it lacks custom operators and the like
            raise UnsettledError(line[0]) from error
        raise ValueError(f"LiteRT rejects the given shapes: {line[0]}") from error


def image_inputs(data: bytes) -> Mapping[str, FileInput]:
    """Return the inputs of a TFLite file with four extents, by name; channels are the last."""
    model = parse_tflite(data)
    if not _sound(model):
        return {}
    tensors = {model.tensors[i].name or f"tensor_{i}": model.tensors[i] for i in model.inputs}
    extents = {name: _extents(tensor) for name, tensor in tensors.items()}
    return {name: FileInput(each, AXES) for name, each in extents.items() if len(each) == len(AXES)}


def _sound(model: FileModel) -> bool:
    """Tell whether all tensors that are named are there; who reads the file refuses others."""
    named = {*model.inputs, *model.outputs}
    for operator in model.operators:
        named.update(i for i in operator.inputs if i != -1)
        named.update(operator.outputs)
    return all(0 <= number < len(model.tensors) for number in named)


def _extents(tensor: FileTensor) -> Open:
    signature = tensor.signature if len(tensor.signature) == len(tensor.shape) else tensor.shape
    pairs = zip(tensor.shape, signature, strict=True)
    return [extent if min(extent, said) >= 0 else "" for extent, said in pairs]


@dataclass(frozen=True)
class _Known:
    """What of a file does not depend on its data."""

    #: Tensors that are computed of shapes and constants, and so are constants.
    derived: tuple[int, ...]
    settled: tuple[int, ...]  #: Computed tensors whose shapes follow from those of the inputs.
    runs: bool  #: Whether LiteRT knows these shapes only after a run.


def _known(model: FileModel) -> _Known:
    stored = {
        i
        for i, x in enumerate(model.tensors)
        if (x.data is not None or 0 in x.shape) and not x.variable  # what is empty has no data
    }
    constant, derived, open_ = set(stored), dict[int, None](), set[int]()
    settled: list[int] = []
    runs = False
    for operator in model.operators:
        code, inputs = operator.code, [i for i in operator.inputs if i != -1]
        says = {operator.inputs[i] for i in _SAYS_SHAPE.get(code, ()) if i < len(operator.inputs)}
        says.discard(-1)
        free = code in _DECIDED_BY_DATA or not says <= constant or not open_.isdisjoint(inputs)
        runs |= not says <= stored
        followed = inputs and not free and constant.issuperset(inputs)
        shapes = code in _SHAPES_ALONE and not free
        for number in operator.outputs:
            tensor = model.tensors[number]
            if free and min(tensor.signature, default=0) < 0:
                open_.add(number)
                continue
            settled.append(number)
            exact = tensor.type in _INTEGERS or code in _MOVING
            if shapes or (followed and exact and not derived.keys().isdisjoint(inputs)):
                derived[number] = None
                constant.add(number)
            elif followed:
                constant.add(number)
    return _Known(tuple(derived), tuple(settled), runs or bool(derived))


def _settled(data: bytes, model: FileModel, inputs: Mapping[int, tuple[int, ...]]) -> bytes:
    """Return the file with the shapes that follow from those of the inputs."""
    file = unpack(data)
    widen_filters(file)  # or LiteRT writes beyond its tensors
    keep_buffers(file, data)
    changed = _set_shapes(file, inputs)
    known = _known(model)
    interpreter = _opened(pack(file), known.runs)
    found = {x["index"]: tuple(x["shape"].tolist()) for x in interpreter.get_tensor_details()}
    changed |= _set_shapes(file, {number: found[number] for number in known.settled})
    constants = {i: interpreter.get_tensor(i) for i in known.derived if i not in model.outputs}
    _set_constants(file, constants)
    return pack(file) if changed or constants else data


def _opened(data: bytes, run: bool) -> Any:
    """Let LiteRT work out shapes, by a run with zeros if it must."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its dependencies are not free of deprecations
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter: Any = Interpreter(
        model_content=data,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_preserve_all_tensors=True,
        num_threads=1,
    )
    interpreter.allocate_tensors()
    if run:
        for each in interpreter.get_input_details():
            interpreter.set_tensor(each["index"], np.zeros(each["shape"], each["dtype"]))
        interpreter.invoke()
    return interpreter


def _set_shapes(file: Any, shapes: Mapping[int, tuple[int, ...]]) -> bool:
    """Write shapes into a file; tell whether it said something else."""
    changed = False
    for number, shape in shapes.items():
        tensor = file.subgraphs[0].tensors[number]
        was, signature = (
            [] if each is None else [int(n) for n in each]
            for each in (tensor.shape, tensor.shapeSignature)
        )
        if was != list(shape) or min(signature[1:], default=0) < 0:
            tensor.shape, tensor.shapeSignature = list(shape), None
            changed = True
    return changed


def _set_constants(file: Any, values: Mapping[int, np.ndarray]) -> None:
    """Give tensors their values, and leave out the operators that compute nothing else."""
    graph = file.subgraphs[0]
    for number, value in values.items():
        buffer = type(file.buffers[0])()
        buffer.data = np.frombuffer(value.tobytes(), np.uint8)
        file.buffers.append(buffer)
        graph.tensors[number].buffer = len(file.buffers) - 1
    graph.operators = [
        operator
        for operator in graph.operators
        if not len(operator.outputs) or not all(int(i) in values for i in operator.outputs)
    ]
