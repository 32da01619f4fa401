"""Whole files of language models, encoders, networks with states and float ones, small ones."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tpulite.configs import named_config
from tpulite.frontend.onnx.file import load_onnx
from tpulite.frontend.tflite.file import load_tflite
from tpulite.language.encoder import int8_encoder
from tpulite.language.encoder_files import open_encoder
from tpulite.language.sentences import read_sentences
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import save_model
from tpulite_testing.files.bert_files import BertFile
from tpulite_testing.files.llama_files import LlamaFile, byte_words
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.files.streaming import STREAMS
from tpulite_testing.hostile.corpus import Whole
from tpulite_testing.hostile.floats import float_networks
from tpulite_testing.quick_options import quick_options

__all__ = ["LANGUAGE", "language_corpus"]

LANGUAGE = ("gguf", "safetensors", "tokenizer", "encoder", "states", "floats")
"""Kinds of files."""

_LENGTH = 8
_WORDS = "red green blue lamp table"
_TEXTS = {"texts/a.txt": b"A red lamp.\n\nThe blue table aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\n"}
_CHAT = ("--plain", "--tokens", "1", "--config", "4x4")
_SEARCH = ("--no-cache", "--config", "4x4")
_STATES = (("run", "@"), ("run", "@"), ("info", "@"), ("profile", "@"), ("inspect", "@"))


@cache
def language_corpus() -> dict[str, tuple[Whole, ...]]:
    """Return the files by kind, of which each is drawn as often."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        llama, bert = _llama(folder), _bert(folder)
        encoders = _encoders(folder)
        return {
            "gguf": (_gguf(folder),),
            "safetensors": (*_weights(llama, "llama"), *_weights(bert, "bert")),
            "tokenizer": _tokenizers(llama, bert | {"int8.onnx": encoders["int8.onnx"]}),
            "encoder": tuple(_encoder(name, data, bert) for name, data in encoders.items()),
            "states": tuple(_streams(folder)),
            "floats": float_networks(),
        }


def _read(folder: Path) -> dict[str, bytes]:
    return {f"{folder.name}/{file.name}": file.read_bytes() for file in folder.iterdir()}


def _tiny() -> LlamaFile:
    return LlamaFile(layers=1, width=32, hidden=32, heads=2, key_heads=1)


def _gguf(folder: Path) -> Whole:
    _tiny().save_gguf(folder / "tiny.gguf", "Q4_1")
    commands = (*((("chat", "@", "a", *_CHAT),) * 6), ("run", "@"), ("inspect", "@"))
    return Whole("tiny.gguf", "gguf", (folder / "tiny.gguf").read_bytes(), commands)


def _llama(folder: Path) -> dict[str, bytes]:
    _tiny().save_safetensors(folder / "llama")
    _byte_tokens().save(str(folder / "llama/tokenizer.json"))
    return _read(folder / "llama")


def _byte_tokens() -> Any:
    """Return a tokenizer of bytes with a merge and marks of conversations, as GPT-2's is."""
    package: Any = import_module("tokenizers")
    words = byte_words()
    vocabulary = {word: index for index, word in enumerate([*words[:255], "aa", *words[256:]])}
    tokens = package.Tokenizer(package.models.BPE(vocab=vocabulary, merges=[("a", "a")]))
    tokens.normalizer = package.normalizers.NFC()
    cuts = package.pre_tokenizers
    tokens.pre_tokenizer = cuts.Sequence(
        [cuts.Split(package.Regex(r"\s+"), "isolated"), cuts.ByteLevel(add_prefix_space=False)]
    )
    tokens.decoder = package.decoders.ByteLevel()
    tokens.add_special_tokens(words[256:])
    return tokens


def _bert(folder: Path) -> dict[str, bytes]:
    file = BertFile(layers=1, width=16, hidden=16, heads=2, vocabulary=64, positions=_LENGTH)
    file.save(folder / "bert", [_WORDS])
    return _read(folder / "bert") | _TEXTS


def _weights(files: dict[str, bytes], name: str) -> tuple[Whole, ...]:
    """Return weights and sizes of a model."""
    chat = name == "llama"
    read = ("chat", name, "a", *_CHAT) if chat else ("search", "texts", "red", *_SEARCH)
    read = read if chat else (*read, "--model", name)
    weights, config = f"{name}/model.safetensors", f"{name}/config.json"
    others = (("run", "@"), ("inspect", "@")) if chat else ()
    return (
        Whole(weights, "safetensors", files[weights], ((read,) * 6) + others, files),
        Whole(config, "json", files[config], (read,), files),
    )


def _tokenizers(llama: dict[str, bytes], bert: dict[str, bytes]) -> tuple[Whole, ...]:
    chat = ("chat", "llama", "a a aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", *_CHAT)
    words = ("--model", "int8.onnx", "--tokenizer", "bert/tokenizer.json")
    search = ("search", "texts", "red", *_SEARCH, *words)
    return (
        Whole("llama/tokenizer.json", "tokenizer", llama["llama/tokenizer.json"], (chat,), llama),
        Whole("bert/tokenizer.json", "tokenizer", bert["bert/tokenizer.json"], (search,), bert),
    )


def _encoders(folder: Path) -> dict[str, bytes]:
    """Return ONNX files of floats and of integers, by name."""
    file = open_encoder(folder / "bert", _LENGTH)
    sentences = read_sentences(folder / "bert/tokenizer.json", _LENGTH)
    return {"float.onnx": file.onnx(), "int8.onnx": int8_encoder(file, sentences)}


def _encoder(name: str, data: bytes, files: dict[str, bytes]) -> Whole:
    words = ("--model", "@", "--tokenizer", "bert/tokenizer.json")
    commands = (
        *((("search", "texts", "red", *_SEARCH, *words),) * 3),
        ("inspect", "@"),
        ("run", "@", "--config", "4x4", "--no-cache"),
    )
    return Whole(name, "onnx", data, commands, files)


def _streams(folder: Path) -> Iterator[Whole]:
    """Yield compiled networks with states: of the machine, and of what the CPU computes."""
    b = OnnxBuilder()
    x, held = b.input("x", (1, 4)), b.input("held", (1, 4))
    following = b.node("Add", x, held)
    data = b.build(b.node("Relu", following), following, dtype="float32")
    graphs = {
        "stream": (load_tflite(STREAMS["one_stream"](), "stream"), {}),
        "sums": (load_onnx(data, "sums"), {following: "held"}),
    }
    for name, (graph, states) in graphs.items():
        model = Model.load(
            graph, config=named_config("4x4"), options=quick_options(), states=states
        )
        path = folder / f"{name}.tpulite"
        save_model(model.compile(), path)
        yield Whole(path.name, "states", path.read_bytes(), _STATES)
