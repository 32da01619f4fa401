"""Libraries that run parts of files: LiteRT for TFLite, ONNX Runtime for ONNX."""

import importlib.metadata
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tpulite.needs import require_package
from tpulite.quant.exactness import Exactness

Run = Callable[[Sequence[np.ndarray]], list[np.ndarray]]
"""Runs a file: from its inputs to its outputs, both in the file's order."""

KERNELS = {
    Exactness.LITERT_REF: "BUILTIN_REF",
    Exactness.TFLM: "BUILTIN_REF",
    Exactness.LITERT_OPT: "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
    Exactness.LITERT_XNNPACK: "AUTO",
}
"""LiteRT's kernels for whose bits; for those of others, who have no TFLite, the reference's."""

_NUMERICS = {
    Exactness.ORT: "onnxruntime",
    Exactness.ORT_INT8: "onnxruntime",
    Exactness.TFLM: "tflite-micro",
    Exactness.BM1684X: None,
}
"""Packages with numerics that are not LiteRT's."""

_PACKAGES = {"tflite": ("ai_edge_litert", "litert"), "onnx": ("onnxruntime", "onnx")}
DECIDED = (
    *("QDQS8ToU8Transformer", "EnsureUniqueDQForNodeUnit", "QDQPropagationTransformer"),
    *("QDQSelectorActionTransformer", "QDQFinalCleanupTransformer", "WhereDummyDq"),
)
"""Optimizers of ONNX Runtime that have done their work on the whole file."""


class LackingError(ValueError):
    """The kernels lack an operator that LiteRT's optimized ones have."""


def library_name(file_format: str, exactness: Exactness) -> str:
    """Return what reports call the library and its kernels."""
    if file_format == "onnx":
        return "ONNX Runtime"
    name = {"BUILTIN_WITHOUT_DEFAULT_DELEGATES": "optimized", "AUTO": "XNNPACK"}
    return f"LiteRT ({name.get(KERNELS.get(exactness, ''), 'reference')} kernels)"


def require_library(file_format: str) -> None:
    """Check that the library of a format is installed.

    ValueError if it is not; the message says which extra brings it.
    """
    require_package(*library_package(file_format), "this")


def library_package(file_format: str) -> tuple[str, str]:
    """Return the package of a format's library as it is imported, and the extra that brings it."""
    return _PACKAGES[file_format]


def library_version(exactness: Exactness) -> dict[str, str | None]:
    """Return the package, as the package index names it, that has some numerics, and its version.

    The version is None if the package is not installed; so is the name if there is no package.
    """
    name = _NUMERICS.get(exactness, "ai-edge-litert")
    if name is None:
        return {"name": None, "version": None}
    try:
        return {"name": name, "version": importlib.metadata.version(name)}
    except importlib.metadata.PackageNotFoundError:
        return {"name": name, "version": None}


def reads_sums_unsigned(exactness: Exactness) -> bool:
    """Tell whether LiteRT's kernels for some numerics read int8 as uint8 in SUM."""
    return KERNELS.get(exactness) == KERNELS[Exactness.LITERT_REF]


def open_library(data: bytes, file_format: str, exactness: Exactness) -> Run:
    """Open a session that runs a file again and again; every run begins with its first state.

    Parameters
    ----------
    data : bytes
        A TFLite or ONNX file.
    file_format : str
        ``tflite`` or ``onnx``.

    Raises
    ------
    LackingError
        If other kernels of the library take the file.
    ValueError
        If the library is not installed, or does not take the file.
    """
    require_library(file_format)
    name = library_name(file_format, exactness)
    try:
        return _open_ort(data) if file_format == "onnx" else _open_litert(data, exactness)
    except Exception as error:  # ONNX Runtime has classes of its own
        lacked = lacked_operator(data, error) if file_format == "tflite" else ""
        if lacked:
            refused = f"{name} does not have {lacked}; --exact litert-opt runs it"
            raise LackingError(refused) from error
        raise ValueError(f"{name} rejects it: {_first_line(error)}") from error


def lacked_operator(data: bytes, error: Exception) -> str:
    """Return the operator that the kernels of a session lack, if LiteRT's optimized ones have it.

    Parameters
    ----------
    data : bytes
        A TFLite file.
    """
    lacks = re.search(r"builtin opcode '(\w+)' version '(\d+)'", str(error))
    if lacks is None:
        return ""
    try:
        _open_litert(data, Exactness.LITERT_OPT)
    except Exception:  # whatever LiteRT raises
        return ""
    operator, version = lacks.groups()
    return f"{operator} (version {version})"


def _open_litert(data: bytes, exactness: Exactness) -> Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its dependencies are not free of deprecations
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kernels = OpResolverType[KERNELS.get(exactness, "BUILTIN_REF")]
    interpreter: Any = Interpreter(
        model_content=data, experimental_op_resolver_type=kernels, num_threads=1
    )
    interpreter.allocate_tensors()
    inputs = [details["index"] for details in interpreter.get_input_details()]
    outputs = [details["index"] for details in interpreter.get_output_details()]

    def run(values: Sequence[np.ndarray]) -> list[np.ndarray]:
        interpreter.reset_all_variables()
        for index, value in zip(inputs, values, strict=True):
            interpreter.set_tensor(index, value)
        interpreter.invoke()
        return [interpreter.get_tensor(index) for index in outputs]

    return run


def _open_ort(data: bytes) -> Run:
    """Open a session; products that the whole file has in floats stay in floats."""
    from tpulite.frontend.onnx.library import open_session

    session = open_session(data, "ENABLE_ALL", disabled=DECIDED)
    names = [value.name for value in session.get_inputs()]
    return lambda values: [
        np.asarray(result) for result in session.run(None, dict(zip(names, values, strict=True)))
    ]


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
