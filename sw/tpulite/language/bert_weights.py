"""Reading encoders of the BERT family: safetensors with their config.json."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tpulite.language.safetensors_file import read_config, read_object, safetensors
from tpulite.language.weight_check import check_constant, check_extents, check_weights


@dataclass(frozen=True)
class BertSizes:
    """Extents and constants of an encoder."""

    #: Layers, elements of a token, elements inside the feed-forward part, and tokens.
    layers: int
    width: int
    hidden: int
    vocabulary: int
    heads: int  #: Heads of attention, of ``width / heads`` elements each.
    positions: int  #: Tokens of the longest text that it was trained for.
    epsilon: float  #: Of the normalizations.

    def __post_init__(self) -> None:
        check_extents(self, "layers", "width", "hidden", "vocabulary", "heads", "positions")
        check_constant(self, "epsilon")
        if self.width % self.heads:
            raise ValueError(f"{self.width} elements are no {self.heads} equal heads")


@dataclass(frozen=True, eq=False)
class Bert:
    """An encoder: ``y = x @ weight.T + bias`` for every matrix.

    Raises
    ------
    ValueError
        If a weight is missing, has another shape, or holds what is no number.
    """

    name: str  #: Name of the model.
    sizes: BertSizes  #: Its extents.
    #: Mapping of str to array of float32. ``words`` [vocabulary, width], ``positions`` [positions,
    #: width], ``types`` [kinds, width], ``norm`` and ``norm.bias`` [width]; of layer i the matrices
    #: ``i.query``, ``i.key``, ``i.value``, ``i.output``, ``i.up``, ``i.down`` and the gains
    #: ``i.attention_norm``, ``i.feed_norm``, each with its ``.bias``.
    weights: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        check_weights(self.name, self.weights, _shapes(self.sizes))
        types = self.weights.get("types", np.empty(0))
        if types.shape[1:] != (self.sizes.width,) or not len(types):
            raise ValueError(f"{self.name}: the weights 'types' are missing, or not of its width")


def _shapes(sizes: BertSizes) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield names and shapes of all weights but ``types``."""
    width, hidden = sizes.width, sizes.hidden
    square, gain = (width, width), (width,)
    layer = {
        **{"query": square, "key": square, "value": square, "output": square},
        **{"up": (hidden, width), "down": (width, hidden)},
        **{"attention_norm": gain, "feed_norm": gain},
    }
    layer |= {f"{name}.bias": shape[:1] for name, shape in layer.items()}
    ends: dict[str, tuple[int, ...]] = {
        "words": (sizes.vocabulary, width),
        "positions": (sizes.positions, width),
        **{"norm": gain, "norm.bias": gain},
    }
    yield from ends.items()
    for i in range(sizes.layers):
        yield from ((f"{i}.{name}", shape) for name, shape in layer.items())


_INSIDE = {
    **{f"attention.self.{name}": name for name in ("query", "key", "value")},
    **{"attention.output.dense": "output", "attention.output.LayerNorm": "attention_norm"},
    **{"intermediate.dense": "up", "output.dense": "down", "output.LayerNorm": "feed_norm"},
}
_ENDS = {
    **{"embeddings.word_embeddings": "words", "embeddings.position_embeddings": "positions"},
    **{"embeddings.token_type_embeddings": "types", "embeddings.LayerNorm": "norm"},
}

_IGNORED = ("pooler.", "cls.", "embeddings.position_ids")
"""Heads for other tasks, and a count."""

_LAYER = "encoder.layer."


def read_bert(path: Path) -> Bert:
    """Read a sentence encoder whose vector is the mean of hidden states.

    Parameters
    ----------
    path : Path
        A .safetensors file that has its config.json beside it, or a folder of these.

    Raises
    ------
    OSError
        If there is no such file.
    ValueError
        If it is damaged, of another family, has weights that are not BERT's, pools in another way,
        or the package safetensors is missing.
    """
    config = read_config(path)
    folder = path if path.is_dir() else path.parent
    sizes = _sizes(path, config)
    _check_pooling(folder)
    weights: dict[str, np.ndarray] = {}
    for theirs, read in safetensors(path):
        if (ours := _ours(theirs.removeprefix("bert."))) is not None:
            weights[ours] = read()
        elif not theirs.removeprefix("bert.").startswith(_IGNORED):
            raise ValueError(f"{path}: {theirs!r} is no weight of a BERT encoder")
    return Bert(str(config.get("_name_or_path") or folder.name), sizes, weights)


def bert_positions(path: Path) -> int:
    """Return how many tokens a text may have, by config.json; errors as of :func:`read_bert`."""
    return _sizes(path, read_config(path)).positions


def _ours(theirs: str) -> str | None:
    """Return our name of a tensor, None if it has none."""
    stem, _, kind = theirs.rpartition(".")
    suffix = {"weight": "", "bias": ".bias"}.get(kind)
    if suffix is None:
        return None
    if stem in _ENDS:
        return _ENDS[stem] + suffix
    layer, _, part = stem.removeprefix(_LAYER).partition(".")
    if stem.startswith(_LAYER) and layer.isdecimal() and part in _INSIDE:
        return f"{int(layer)}.{_INSIDE[part]}{suffix}"
    return None


def _sizes(path: Path, config: Mapping[str, Any]) -> BertSizes:
    """Return the sizes that a config.json says; ValueError if it describes another network."""
    for key, known, default in (
        ("model_type", "bert", None),
        ("hidden_act", "gelu", "gelu"),
        ("position_embedding_type", "absolute", "absolute"),
    ):
        if (found := config.get(key, default)) != known:
            raise ValueError(f"{path}: {key} is {found!r}, and only {known!r} is known")
    try:
        return BertSizes(
            layers=config["num_hidden_layers"],
            width=config["hidden_size"],
            hidden=config["intermediate_size"],
            vocabulary=config["vocab_size"],
            heads=config["num_attention_heads"],
            positions=config["max_position_embeddings"],
            epsilon=config["layer_norm_eps"],
        )
    except KeyError as error:
        raise ValueError(f"{path}: config.json lacks {error}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _check_pooling(folder: Path) -> None:
    """Refuse an encoder that makes a vector in another way than by the mean, if it says so."""
    file = folder / "1_Pooling/config.json"
    if not file.exists():
        return
    modes = read_object(file)
    chosen = [name for name, on in modes.items() if name.startswith("pooling_mode_") and on is True]
    if chosen != ["pooling_mode_mean_tokens"]:
        raise ValueError(f"{file}: only pooling_mode_mean_tokens is known, not {chosen}")
