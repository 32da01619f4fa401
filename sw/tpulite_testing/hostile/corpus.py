"""Whole files of every kind that the tools read, small ones."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from tpulite.archive import members
from tpulite.configs import named_config
from tpulite.models import CNN_DIGITS, MLP_DIGITS
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import save_model
from tpulite_testing.drawn.onnx_nodes import NODES, node_case
from tpulite_testing.files.tflite_builder import Builder
from tpulite_testing.quick_options import quick_options

__all__ = ["Whole", "corpus", "operators"]


@dataclass(frozen=True)
class Whole:
    """A whole file."""

    name: str  #: What it is called, with its suffix.
    kind: str  #: What :func:`tpulite_testing.hostile.mutants.mutant` knows it as.
    data: bytes  #: Its content.
    #: Words of the command lines that read it; ``@`` is the file.
    commands: tuple[tuple[str, ...], ...]
    #: Other files that they read, by name; the file's own name may be among them.
    beside: Mapping[str, bytes] = field(default_factory=dict)


_NETWORK = (
    ("compile", "@", "--config", "4x4", "--no-cache", "-o", "out.tpulite"),
    ("inspect", "@", "--config", "4x4"),
    ("run", "@", "--config", "4x4", "--no-cache"),
)
_MODEL = (("info", "@"), ("disasm", "@"), ("run", "@"), ("profile", "@"))
_PROGRAM = (("info", "@"), ("disasm", "@"), ("run", "@", "--input", "x.npy", "--output", "y.npy"))


@cache
def corpus() -> tuple[tuple[Whole, ...], ...]:
    """Return the files in groups, of which each is drawn as often; the tools have compiled some."""
    onnx = tuple(
        Whole(f"{number}.onnx", "onnx", node_case(op, 1), _NETWORK)
        for number, op in enumerate(NODES)
    )
    compiled = _compiled()
    run = (("run", str(CNN_DIGITS), "--config", "4x4", "--input", "@"),)
    pixels = np.zeros((1, 16, 16, 1), np.int8)
    return (
        (Whole("operators.tflite", "tflite", _operators(), _NETWORK),),
        (Whole("digits.tflite", "tflite", CNN_DIGITS.read_bytes(), _NETWORK),),
        *(onnx,) * 3,
        (Whole("digits.npz", "npz", MLP_DIGITS.read_bytes(), _NETWORK),),
        *((Whole(f"{name}.tpulite", "model", data, _MODEL),) for name, data in compiled.items()),
        (Whole("digits.tpl", "program", members(compiled["plain"])["programs/0.tpl"], _PROGRAM),),
        (
            Whole("input.npy", "npy", _written(np.save, pixels), run),
            Whole("input.npz", "npz", _written(np.savez, image=pixels), run),
            Whole("input.png", "picture", _picture(), run),
        ),
    )


def operators(b: Builder) -> int:
    """Write operators of many kinds, from convolution to mean; return the last one's tensor."""
    x = b.input((1, 6, 6, 2), 0.5, -3)
    weight = np.ones((2, 3, 3, 2), np.int8)
    y = b.conv(x, weight, [0] * 2, weight_scale=[0.1] * 2, scale=0.5, zero_point=-3)
    y = b.depthwise(y, np.ones((1, 3, 3, 2), np.int8), weight_scale=0.1, scale=0.5, zero_point=-3)
    y = b.add(x, y, 0.5, -3)
    y = b.pad(y, ((0, 0), (1, 1), (1, 1), (0, 0)))
    y = b.pool("MAX_POOL_2D", y, (2, 2), stride=(2, 2))
    return b.mean(b.concat([y, y]), (1, 2), 0.5, -3)


def _operators() -> bytes:
    b = Builder()
    return b.build(b.unary("LOGISTIC", operators(b), 1 / 256, -128))


def _compiled() -> dict[str, bytes]:
    """Return compiled networks: of one program, and with layers that the host computes."""
    found = {}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "network"
        for name, data in (("plain", MLP_DIGITS.read_bytes()), ("hosts", node_case("Softmax", 1))):
            path.write_bytes(data)
            options = quick_options()
            model = Model.load(path, config=named_config("4x4"), options=options).compile()
            save_model(model, path)
            found[name] = path.read_bytes()
    return found


def _written(save, *arrays: np.ndarray, **named: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    save(buffer, *arrays, **named)
    return buffer.getvalue()


def _picture() -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (16, 16)).save(buffer, "PNG")
    return buffer.getvalue()
