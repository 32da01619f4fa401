"""Encoders of floats become int8 ones, calibrated with texts of our own, and are kept."""

import hashlib
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

import tpulite
from tpulite.language.encoder_files import EncoderFile
from tpulite.language.kept import kept_bytes
from tpulite.language.sentences import Sentences, calibration_texts
from tpulite.runtime.compile_cache import add_sources

_LEAST = 0.98
"""Cosine of hidden states to the floats below which activations stay in floats."""

_SOURCES = ("language/bert_file.py", "language/bert_weights.py", "language/onnx_graph.py", "quant")
"""Sources of this package that decide what an int8 network looks like."""


def encoder_key(file: EncoderFile, sentences: Sentences) -> str:
    """Return a name for all that the int8 network of a file depends on, and for its tokenizer."""
    digest = hashlib.blake2b(digest_size=16)
    parts = [file.digest, str(file.length), sentences.tokens.to_str(), version("tpulite")]
    if not file.quantized:
        parts += [version("onnxruntime"), *calibration_texts()]
        add_sources(digest, Path(tpulite.__path__[0]), _SOURCES)
    for part in parts:
        digest.update(f"{len(part)} {part}\n".encode())
    return digest.hexdigest()


def int8_encoder(
    file: EncoderFile,
    sentences: Sentences,
    *,
    cache: bool = False,
    progress: Callable[[str], None] | None = None,
) -> bytes:
    """Return an encoder as an ONNX file with integers; one that has these stays as it is.

    Parameters
    ----------
    sentences : Sentences
        Its tokenizer.
    cache : bool
        Whether to look for it in the user's cache, and to keep it there.
    progress : callable, optional
        Called with a line of text at every step.

    Raises
    ------
    ValueError
        If it is no encoder, or cannot be quantized.
    """
    if file.quantized:
        return file.onnx()
    make = partial(_quantized, file, sentences, progress or (lambda step: None))
    return kept_bytes("encoders", f"{encoder_key(file, sentences)}.onnx", make, cache=cache)


def _quantized(file: EncoderFile, sentences: Sentences, progress: Callable[[str], None]) -> bytes:
    """Quantize with LiteRT's integers by name."""
    from tpulite.frontend.onnx.file import load_onnx
    from tpulite.quant.calibrate import quantize_onnx  # late: it needs onnx

    progress("read")
    data = file.onnx()
    inputs = load_onnx(data, file.name).inputs
    feeds = [sentences.feed(text) for text in calibration_texts()]
    feeds = [{name: feed[name] for name in inputs} for feed in feeds]

    def tell(done: int, count: int) -> None:
        progress(f"calibrate {done} of {count}")

    return quantize_onnx(data, feeds, min_cosine=_LEAST, numerics="litert-ref", progress=tell)
