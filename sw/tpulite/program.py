"""A compiled program: commands, constants and what the host must know to run it; save and load."""

import io
import json
import math
import zipfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES, Config
from tpulite.arch.isa import Command, decode
from tpulite.arch.memory import WINDOWS, Window

__all__ = ["LayerInfo", "Patches", "Program", "Strings", "TensorSpec"]

_FORMAT = "tpulite-program"
_FORMAT_VERSION = 4


@dataclass(frozen=True)
class Strings:
    """An image whose rows are strings of bytes, pixel after pixel: for dense mode.

    Parameters
    ----------
    vectors : int
        Vectors of N bytes in a string.
    pad : int
        Pixels of padding before the first pixel.
    fill : int
        Value of all padding, in the dtype of the tensor.
    transposed : bool
        Whether the strings run along the height of the image instead of its width.
    """

    vectors: int
    pad: int
    fill: int
    transposed: bool = False


@dataclass(frozen=True)
class Patches:
    """A feature map whose vectors hold patches of pixels, which may overlap or leave gaps.

    Patch (y, x) has its first pixel at ``(y*step[0] - pad[0], x*step[1] - pad[1])``; its channels
    are its pixels, row by row. So a kernel that is as large as a patch has a single tap.

    Parameters
    ----------
    count : tuple of int
        Rows and columns of patches.
    size : tuple of int
        Rows and columns of pixels of a patch.
    step : tuple of int
        Pixels from a patch to the one below, and to the one on the right.
    pad : tuple of int
        Rows above the first pixel, and columns on the left of it.
    fill : int
        Value of all pixels that do not exist, in the dtype of the tensor.
    """

    count: tuple[int, int]
    size: tuple[int, int]
    step: tuple[int, int]
    pad: tuple[int, int]
    fill: int


