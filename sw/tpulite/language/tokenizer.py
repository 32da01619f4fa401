"""Text to tokens and back: the tokenizer of a GGUF file, or the tokenizer.json beside weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tpulite.language.sentences import calibration_texts
from tpulite.language.tokenizer_file import encoded, open_tokenizer
from tpulite.language.weights import is_gguf, open_gguf
from tpulite.needs import require_package

_CONTROL = 3
"""Type of tokens that are no text."""

_DIGITS = ("smollm", "default")
"""Splits of bytes that cut numbers into digits first."""

_BEGIN, _END = "<|im_start|>", "<|im_end|>"


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """The tokens of a model."""

    tokens: Any  #: A ``tokenizers.Tokenizer``.
    stops: tuple[int, ...]  #: Tokens that end an answer.
    system: str  #: What a conversation begins with; empty for a model that is not made for any.

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text; names of control tokens become these."""
        return encoded(self.tokens, text, special=False).ids

    def calibration(self) -> list[list[int]]:
        """Return the tokens of texts of many kinds, which come with tpulite."""
        return [self.encode(text) for text in calibration_texts()]

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens without control tokens."""
        return self.tokens.decode(list(tokens), skip_special_tokens=True)

    def ask(self, question: str, system: str | None = None, *, first: bool = True) -> list[int]:
        """Return the tokens of a question as the model was trained on them.

        Parameters
        ----------
        question : str
            What the user says; a model that is not made for conversations continues it.
        system : str, optional
            What the model should be; by default what its makers say.
        first : bool
            Whether a conversation begins.
        """
        if not self.system:
            return self.encode(question)
        begin = f"{_BEGIN}system\n{system or self.system}{_END}\n" if first else f"{_END}\n"
        text = f"{begin}{_BEGIN}user\n{question}{_END}\n{_BEGIN}assistant\n"
        return self.encode(text)


def read_tokenizer(path: Path) -> Tokenizer:
    """Read the tokenizer of a model.

    Raises
    ------
    ValueError
        If there is none, it is of an unknown kind, or the package tokenizers is missing.
    """
    require_package("tokenizers", "language", "A tokenizer")
    if is_gguf(path):
        try:
            return _of_gguf(path)
        except ValueError:
            raise
        except Exception as error:  # anything: it is foreign code on a foreign file
            raise ValueError(f"{path} has a damaged tokenizer: {error}") from error
    file = (path if path.is_dir() else path.parent) / "tokenizer.json"
    if not file.exists():
        raise ValueError(f"{path} has no tokenizer: tokenizer.json is missing beside it")
    tokens = open_tokenizer(file)
    stop = tokens.token_to_id(_END)
    return Tokenizer(tokens, () if stop is None else (stop,), _system(tokens, ""))


def _of_gguf(path: Path) -> Tokenizer:
    package = _package()
    fields = _Fields(open_gguf(path).fields)
    words = fields.get("tokens")
    if words is None:
        raise ValueError(f"{path} has no tokenizer")
    kind, split = fields.get("model"), fields.get("pre") or "default"
    if kind != "gpt2" or split not in _DIGITS:
        raise ValueError(f"{path} has a tokenizer {kind!r} ({split!r}), and only 'gpt2' is known")
    merges = [tuple(pair.split(" ")) for pair in fields.get("merges") or ()]
    vocabulary = {word: i for i, word in enumerate(words)}
    tokens = package.Tokenizer(package.models.BPE(vocab=vocabulary, merges=merges))
    cuts = package.pre_tokenizers
    tokens.pre_tokenizer = cuts.Sequence(
        [cuts.Digits(individual_digits=True), cuts.ByteLevel(add_prefix_space=False)]
    )
    tokens.decoder = package.decoders.ByteLevel()
    kinds = fields.get("token_type") or [0] * len(words)
    tokens.add_special_tokens(
        [
            package.AddedToken(word, special=True, normalized=False)
            for word, kind in zip(words, kinds, strict=True)
            if kind == _CONTROL
        ]
    )
    stop = fields.get("eos_token_id")
    system = _system(tokens, str(fields.get("chat_template") or ""))
    return Tokenizer(tokens, () if stop is None else (int(stop),), system)


def _system(tokens: Any, template: str) -> str:
    """Return the first words of a conversation between the marks of chats; empty without these."""
    if tokens.token_to_id(_BEGIN) is None or tokens.token_to_id(_END) is None:
        return ""
    given = template.partition("system\n")[2].partition(_END)[0].strip()
    return given or "You are a helpful assistant."


def _package() -> Any:
    return import_module("tokenizers")


@dataclass(frozen=True)
class _Fields:
    """What a GGUF file says of its tokenizer."""

    fields: Mapping[str, Any]

    def get(self, name: str) -> Any:
        """Return a field, None if it is missing."""
        for prefix in ("tokenizer.ggml.", "tokenizer."):
            if (found := self.fields.get(prefix + name)) is not None:
                return found.contents()
        return None
