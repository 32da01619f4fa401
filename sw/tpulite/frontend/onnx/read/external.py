"""ONNX files whose weights lie in other files, as exporters write large models."""

import warnings
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, external_data_helper


def with_weights(data: bytes, path: Path) -> bytes:
    """Return an ONNX file with all of its weights inside.

    Parameters
    ----------
    data : bytes
        What the file holds; damaged files come back as they are.
    path : Path
        Where it lies: weights are found from there.

    Raises
    ------
    ValueError
        If a file of weights is missing, too short, or outside of the folder.
    """
    try:
        model = onnx.load_model_from_string(data)
    except (DecodeError, RuntimeError, ValueError):
        return data
    tensors = list(external_data_helper._get_all_tensors(model))
    outside = [tensor for tensor in tensors if tensor.data_location == TensorProto.EXTERNAL]
    if not outside:
        return data
    for tensor in outside:
        _check(tensor, path.parent)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of fields that it does not know
            external_data_helper.load_external_data_for_model(model, str(path.parent))
        return model.SerializeToString()
    except Exception as error:  # links, other folders, more than protobuf can hold
        line = str(error).strip().splitlines()[0]
        raise ValueError(f"its external weights cannot be read: {line}") from error


def _check(tensor: TensorProto, folder: Path) -> None:
    """Check that the file of a tensor is there, and that it is long enough."""
    said = {_text(entry.key): _text(entry.value) for entry in tensor.external_data}
    place = said.get("location", "")
    file = folder / place
    if not place or not file.is_file():
        raise ValueError(
            f"tensor {tensor.name!r} lies in another file, {file if place else 'without a name'}, "
            "which is missing: it belongs beside the network"
        )
    what = f"tensor {tensor.name!r}"
    numbers = [said.get(key, "0") for key in ("offset", "length")]
    if not all(number.isdecimal() for number in numbers):
        raise ValueError(f"{what} lies at {numbers} of {file}, which are no numbers")
    end, size = sum(map(int, numbers)), file.stat().st_size
    if end > size:
        raise ValueError(f"{what} ends at byte {end:,} of {file}, which has {size:,}")


def _text(value: str | bytes) -> str:
    """Return a string of a file; damaged ones come as bytes."""
    return value if isinstance(value, str) else value.decode(errors="replace")
