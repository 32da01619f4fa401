"""What the page knows: chips, compiled networks, digits, and the contract between both."""

import base64
import gzip
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tpulite.arch.bitfield import Field, Layout
from tpulite.arch.config import Config
from tpulite.arch.isa import COMMANDS, Engine
from tpulite.arch.registers import COUNTER_OFFSETS
from tpulite.configs import named_config
from tpulite.models import CNN_DIGITS, MLP_DIGITS, DigitsTest
from tpulite.runtime.example import draw_example
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import VERSION, save_model
from tpulite_web.chip import build_chip

__all__ = ["SIZES", "compiled_network", "page_facts"]

SIZES = ("4x4", "8x8")
"""Chips that the page may have: larger ones take too long to build and to run."""

_NETWORKS = {"cnn": ("CNN", CNN_DIGITS), "mlp": ("MLP", MLP_DIGITS)}
_SAMPLES = 24


def page_facts(names: tuple[str, ...]) -> dict[str, Any]:
    """Return all data of the page as plain values that JSON can hold.

    Parameters
    ----------
    names : tuple of str
        Its chips, of :data:`SIZES`.

    Raises
    ------
    RuntimeError
        If a chip cannot be built.
    """
    return {
        "chips": {name: _chip(named_config(name)) for name in names},
        "networks": {key: label for key, (label, _) in _NETWORKS.items()},
        "samples": _samples(),
        "counters": COUNTER_OFFSETS,
        "fileVersion": VERSION,
        "isa": {
            "engines": [engine.name for engine in Engine],
            "opcodes": {int(opcode): _opcode(layout) for opcode, layout in COMMANDS.items()},
        },
    }


def compiled_network(path: Path, config: Config) -> bytes:
    """Return the ``.tpulite`` file of a network, as ``tpulite compile`` writes it."""
    model = Model.load(path, config=config).compile()
    with tempfile.TemporaryDirectory() as folder:
        save_model(model, Path(folder) / "net.tpulite", draw_example(model, predicts=True))
        return (Path(folder) / "net.tpulite").read_bytes()


def _chip(config: Config) -> dict[str, Any]:
    return {
        "config": config.as_dict(),
        "wasm": _text(gzip.compress(build_chip(config), mtime=0)),
        "networks": {
            key: _text(compiled_network(path, config)) for key, (_, path) in _NETWORKS.items()
        },
    }


@cache
def _samples() -> list[dict[str, Any]]:
    """Return digits of the test set, with what the networks make of them by their definition."""
    images = DigitsTest.load().images[:_SAMPLES]
    outputs = {}
    for key, (_, path) in _NETWORKS.items():
        model = Model.load(path)
        (name,), (given,) = model.graph.outputs, model.graph.inputs
        shape = model.graph.tensors[given].shape
        found = model.reference(images.reshape(-1, *shape[1:]))[name]
        outputs[key] = found.reshape(_SAMPLES, -1)
    return [
        {
            "image": _text(images[i].tobytes()),
            "outputs": {key: _text(np.asarray(each[i]).tobytes()) for key, each in outputs.items()},
        }
        for i in range(_SAMPLES)
    ]


def _opcode(layout: Layout) -> dict[str, Any]:
    return {"name": layout.name, "fields": [_field(layout, each) for each in layout.fields[1:]]}


def _field(layout: Layout, field: Field) -> dict[str, Any]:
    return {
        "name": field.name,
        "width": field.width,
        "signed": field.signed,
        "behind": field.behind,
        "offset": layout.offsets()[field.name],
        "grown": layout.grown.get(field.name, 0),
        "names": field.enum and {int(one): one.name.lower() for one in field.enum},
    }


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
