"""Reading models of the llama family: GGUF files, and safetensors with their config.json."""

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tpulite.language.gguf_header import check_gguf
from tpulite.language.llama import Llama, Sizes
from tpulite.language.safetensors_file import Reader, read_config, safetensors
from tpulite.needs import require_package

_GGUF = {
    **{"attn_norm": "attention_norm", "attn_q": "query", "attn_k": "key", "attn_v": "value"},
    **{"attn_output": "output", "ffn_norm": "feed_norm", "ffn_gate": "gate", "ffn_up": "up"},
    "ffn_down": "down",
}
_GGUF_ENDS = {"token_embd": "embedding", "output_norm": "norm", "output": "head"}

_SAFETENSORS = {
    **{"input_layernorm": "attention_norm", "self_attn.q_proj": "query"},
    **{"self_attn.k_proj": "key", "self_attn.v_proj": "value", "self_attn.o_proj": "output"},
    **{"post_attention_layernorm": "feed_norm", "mlp.gate_proj": "gate", "mlp.up_proj": "up"},
    "mlp.down_proj": "down",
}
_SAFETENSORS_ENDS = {"model.embed_tokens": "embedding", "model.norm": "norm", "lm_head": "head"}


def read_llama(path: Path) -> Llama:
    """Read a model.

    Parameters
    ----------
    path : Path
        A GGUF file with floats or any blocks that the package gguf unpacks (Q8_0, Q4_0, Q4_1 and
        others), a .safetensors file that has its config.json beside it, or a folder of these.

    Raises
    ------
    OSError
        If there is no such file.
    ValueError
        If it is damaged, of another family, has blocks that are not llama's, or a package is
        missing.
    """
    return _read_gguf(path) if is_gguf(path) else _read_safetensors(path)


def is_gguf(path: Path) -> bool:
    """Tell a GGUF file from safetensors or a folder of these; ValueError if it is neither."""
    if path.suffix in (".gguf", ".safetensors") or path.is_dir():
        return path.suffix == ".gguf"
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    raise ValueError(f"{path} is no language model: it must be .gguf or .safetensors")


def open_gguf(path: Path) -> Any:
    """Open a GGUF file with the package gguf; ValueError if it is none, or the package lacks."""
    require_package("gguf", "language", "A GGUF file")
    if not path.stat().st_size:
        raise ValueError(f"{path} is not a GGUF file: it is empty")
    try:
        check_gguf(path)
        reader = import_module("gguf").GGUFReader(path)
        _check_apart(reader.tensors)
        return reader
    except Exception as error:  # anything: it is foreign code on a foreign file
        raise ValueError(f"{path} is not a GGUF file, or a damaged one: {error}") from error


def _check_apart(tensors: Iterable[Any]) -> None:
    """Refuse tensors that share bytes of the file: a small one must not unpack to much."""
    end, before = 0, ""
    for each in sorted(tensors, key=lambda each: each.data_offset):
        if each.data_offset < end:
            raise ValueError(f"the tensors {before!r} and {each.name!r} overlap")
        end, before = each.data_offset + each.n_bytes, each.name


def _read_gguf(path: Path) -> Llama:
    reader = open_gguf(path)
    gguf: Any = import_module("gguf")

    def field(name: str, default: Any = None) -> Any:
        found = reader.get_field(name)
        if found is None and default is None:
            raise ValueError(f"{path}: the field {name!r} is missing")
        return default if found is None else found.contents()

    family = field("general.architecture")
    if family != "llama":
        raise ValueError(f"{path} is of the family {family!r}, and only 'llama' is known")
    width, heads = (field(f"llama.{x}") for x in ("embedding_length", "attention.head_count"))
    depth = field("llama.attention.key_length", _depth(path, width, heads))
    rotated = field("llama.rope.dimension_count", depth)
    if rotated != depth:
        raise ValueError(f"{path} rotates {rotated} of {depth} elements of a head, not all")
    embedding = next((x for x in reader.tensors if x.name == "token_embd.weight"), None)
    if embedding is None:
        raise ValueError(f"{path}: the weights 'token_embd' are missing")
    sizes = _sizes(
        path,
        layers=field("llama.block_count"),
        width=width,
        hidden=field("llama.feed_forward_length"),
        vocabulary=int(embedding.shape[-1]),
        heads=heads,
        key_heads=field("llama.attention.head_count_kv", heads),
        depth=depth,
        positions=field("llama.context_length"),
        base=field("llama.rope.freq_base", 10000.0),
        epsilon=field("llama.attention.layer_norm_rms_epsilon"),
    )

    def tensors() -> Iterator[tuple[str, Reader]]:
        for each in reader.tensors:
            yield each.name, lambda each=each: gguf.dequantize(each.data, each.tensor_type)

    weights = _named(path, tensors(), "blk.", (_GGUF, _GGUF_ENDS))
    for name in weights:
        if name.endswith((".query", ".key")):
            weights[name] = _halves_apart(path, name, weights[name], depth)
    weights.setdefault("head", weights["embedding"])
    return Llama(str(field("general.name", path.stem)), sizes, weights)