@dataclass(frozen=True)
class TensorSpec:
    """A network input or output in DRAM.

    The layout is channel-blocked: ``ceil(channels / N)`` blocks, each of ``m`` vectors of N
    elements, each block padded to a multiple of 16 bytes. An image has a vector a pixel, row by
    row, or one a patch of pixels, whose values are the channels; or the rows of either are strings,
    ``m`` of them. The images of a batch lie one after the other, each as if it were alone.

    Parameters
    ----------
    name : str
        Name of the tensor.
    window : Window
        DRAM window that holds it.
    offset : int
        First byte in the window, a multiple of 16.
    m : int
        Vectors of an image of the batch: its pixels, patches or strings; or those of a dense layer.
    channels : int
        Features of a pixel, padding not counted.
    dtype : str
        ``int8``, ``uint8`` or ``int32``.
    image : tuple of int, optional
        Height and width, if the tensor is an image; else it is a matrix. An image that is several,
        pixels of all of them in each channel block, has their number before height and width.
    strings : Strings, optional
        How the rows of an image are strings.
    batch : int
        How often all of this lies there: images that a run computes one after the other.
    patches : Patches, optional
        Which pixels of an image each vector holds.
    stacked : bool
        Whether the images of the batch lie there as one: in each channel block the vectors of all.

    Raises
    ------
    ValueError
        If the batch is less than 1.
    """

    name: str
    window: Window
    offset: int
    m: int
    channels: int
    dtype: str = "int8"
    image: tuple[int, ...] | None = None
    strings: Strings | None = None
    batch: int = 1
    patches: Patches | None = None
    stacked: bool = False

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"Tensor {self.name!r} must have a batch of 1 or more: {self.batch}")
        if self.stacked and self.strings is not None:
            raise ValueError(f"Tensor {self.name!r} has strings, which cannot be stacked")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape as the host sees it; a batch of more than one is an axis in front."""
        one = (*(self.image or (self.m,)), self.channels)
        return one if self.batch == 1 else (self.batch, *one)

    @property
    def one(self) -> "TensorSpec":
        """One image of the batch, alone."""
        return replace(self, batch=1, stacked=False)

    @property
    def matrix(self) -> "TensorSpec":
        """All images of a stacked batch as the matrix that lies there."""
        return replace(self, m=self.batch * self.m, image=None, batch=1, stacked=False)

    def offset_of(self, n: int, config: Config) -> int:
        """Return the first byte in the window of image ``n`` of the batch."""
        return self.offset + n * self.one.nbytes(config)

    @property
    def depth(self) -> int:
        """Features of a vector, padding not counted: the channels of a pixel, or of a patch."""
        return self.channels * (math.prod(self.patches.size) if self.patches else 1)

    def blocks(self, config: Config) -> int:
        """Return the number of channel blocks."""
        return -(-self.depth // config.array_size)

    def block_bytes(self, config: Config) -> int:
        """Return the bytes from block to block."""
        vectors = self.m * (self.batch if self.stacked else 1)
        size = vectors * config.array_size * np.dtype(self.dtype).itemsize
        return -(-size // BEAT_BYTES) * BEAT_BYTES

    def nbytes(self, config: Config) -> int:
        """Return the bytes of the whole tensor in DRAM, all images of the batch."""
        if self.strings is not None:
            size = self.m * self.strings.vectors * config.array_size
            return self.batch * (-(-size // BEAT_BYTES) * BEAT_BYTES)
        one = self.blocks(config) * self.block_bytes(config)
        return one if self.stacked else self.batch * one


@dataclass(frozen=True)
class LayerInfo:
    """A layer of the network as the reports show it.

    ``commands`` are the indices of the CONV commands that compute it.
    """

    name: str
    m: int
    k: int
    n: int
    commands: tuple[int, ...]

    @property
    def macs(self) -> int:
        """Multiplications of the layer, padding not counted."""
        return self.m * self.k * self.n


@dataclass(frozen=True)
class Program:
    """Everything that a device needs to run a compiled network.

    Parameters
    ----------
    config : Config
        The machine that it was compiled for; no other one runs it.
    commands : tuple of Command
        The command stream, END last.
    constants : bytes
        Image of the CONSTANTS window: weights and channel records.
    window_bytes : tuple of int
        Bytes of each DRAM window that the program uses.
    inputs, outputs : tuple of TensorSpec
        What the host writes before and reads after a run.
    layers : tuple of LayerInfo
        For reports.
    resident : tuple of (int, int)
        Ranges ``[start, stop)`` of unified-buffer rows that an earlier program has left there.
    """

    config: Config
    commands: tuple[Command, ...]
    constants: bytes = b""
    window_bytes: tuple[int, ...] = (0,) * WINDOWS
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    layers: tuple[LayerInfo, ...] = ()
    resident: tuple[tuple[int, int], ...] = field(default=())

    @property
    def batch(self) -> int:
        """Images of a run: how many each input and output holds."""
        return max((spec.batch for spec in (*self.inputs, *self.outputs)), default=1)

    @property
    def macs(self) -> int:
        """Multiplications of one run, padding not counted."""
        return sum(layer.macs for layer in self.layers)

    def encode(self) -> bytes:
        """Return the command stream as it lies in DRAM."""
        return b"".join(command.encode() for command in self.commands)

    def save(self, path: str | Path) -> None:
        """Write a program file; equal programs give equal bytes."""
        metadata = {
            "format": _FORMAT,
            "version": _FORMAT_VERSION,
            "config": self.config.as_dict(),
            "window_bytes": list(self.window_bytes),
            "inputs": [_spec_to_dict(spec) for spec in self.inputs],
            "outputs": [_spec_to_dict(spec) for spec in self.outputs],
            "layers": [
                {"name": x.name, "m": x.m, "k": x.k, "n": x.n, "commands": list(x.commands)}
                for x in self.layers
            ],
            "resident": [list(rows) for rows in self.resident],
        }
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in (
                ("program.json", json.dumps(metadata, indent=1).encode()),
                ("commands.bin", self.encode()),
                ("constants.bin", self.constants),
            ):
                # A ZipInfo of our own has a fixed date, unlike writestr with a name.
                archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
        Path(path).write_bytes(buffer.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> "Program":
        """Read a program file.

        Raises
        ------
        ValueError
            If the file is not a whole program file of this version.
        """
        try:
            with zipfile.ZipFile(path) as archive:
                metadata = json.loads(archive.read("program.json"))
                commands = archive.read("commands.bin")
                constants = archive.read("constants.bin")
            if metadata["format"] != _FORMAT:
                raise ValueError(f"format {metadata['format']!r}")
            if metadata["version"] != _FORMAT_VERSION:
                raise ValueError(f"version {metadata['version']!r}, this is {_FORMAT_VERSION}")
            if len(commands) % COMMAND_BYTES:
                raise ValueError(f"{len(commands)} bytes of commands")
            return cls(
                config=Config.from_dict(metadata["config"]),
                commands=tuple(_decode_all(commands)),
                constants=constants,
                window_bytes=tuple(metadata["window_bytes"]),
                inputs=tuple(_spec_from_dict(spec) for spec in metadata["inputs"]),
                outputs=tuple(_spec_from_dict(spec) for spec in metadata["outputs"]),
                layers=tuple(
                    LayerInfo(**(x | {"commands": tuple(x["commands"])}))
                    for x in metadata["layers"]
                ),
                resident=tuple((start, stop) for start, stop in metadata["resident"]),
            )
        except (zipfile.BadZipFile, KeyError, TypeError, ValueError, EOFError) as error:
            raise ValueError(f"{path} is not a tpulite program file: {error}") from error


def _decode_all(data: bytes) -> Iterable[Command]:
    for start in range(0, len(data), COMMAND_BYTES):
        yield decode(data[start : start + COMMAND_BYTES])


def _spec_to_dict(spec: TensorSpec) -> dict:
    return asdict(spec) | {"window": int(spec.window)}


def _spec_from_dict(values: dict) -> TensorSpec:
    image, strings, patches = values["image"], values["strings"], values["patches"]
    if patches is not None:  # JSON has lists for pairs
        pairs = {name: tuple(patches[name]) for name in ("count", "size", "step", "pad")}
        patches = Patches(**(patches | pairs))
    fields: dict[str, Any] = values | {
        "window": Window(values["window"]),
        "image": image and tuple(image),
        "strings": strings and Strings(**strings),
        "patches": patches,
    }
    return TensorSpec(**fields)
