"""Sentence encoders in int8: a text becomes a vector, and close vectors mean the like."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path

import numpy as np

import tpulite
from tpulite.arch.config import Config
from tpulite.golden.timing import program_cycles
from tpulite.language.encoder_files import EncoderFile, open_encoder
from tpulite.language.kept import kept_bytes
from tpulite.language.sentences import Sentences, calibration_texts, read_sentences
from tpulite.needs import require_package
from tpulite.runtime.compile_cache import add_sources
from tpulite.runtime.device import Device
from tpulite.runtime.model import Model
from tpulite.runtime.model_run import Runner


@dataclass(frozen=True, eq=False)
class SentenceEncoder:
    """An encoder that is ready to run."""

    network: Model  #: The compiled network: tokens to hidden states.
    sentences: Sentences  #: Its tokenizer.
    key: str  #: A name for all that a vector depends on besides its text.

    @property
    def cycles(self) -> int:
        """Cycles of a text by the cycle model."""
        return sum(program_cycles(program) for program in self.network.programs)

    def embedder(self, device: str | Device = "golden") -> "Embedder":
        """Return the encoder on a device."""
        return Embedder(self, device)


class Embedder:
    """An encoder on a device.

    Parameters
    ----------
    device : str or Device
        Where its products, normalizations and softmax run.

    Attributes
    ----------
    cycles : list of int
        Cycles of each text, where the device has a clock.
    """

    def __init__(self, encoder: SentenceEncoder, device: str | Device = "golden") -> None:
        self.encoder = encoder
        self.cycles: list[int] = []
        self._device = device

    @cached_property
    def _runner(self) -> Runner:
        return Runner(self.encoder.network, self._device)

    def embed(self, text: str) -> np.ndarray:
        """Return the vector of a text, float32 [width], of length 1; what does not fit is left out.

        Raises
        ------
        RuntimeError
            If the machine stops at a fault.
        """
        feed = self.encoder.sentences.feed(text)
        inputs = self.encoder.network.graph.inputs
        results = self._runner.run({name: feed[name] for name in inputs})
        if results.cycles is not None:
            self.cycles += results.cycles
        return mean_vector(results.output, feed)


def mean_vector(hidden: np.ndarray, feed: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the mean of hidden states of the tokens that are no padding, of length 1.

    Parameters
    ----------
    hidden : ndarray, [1, length, width]
        Hidden states.
    feed : mapping of str to ndarray
        Inputs, as of :meth:`tpulite.language.sentences.Sentences.feed`.
    """
    mean = hidden[0][feed["attention_mask"][0] > 0].mean(axis=0, dtype=np.float64)
    return (mean / max(float(np.linalg.norm(mean)), 1e-12)).astype(np.float32)


def load_encoder(
    path: Path,
    tokenizer: Path | None = None,
    *,
    length: int | None = None,
    config: Config | None = None,
    cache: bool = False,
    progress: Callable[[str], None] | None = None,
) -> SentenceEncoder:
    """Read a sentence encoder, quantize it if it has floats, and compile it.

    Parameters
    ----------
    path : Path
        A folder of safetensors with config.json, such a .safetensors file, or an ONNX file with
        the inputs ``input_ids``, ``attention_mask`` and perhaps ``token_type_ids``.
    tokenizer : Path, optional
        Its tokenizer.json; by default that beside the file.
    length : int, optional
        Tokens of a text; by default 128, or as many as the file has.
    config : Config, optional
        The machine; 16 x 16 multipliers by default.
    cache : bool
        Whether to look for int8 networks and programs in the user's cache, and to keep them there.
    progress : callable, optional
        Called with a line of text at every step.

    Raises
    ------
    OSError
        If there is no such file.
    ValueError
        If it is no such encoder, it has no tokenizer, or a package is missing.
    """
    for package in ("onnx", "onnxruntime"):
        require_package(package, "onnx", "A sentence encoder")
    from tpulite.frontend.onnx.file import load_onnx  # late: it needs onnx

    file = open_encoder(path, length)
    folder = path if path.is_dir() else path.parent
    sentences = read_sentences(tokenizer or folder / "tokenizer.json", file.length)
    data = int8_encoder(file, sentences, cache=cache, progress=progress)
    model = Model.load(load_onnx(data, file.name), config=config)
    _check_output(path, model, file.length)
    network = model.compile(cache=cache, progress=progress)
    return SentenceEncoder(network, sentences, encoder_key(file, sentences))


def _check_output(path: Path, model: Model, length: int) -> None:
    """Refuse a network whose output is not one of hidden states."""
    shapes = {name: model.graph.tensors[name].shape for name in model.graph.outputs}
    if len(shapes) != 1 or [shape[:2] for shape in shapes.values()] != [(1, length)]:
        listed = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
        raise ValueError(
            f"{path} is no sentence encoder: its only output must be hidden states "
            f"[1, {length}, width], not {listed}"
        )


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
