"""Small sentence encoders with random weights, as files that people have."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["BertFile"]

_DENSE = ("query", "key", "value", "output", "up", "down")
_TORCH = {name: f"attention.self.{name}" for name in _DENSE[:3]}
_TORCH |= {"output": "attention.output.dense", "up": "intermediate.dense", "down": "output.dense"}
_TORCH |= {"attention_norm": "attention.output.LayerNorm", "feed_norm": "output.LayerNorm"}
_ENDS = {
    **{"words": "embeddings.word_embeddings", "positions": "embeddings.position_embeddings"},
    **{"types": "embeddings.token_type_embeddings", "norm": "embeddings.LayerNorm"},
}
_MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


@dataclass(frozen=True)
class BertFile:
    """An encoder: its sizes, and a seed for its weights."""

    layers: int = 2
    width: int = 32
    hidden: int = 64
    heads: int = 2
    vocabulary: int = 1024
    positions: int = 24
    epsilon: float = 1e-12
    seed: int = 5

    def weights(self) -> dict[str, np.ndarray]:
        """Return float32 weights by the names of :class:`tpulite.language.bert_weights.Bert`."""
        rng, width = np.random.default_rng(self.seed), self.width
        found = {}
        rows = {"words": self.vocabulary, "positions": self.positions, "types": 2}
        for name, count in rows.items():
            scale = 1.0 if name == "words" else 0.1
            found[name] = (scale * rng.standard_normal((count, width))).astype(np.float32)
        self._normal(rng, found, "norm")
        for layer in range(self.layers):
            for name in _DENSE:
                outputs = self.hidden if name == "up" else width
                inputs = self.hidden if name == "down" else width
                weight = rng.standard_normal((outputs, inputs)) * inputs**-0.5
                found[f"{layer}.{name}"] = weight.astype(np.float32)
                bias = 0.1 * rng.standard_normal(outputs)
                found[f"{layer}.{name}.bias"] = bias.astype(np.float32)
            for name in ("attention_norm", "feed_norm"):
                self._normal(rng, found, f"{layer}.{name}")
        return found

    def _normal(self, rng: np.random.Generator, found: dict[str, np.ndarray], name: str) -> None:
        found[name] = (1 + 0.1 * rng.standard_normal(self.width)).astype(np.float32)
        found[f"{name}.bias"] = (0.1 * rng.standard_normal(self.width)).astype(np.float32)

    def save(self, folder: Path, texts: Iterable[str] = (), **config: Any) -> dict[str, np.ndarray]:
        """Write the encoder as sentence-transformers do, with a tokenizer that knows some texts.

        Entries of ``config`` replace those of config.json. Returns the weights, by our names.
        """
        folder.mkdir(exist_ok=True)
        weights = self.weights()
        named = {_theirs(name): weight for name, weight in weights.items()}
        named["embeddings.position_ids"] = np.arange(self.positions)[None]
        named["pooler.dense.weight"] = np.zeros((self.width, self.width), np.float32)
        package: Any = import_module("safetensors.numpy")
        package.save_file(named, folder / "model.safetensors")
        said = {
            **{"model_type": "bert", "hidden_act": "gelu", "layer_norm_eps": self.epsilon},
            **{"num_hidden_layers": self.layers, "hidden_size": self.width},
            **{"intermediate_size": self.hidden, "num_attention_heads": self.heads},
            **{"vocab_size": self.vocabulary, "max_position_embeddings": self.positions},
        }
        (folder / "config.json").write_text(json.dumps(said | config))
        self.save_tokenizer(folder / "tokenizer.json", texts)
        return weights

    def save_tokenizer(self, path: Path, texts: Iterable[str] = ()) -> None:
        """Write a tokenizer whose tokens are the words of some texts, as many as the encoder has.

        It cuts and pads, as published ones do.
        """
        package: Any = import_module("tokenizers")
        cuts = package.pre_tokenizers.BertPreTokenizer()
        lower = [text.lower() for text in texts]
        words = sorted({word for text in lower for word, _ in cuts.pre_tokenize_str(text)})
        listed = [*_MARKS, *words][: self.vocabulary]
        vocabulary = {word: index for index, word in enumerate(listed)}
        tokens = package.Tokenizer(package.models.WordPiece(vocabulary, unk_token="[UNK]"))
        tokens.normalizer = package.normalizers.BertNormalizer(lowercase=True)
        tokens.pre_tokenizer = cuts
        tokens.post_processor = package.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
        tokens.enable_truncation(8)
        tokens.enable_padding(length=8)
        tokens.save(str(path))


def _theirs(name: str) -> str:
    """Return the name of a weight in files."""
    stem = name.removesuffix(".bias")
    kind = "weight" if stem == name else "bias"
    if stem in _ENDS:
        return f"{_ENDS[stem]}.{kind}"
    layer, _, part = stem.partition(".")
    return f"encoder.layer.{layer}.{_TORCH[part]}.{kind}"