def _depth(path: Path, width: Any, heads: Any) -> int:
    """Return how many elements of a token a head has."""
    if type(width) is not int or type(heads) is not int or heads < 1:
        raise ValueError(f"{path}: {heads!r:.40} heads cannot share {width!r:.40} elements")
    return width // heads


def _sizes(path: Path, **sizes: Any) -> Sizes:
    """Return sizes that a file says; ValueError with its path if they are none."""
    try:
        return Sizes(**sizes)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _halves_apart(path: Path, name: str, weight: np.ndarray, depth: int) -> np.ndarray:
    """Return rows of which GGUF has those that are rotated together next to each other."""
    if weight.ndim != 2 or len(weight) % depth:
        raise ValueError(f"{path}: the weights {name!r} {list(weight.shape)} have no whole heads")
    pairs = weight.reshape(-1, depth // 2, 2, weight.shape[1])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(weight.shape)


def _read_safetensors(path: Path) -> Llama:
    config = read_config(path)
    sizes, tied = _sizes_of_config(path, config)
    names = (_SAFETENSORS, _SAFETENSORS_ENDS)
    weights = _named(path, safetensors(path), "model.layers.", names)
    if tied and "embedding" in weights:
        weights.setdefault("head", weights["embedding"])
    folder = path if path.is_dir() else path.parent
    return Llama(str(config.get("_name_or_path") or folder.name), sizes, weights)


def _sizes_of_config(path: Path, config: Mapping[str, Any]) -> tuple[Sizes, bool]:
    """Return the sizes that a config.json says, and whether the head is the embedding."""
    family = config.get("model_type")
    if family != "llama":
        raise ValueError(f"{path} is of the family {family!r}, and only 'llama' is known")
    if config.get("rope_scaling"):
        raise ValueError(f"{path}: 'rope_scaling' is unknown")
    try:
        width, heads = config["hidden_size"], config["num_attention_heads"]
        sizes = _sizes(
            path,
            layers=config["num_hidden_layers"],
            width=width,
            hidden=config["intermediate_size"],
            vocabulary=config["vocab_size"],
            heads=heads,
            key_heads=config.get("num_key_value_heads", heads),
            depth=config.get("head_dim") or _depth(path, width, heads),
            positions=config["max_position_embeddings"],
            base=config.get("rope_theta", 10000.0),
            epsilon=config["rms_norm_eps"],
        )
    except KeyError as error:
        raise ValueError(f"{path}: config.json lacks {error}") from error
    return sizes, bool(config.get("tie_word_embeddings", False))


def _named(
    path: Path,
    tensors: Iterable[tuple[str, Reader]],
    prefix: str,
    names: tuple[Mapping[str, str], Mapping[str, str]],
) -> dict[str, np.ndarray]:
    """Return the weights by our names; ValueError of one that a llama does not have."""
    inside, ends = names
    weights: dict[str, np.ndarray] = {}
    for theirs, read in tensors:
        name = theirs.removesuffix(".weight")
        layer, _, part = name.removeprefix(prefix).partition(".")
        if name.startswith(prefix) and layer.isdecimal() and part in inside:
            ours = f"{int(layer)}.{inside[part]}"
        elif name in ends:
            ours = ends[name]
        else:
            raise ValueError(f"{path}: {theirs!r} is no weight of a llama model")
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # Llama refuses what is not finite
                weights[ours] = np.asarray(read(), np.float32)
        except NotImplementedError as error:
            raise ValueError(
                f"{path}: the weights {theirs!r} cannot be unpacked: {error}"
            ) from error
    return weights
