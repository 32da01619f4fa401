"""A compiled program: commands, constants and what the host must know to run it; save and load."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tpulite.arch.config import COMMAND_BYTES, Config
from tpulite.arch.isa import Command, decode
from tpulite.arch.memory import REFERENCE_MEMORY, WINDOWS, MemoryTiming
from tpulite.archive import holds, opened, packed
from tpulite.command_columns import encode_commands
from tpulite.tensor_spec import PackedRows, Patches, TensorSpec

__all__ = [
    "LayerInfo",
    "PackedRows",
    "Patches",
    "Program",
    "TensorSpec",
    "is_program_file",
]

_VERSION = 6

_LARGEST = 1 << 40
"""No address, size or count of a program is larger."""


@dataclass(frozen=True)
class LayerInfo:
    """A layer of the network as the reports show it."""

    name: str  #: The layer.
    #: Output vectors, multiplications of an output, channels; k is 0 if it multiplies nothing.
    m: int
    k: int
    n: int
    #: Indices of the CONVs that compute it; of all its CONVs and VECTORs if k is 0.
    commands: tuple[int, ...]
    #: Indices of its other commands. Every command but END is of one layer.
    others: tuple[int, ...] = ()

    @property
    def macs(self) -> int:
        """Multiplications of the layer, padding not counted."""
        return self.m * self.k * self.n


@dataclass(frozen=True)
class Program:
    """Everything that a device needs to run a compiled network."""

    config: Config  #: The machine that it was compiled for; no other one runs it.
    commands: tuple[Command, ...]  #: The command stream, END last.
    constants: bytes = b""  #: Image of the CONSTANTS window: weights and channel records.
    #: Bytes of each DRAM window that the program uses.
    window_bytes: tuple[int, ...] = (0,) * WINDOWS
    #: What the host writes before and reads after a run.
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    layers: tuple[LayerInfo, ...] = ()  #: For reports.
    #: Ranges ``[start, stop)`` of unified-buffer rows that an earlier program has left there.
    resident: tuple[tuple[int, int], ...] = field(default=())
    #: Whether it is the program of a range of shapes, bound to the only one that it is for.
    bound: bool = False
    #: The DRAM that its cycles are predicted with; it runs with any.
    memory: MemoryTiming = REFERENCE_MEMORY

    @property
    def batch(self) -> int:
        """Images of a run: how many each input and output holds."""
        return max((spec.batch for spec in (*self.inputs, *self.outputs)), default=1)

    @property
    def images(self) -> int:
        """Images of a run, those included that are one tensor: see :class:`TensorSpec`."""
        return max((spec.images for spec in (*self.inputs, *self.outputs)), default=1)

    @property
    def macs(self) -> int:
        """Multiplications of one run, padding not counted."""
        return sum(layer.macs for layer in self.layers)

    def encode(self) -> bytes:
        """Return the command stream as it lies in DRAM."""
        return self._stream

    @cached_property
    def _stream(self) -> bytes:
        return encode_commands(self.commands)

    def pack(self) -> bytes:
        """Return the program as a file holds it; equal programs give equal bytes."""
        metadata = {
            "config": self.config.as_dict(),
            "window_bytes": list(self.window_bytes),
            "inputs": [spec.as_dict() for spec in self.inputs],
            "outputs": [spec.as_dict() for spec in self.outputs],
            "layers": [vars(layer) for layer in self.layers],
            "resident": [list(rows) for rows in self.resident],
        }
        metadata |= {"bound": True} if self.bound else {}
        if self.memory != REFERENCE_MEMORY:
            metadata["memory"] = asdict(self.memory)
        parts = {"commands.bin": self.encode(), "constants.bin": self.constants}
        return packed("program", _VERSION, metadata, parts)

    def save(self, path: str | Path) -> None:
        """Write a program file."""
        Path(path).write_bytes(self.pack())

    @classmethod
    def unpack(cls, data: bytes, path: str | Path) -> "Program":
        """Return the program of a file with this content.

        ValueError if it is not a whole program of this version; the message begins with the path.
        """
        with opened("program", _VERSION, data, path) as (metadata, parts):
            commands = parts["commands.bin"]
            if len(commands) % COMMAND_BYTES:
                raise ValueError(f"{len(commands)} bytes of commands")
            _check_numbers(metadata)
            return cls(
                config=Config.from_dict(metadata["config"]),
                commands=tuple(_decode_all(commands)),
                constants=parts["constants.bin"],
                window_bytes=tuple(metadata["window_bytes"]),
                inputs=tuple(map(TensorSpec.from_dict, metadata["inputs"])),
                outputs=tuple(map(TensorSpec.from_dict, metadata["outputs"])),
                layers=tuple(
                    LayerInfo(**(x | {name: tuple(x[name]) for name in ("commands", "others")}))
                    for x in metadata["layers"]
                ),
                resident=tuple((start, stop) for start, stop in metadata["resident"]),
                bound=bool(metadata.get("bound")),
                memory=MemoryTiming.from_dict(metadata.get("memory", {})),
            )

    @classmethod
    def load(cls, path: str | Path) -> "Program":
        """Read a program file; raise ValueError if it is none."""
        return cls.unpack(Path(path).read_bytes(), path)


def is_program_file(path: Path) -> bool:
    """Tell whether a file holds a program, and not a network: one that ``bind`` wrote, say."""
    return holds("program", path)


def _check_numbers(metadata: Mapping[str, Any]) -> None:
    """Check what numbers a file holds, which may be anything; ValueError with the wrong one."""
    numbers = [*metadata["window_bytes"], *(row for rows in metadata["resident"] for row in rows)]
    for layer in metadata["layers"]:
        numbers += [*(layer[name] for name in "mkn"), *layer["commands"], *layer["others"]]
    for number in numbers:
        if type(number) is not int or not 0 <= number <= _LARGEST:
            raise ValueError(f"there is the number {number!r}")


def _decode_all(data: bytes) -> Iterable[Command]:
    for start in range(0, len(data), COMMAND_BYTES):
        yield decode(data[start : start + COMMAND_BYTES])
