"""Large batches: a program for some images, several times in a row."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, Opcode
from tpulite.arch.memory import Window
from tpulite.compiler.encode.tokens import insert_tokens
from tpulite.program import Program, TensorSpec

_TOKENS = {"wait": 0, "signal": 0}


def repeat_program(program: Program, count: int, *, prefetch: bool = True) -> Program:
    """Return a program that does the same for ``count`` times as many images.

    Images in the middle take the same places in the buffer and in DRAM each time; weights are
    loaded again. The engines go from one part to the next without a pause: tokens are derived anew.

    Parameters
    ----------
    program : Program
        A program with tokens, END last.
    count : int
        How many times.
    prefetch : bool
        See :func:`tpulite.compiler.encode.tokens.insert_tokens`.
    """
    if count == 1:
        return program
    config = program.config
    tensors = {
        Window.INPUT: (program.inputs, _longer(program.inputs, count, config)),
        Window.OUTPUT: (program.outputs, _longer(program.outputs, count, config)),
    }
    once = [without_tokens(command) for command in program.commands[:-1]]
    commands = [
        _moved(command, tensors, number, config) for number in range(count) for command in once
    ]
    firsts = range(0, len(commands), len(once))
    sizes = list(program.window_bytes)
    for window, (_, specs) in tensors.items():
        sizes[window] = sum(spec.nbytes(config) for spec in specs)
    return replace(
        program,
        commands=insert_tokens((*commands, program.commands[-1]), config, prefetch=prefetch),
        window_bytes=tuple(sizes),
        inputs=tensors[Window.INPUT][1],
        outputs=tensors[Window.OUTPUT][1],
        layers=tuple(
            replace(
                layer,
                m=layer.m * count,
                commands=tuple(first + index for first in firsts for index in layer.commands),
                others=tuple(first + index for first in firsts for index in layer.others),
            )
            for layer in program.layers
        ),
    )


def _longer(specs: tuple[TensorSpec, ...], count: int, config: Config) -> tuple[TensorSpec, ...]:
    """Return tensors of more images, one after the other in their window."""
    many = [replace(spec, batch=spec.batch * count) for spec in specs]
    ends = list(accumulate((spec.nbytes(config) for spec in many), initial=0))
    return tuple(replace(spec, offset=end) for spec, end in zip(many, ends, strict=False))


def without_tokens(command: Command) -> Command:
    """Return a command that neither waits nor signals."""
    if command.engine is None:
        return command
    tokens = _TOKENS | ({"prefetch": 0} if command.opcode == Opcode.CONV else {})
    return Command(command.opcode, command.fields | tokens)


def _moved(
    command: Command,
    tensors: Mapping[Window, tuple[Sequence[TensorSpec], Sequence[TensorSpec]]],
    number: int,
    config: Config,
) -> Command:
    """Return a command of repetition ``number``: other images of the inputs and outputs."""
    if command.opcode not in (Opcode.LOAD, Opcode.STORE) or command["window"] not in tensors:
        return command
    for old, new in zip(*tensors[Window(command["window"])], strict=True):
        inside = command["offset"] - old.offset
        if 0 <= inside < old.nbytes(config):
            offset = new.offset + number * old.nbytes(config) + inside
            return Command(command.opcode, command.fields | {"offset": offset})
    raise AssertionError(f"No tensor lies at byte {command['offset']}")
