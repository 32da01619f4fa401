"""Small models of the llama family with random weights, as files that people have."""

import json
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["LlamaFile", "byte_words"]

_LAYER = ("query", "key", "value", "output", "gate", "up", "down")
_GGUF = dict(zip(_LAYER, ("attn_q", "attn_k", "attn_v", "attn_output"), strict=False))
_GGUF |= {name: f"ffn_{name}" for name in _LAYER[4:]}
_TORCH = {name: f"self_attn.{name[0]}_proj" for name in _LAYER[:4]}
_TORCH |= {name: f"mlp.{name}_proj" for name in _LAYER[4:]}


@dataclass(frozen=True)
class LlamaFile:
    """A model with two layers: its sizes, and a seed for its weights."""

    layers: int = 2
    width: int = 64
    hidden: int = 96
    heads: int = 4
    key_heads: int = 2
    vocabulary: int = 259
    positions: int = 64
    base: float = 10000.0
    epsilon: float = 1e-5
    tied: bool = True
    seed: int = 5

    @property
    def depth(self) -> int:
        """Elements of a head."""
        return self.width // self.heads

    def weights(self) -> dict[str, np.ndarray]:
        """Return float32 weights by the names of :class:`tpulite.language.llama.Llama`."""
        rng = np.random.default_rng(self.seed)
        width, hidden, keys = self.width, self.hidden, self.key_heads * self.depth
        outputs = dict(zip(_LAYER, (width, keys, keys, width, hidden, hidden, width), strict=True))
        found = {"embedding": self._drawn(rng, self.vocabulary, width)}
        for layer in range(self.layers):
            for name, rows in outputs.items():
                columns = hidden if name == "down" else width
                found[f"{layer}.{name}"] = self._drawn(rng, rows, columns)
            for name in ("attention_norm", "feed_norm"):
                found[f"{layer}.{name}"] = self._gains(rng)
        found["norm"] = self._gains(rng)
        found["head"] = (
            found["embedding"] if self.tied else self._drawn(rng, self.vocabulary, width)
        )
        return found

    def _drawn(self, rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
        return (rng.standard_normal((rows, columns)) * columns**-0.5).astype(np.float32)

    def _gains(self, rng: np.random.Generator) -> np.ndarray:
        return (1 + 0.1 * rng.standard_normal(self.width)).astype(np.float32)

    def save_gguf(
        self, path: Path, kind: str = "F32", *, tokenizer: bool = True, family: str = "llama"
    ) -> dict[str, np.ndarray]:
        """Write a GGUF file, as llama.cpp's converter does, with matrices of a kind of block.

        Returns the weights that the file means, by our names.
        """
        gguf: Any = import_module("gguf")
        writer = gguf.GGUFWriter(path, family)
        writer.add_name("tiny")
        for name, value in (
            ("block_count", self.layers),
            ("context_length", self.positions),
            ("embedding_length", self.width),
            ("feed_forward_length", self.hidden),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.key_heads),
        ):
            writer.add_uint32(f"{family}.{name}", value)
        writer.add_float32(f"{family}.attention.layer_norm_rms_epsilon", self.epsilon)
        writer.add_float32(f"{family}.rope.freq_base", self.base)
        if tokenizer:
            writer.add_tokenizer_model("gpt2")
            writer.add_tokenizer_pre("smollm")
            writer.add_token_list(byte_words())
            writer.add_token_types([1] * 256 + [3] * 3)
            writer.add_token_merges([])
            writer.add_eos_token_id(258)
        meant = {}
        for name, weight in self.weights().items():
            if name == "head" and self.tied:
                continue
            layer, _, part = name.rpartition(".")
            theirs = {"embedding": "token_embd", "norm": "output_norm", "head": "output"}.get(name)
            if theirs is None:
                norms = {"attention_norm": "attn_norm", "feed_norm": "ffn_norm"}
                theirs = f"blk.{layer}.{(_GGUF | norms)[part]}"
            stored = weight
            if part in ("query", "key"):
                halves = weight.reshape(-1, 2, self.depth // 2, self.width)
                stored = halves.swapaxes(1, 2).reshape(weight.shape)
            data, value = _packed(stored, kind if weight.ndim == 2 else "F32")
            raw = None if kind in ("F32", "F16") else gguf.GGMLQuantizationType[kind]
            writer.add_tensor(f"{theirs}.weight", data, raw_dtype=raw if weight.ndim == 2 else None)
            if part in ("query", "key"):
                pairs = value.reshape(-1, self.depth // 2, 2, self.width)
                value = pairs.swapaxes(1, 2).reshape(weight.shape)
            meant[name] = value
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        meant.setdefault("head", meant["embedding"])
        return meant

    def save_safetensors(self, folder: Path) -> None:
        """Write model.safetensors and config.json, as PyTorch's models are published."""
        folder.mkdir(exist_ok=True)
        tensors = {}
        for name, weight in self.weights().items():
            if name == "head" and self.tied:
                continue
            ends = {"embedding": "model.embed_tokens", "norm": "model.norm", "head": "lm_head"}
            layer, _, part = name.rpartition(".")
            norms = {"attention_norm": "input_layernorm", "feed_norm": "post_attention_layernorm"}
            theirs = ends.get(name) or f"model.layers.{layer}.{(_TORCH | norms)[part]}"
            tensors[f"{theirs}.weight"] = weight
        import_module("safetensors.numpy").save_file(tensors, folder / "model.safetensors")
        config = {
            "model_type": "llama",
            "hidden_size": self.width,
            "intermediate_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.key_heads,
            "vocab_size": self.vocabulary,
            "max_position_embeddings": self.positions,
            "rope_theta": self.base,
            "rms_norm_eps": self.epsilon,
            "tie_word_embeddings": self.tied,
        }
        (folder / "config.json").write_text(json.dumps(config))


def byte_words() -> list[str]:
    """Return a vocabulary of all bytes, as GPT-2 spells them, and the marks of conversations."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [byte for byte in range(256) if byte not in plain]
    spelled = {byte: chr(byte) for byte in plain}
    spelled |= {byte: chr(256 + i) for i, byte in enumerate(other)}
    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    return [spelled[byte] for byte in range(256)] + marks


def _packed(weight: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return what a file holds of a matrix, and what that means."""
    if kind == "F32":
        return weight, weight
    if kind == "F16":
        half = weight.astype(np.float16)
        return half, half.astype(np.float32)
    blocks = weight.reshape(len(weight), -1, 32)
    low, high = blocks.min(axis=2, keepdims=True), blocks.max(axis=2, keepdims=True)
    if kind == "Q4_1":
        step, least = ((high - low) / 15).astype(np.float16), low.astype(np.float16)
        values = np.rint((blocks - least) / step).clip(0, 15).astype(np.uint8)
        means = values * step.astype(np.float32) + least.astype(np.float32)
        head = np.concatenate([step, least], axis=2).view(np.uint8)
    else:
        most = {"Q8_0": 127, "Q4_0": 7}[kind]
        step = (np.maximum(-low, high) / most).astype(np.float16)
        signed = np.rint(blocks / step).clip(-most, most).astype(np.int8)
        means = signed * step.astype(np.float32)
        head, values = step.view(np.uint8), (signed + 8).astype(np.uint8)
        if kind == "Q8_0":
            data = np.concatenate([head, signed.view(np.uint8)], axis=2)
            return data.reshape(len(weight), -1), means.reshape(weight.shape)
    nibbles = values[..., :16] | values[..., 16:] << 4
    data = np.concatenate([head, nibbles], axis=2)
    return data.reshape(len(weight), -1), means.reshape(weight.shape)
