"""A program that was bound to a shape: encoded already, decoded when somebody looks."""

from dataclasses import fields
from typing import Any

from tpulite.arch.config import COMMAND_BYTES
from tpulite.arch.isa import decode
from tpulite.program import Program

__all__ = ["BoundProgram"]


class BoundProgram(Program):
    """A program made of encoded commands.

    It is a :class:`~tpulite.program.Program` like any other. But to run it nobody needs its
    commands one by one, so they are decoded only at the first use of ``commands``.
    """

    @classmethod
    def of(cls, stream: bytes, **values: Any) -> "BoundProgram":
        """Return a program whose encoded commands are ``stream``; ``values`` are its fields."""
        program = cls.__new__(cls)
        for field in fields(Program):
            if field.name != "commands":
                object.__setattr__(program, field.name, values[field.name])
        object.__setattr__(program, "_stream", stream)
        return program

    def encode(self) -> bytes:
        """Return the command stream as it lies in DRAM."""
        stream = self.__dict__.get("_stream")
        return super().encode() if stream is None else stream

    def __getattr__(self, name: str) -> Any:
        if name != "commands" or "_stream" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        stream = self.encode()
        commands = tuple(
            decode(stream[start : start + COMMAND_BYTES])
            for start in range(0, len(stream), COMMAND_BYTES)
        )
        object.__setattr__(self, "commands", commands)
        return commands
