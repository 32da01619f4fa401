"""A program that was bound to a shape: encoded already, decoded when somebody looks."""

from collections.abc import Callable
from dataclasses import fields
from functools import cached_property
from typing import Any

from tpulite.arch.config import COMMAND_BYTES
from tpulite.arch.isa import Command, decode
from tpulite.program import LayerInfo, Program


class BoundProgram(Program):
    """A program made of encoded commands.

    It is a :class:`~tpulite.program.Program` like any other. But to run it nobody needs its
    commands one by one, nor to know which layer each is of: ``commands`` and ``layers`` are made
    at their first use.
    """

    @classmethod
    def of(
        cls, stream: bytes, layers: Callable[[], tuple[LayerInfo, ...]], **values: Any
    ) -> "BoundProgram":
        """Return a program.

        Parameters
        ----------
        stream : bytes
            Its encoded commands.
        layers : callable
            Returns what is known of its layers.
        **values
            Its other fields.
        """
        program = cls.__new__(cls)
        for field in fields(Program):
            if field.name in values:
                object.__setattr__(program, field.name, values[field.name])
        object.__setattr__(program, "_stream", stream)
        object.__setattr__(program, "_find_layers", layers)
        return program

    def encode(self) -> bytes:
        """Return the command stream as it lies in DRAM."""
        stream = self.__dict__.get("_stream")
        return super().encode() if stream is None else stream

    @cached_property
    def commands(self) -> tuple[Command, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Its commands, decoded."""
        return _decode(self.__dict__["_stream"])

    @cached_property
    def layers(self) -> tuple[LayerInfo, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What is known of its layers."""
        return self.__dict__["_find_layers"]()


def _decode(stream: bytes) -> tuple[Command, ...]:
    return tuple(
        decode(stream[start : start + COMMAND_BYTES])
        for start in range(0, len(stream), COMMAND_BYTES)
    )
