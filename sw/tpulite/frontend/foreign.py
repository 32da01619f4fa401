"""Files of other frameworks, which have to be converted first: what they are, and what to type."""

import zipfile
from io import BytesIO
from pathlib import Path

from tpulite.archive import ZIP

TFLITE = b"TFL3"
"""Bytes 4 to 7 of a TFLite file."""

_KERAS = (
    "a Keras model: convert it to int8 with "
    'tf.lite.TFLiteConverter.from_keras_model(keras.models.load_model("{}"))'
)
_CHECKPOINT = (
    "a PyTorch checkpoint: load it into its model, and export that with "
    'torch.onnx.export(model, (x,), "{stem}.onnx")'
)
_EXPORTED = (
    "a PyTorch exported program: write ONNX with "
    'torch.onnx.export(torch.export.load("{}"), f="{stem}.onnx", dynamo=True)'
)
_EXECUTORCH = "an ExecuTorch program: export the original PyTorch model with torch.onnx.export"
_COMPILED = "a compiled program ({}): convert the original model to TFLite or ONNX"
_FROZEN = (
    "a TensorFlow graph: convert its SavedModel to int8 with "
    'tf.lite.TFLiteConverter.from_saved_model("FOLDER")'
)
_WEIGHTS = "weights without a network ({}): export their model as ONNX"

_MAGIC = {
    b"\x89HDF\r\n\x1a\n": _KERAS,
    b"ML\xefR": _COMPILED.format("MLIR bytecode"),
    b"GGUF": _WEIGHTS.format("GGUF"),
}

_IDENTIFIERS = {b"ET": _EXECUTORCH, b"TOSA": _COMPILED.format("TOSA")}
"""Of flatbuffers, in bytes 4 to 7; ExecuTorch's has its version behind."""

_DIALECTS = ("stablehlo", "tosa", "mhlo", "linalg", "tfl")
_BEGINNING = 1 << 16
"""Bytes of a text that tell its dialect."""


def check_readable(data: bytes, path: Path) -> None:
    """Refuse a file that another framework wrote, and say how it becomes one that can be read.

    Parameters
    ----------
    data : bytes
        Content of the file.
    path : Path
        Its name, which tells only those kinds whose content does not.

    Raises
    ------
    ValueError
        If it is such a file.
    """
    if what := _by_content(data) or _by_name(path):
        raise ValueError(f"this is {what.replace('{}', path.name).replace('{stem}', path.stem)}")


def _by_content(data: bytes) -> str:
    for magic, what in _MAGIC.items():
        if data.startswith(magic):
            return what
    for identifier, what in _IDENTIFIERS.items():
        if data[4:8].startswith(identifier):
            return what
    if data.startswith(ZIP):
        return _archive(data)
    beginning = data[:_BEGINNING].lstrip()
    if beginning.startswith((b"module", b"func.func", b"#", b"//")):
        dialects = [name for name in _DIALECTS if f"{name}.".encode() in beginning]
        return _COMPILED.format(f"MLIR, {dialects[0]}") if dialects else ""
    return ""


def _archive(data: bytes) -> str:
    try:
        names = zipfile.ZipFile(BytesIO(data)).namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return ""  # whoever reads it says so
    members = {name.rpartition("/")[2] for name in names}
    if {"config.json", "metadata.json", "model.weights.h5"} <= members:
        return _KERAS
    if members & {"serialized_exported_program.json", "archive_format", "archive_version"}:
        return _EXPORTED
    return _CHECKPOINT if "data.pkl" in members else ""


def _by_name(path: Path) -> str:
    """Return what a file is whose content has no mark: pickles and protobufs."""
    kinds = {".pt": _CHECKPOINT, ".pth": _CHECKPOINT, ".pt2": _EXPORTED, ".pb": _FROZEN}
    return (kinds | {".safetensors": _WEIGHTS.format("safetensors")}).get(path.suffix.lower(), "")
