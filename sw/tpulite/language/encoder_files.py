"""Files of sentence encoders: what they hold, as an ONNX file for texts of one length."""

import errno
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tpulite.frontend.given_shapes import GivenShapes
from tpulite.language.bert_weights import bert_positions, read_bert

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""Inputs by their names in files; the last one is optional."""

LENGTH = 128
"""Tokens of a text unless a file has others, or others are asked for."""


@dataclass(frozen=True, eq=False)
class EncoderFile:
    """A file of an encoder."""

    name: str  #: Name of the network.
    length: int  #: Tokens of a text.
    digest: str  #: A name for its content.
    quantized: bool  #: Whether it holds integers already.
    #: Returns an ONNX file whose shapes are fixed; ValueError if it is no encoder.
    onnx: Callable[[], bytes]


def open_encoder(path: Path, length: int | None = None) -> EncoderFile:
    """Find out what a file is, without reading all of it.

    Parameters
    ----------
    path : Path
        A folder of safetensors with config.json, such a .safetensors file, or an ONNX file with
        the inputs of :data:`INPUTS`.
    length : int, optional
        Tokens of a text; by default as many as the file has, or :data:`LENGTH`.

    Raises
    ------
    OSError
        If there is no such file.
    ValueError
        If it is no encoder, or not for so many tokens.
    """
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    if path.is_dir() or path.suffix == ".safetensors":
        return _open_bert(path, length)
    return _open_onnx(path, length)


def _open_bert(path: Path, length: int | None) -> EncoderFile:
    most = bert_positions(path)
    length = min(LENGTH, most) if length is None else length
    if length > most:
        raise ValueError(f"{path} has up to {most:,} tokens, not {length:,}")

    def write() -> bytes:
        from tpulite.language.bert_file import bert_file  # late: it needs onnx

        return bert_file(read_bert(path), length)

    folder = path if path.is_dir() else path.parent
    weights = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    digest = _digest(folder / "config.json", *weights)
    return EncoderFile(folder.name, length, digest, False, write)


def _open_onnx(path: Path, length: int | None) -> EncoderFile:
    import onnx
    from google.protobuf.message import DecodeError

    from tpulite.frontend.onnx.library import is_quantized

    try:
        model = onnx.load(path, load_external_data=False)
    except (DecodeError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"{path} is no sentence encoder: it must be ONNX, safetensors or a folder of these"
        ) from error
    constants = {tensor.name for tensor in model.graph.initializer}
    extents = {
        value.name: [x.dim_value for x in value.type.tensor_type.shape.dim]
        for value in model.graph.input
        if value.name not in constants
    }
    if not {*INPUTS[:2]} <= extents.keys() <= {*INPUTS}:
        raise ValueError(
            f"{path} is no sentence encoder: its inputs must be {', '.join(INPUTS)}, "
            f"not {', '.join(extents) or 'none'}"
        )
    fixed = next((each[1] for each in extents.values() if len(each) == 2 and each[1] > 0), 0)
    if fixed and length not in (None, fixed):
        raise ValueError(f"{path} has texts of {fixed} tokens, not {length}")
    length = fixed or length or LENGTH
    shapes = GivenShapes(dict.fromkeys(extents, (1, length)))
    write = partial(_fixed, path, shapes)
    return EncoderFile(path.stem, length, _digest(path), is_quantized(model), write)


def _fixed(path: Path, shapes: GivenShapes) -> bytes:
    """Return an ONNX file whose inputs have shapes."""
    from tpulite.frontend.files import load_graph

    graph = load_graph(path, shapes)
    assert graph.source is not None
    return graph.source.data


def _digest(*files: Path) -> str:
    """Return a name for the content of files."""
    digest = hashlib.blake2b(digest_size=16)
    for file in files:
        with file.open("rb") as opened:
            digest.update(hashlib.file_digest(opened, "blake2b").digest())
    return digest.hexdigest()
