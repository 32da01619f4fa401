"""Programs whose constants are there already."""

from collections.abc import Iterable
from dataclasses import replace

from tpulite.arch.isa import Command, Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.encode.repeat import without_tokens
from tpulite.compiler.encode.tokens import insert_tokens
from tpulite.program import Program


def without_loads(program: Program, rows: int, *, prefetch: bool) -> Program:
    """Return a program that does the same without loading constants that an earlier run has left.

    Parameters
    ----------
    program : Program
        A program with tokens, END last.
    rows : int
        Rows of the unified buffer, from the first one on, in which constants stay.
    prefetch : bool
        See :func:`tpulite.compiler.encode.tokens.insert_tokens`.
    """

    def stays(command: Command) -> bool:
        load = command.opcode == Opcode.LOAD and command["window"] == Window.CONSTANTS
        return load and command["row"] < rows

    kept = [i for i, command in enumerate(program.commands) if not stays(command)]
    places = {old: new for new, old in enumerate(kept)}
    commands = tuple(without_tokens(program.commands[i]) for i in kept)

    def kept_of(commands: Iterable[int]) -> tuple[int, ...]:
        return tuple(places[i] for i in commands if i in places)

    layers = (
        replace(each, commands=kept_of(each.commands), others=kept_of(each.others))
        for each in program.layers
    )
    return replace(
        program,
        commands=insert_tokens(commands, program.config, prefetch=prefetch),
        layers=tuple(layers),
        resident=((0, rows),),
    )
