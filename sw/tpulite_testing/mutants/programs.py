"""Mutants of programs: one small change of the command stream each, as a faulty compiler makes."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tpulite.arch.isa import COMMANDS, Command, Engine, Opcode
from tpulite.program import Program

__all__ = ["KINDS", "program_mutant"]

Commands = list[Command]
Rng = np.random.Generator

_ADDRESSES = (
    *("row", "act_row", "weight_row", "acc_row", "record_row", "out_row", "a_row", "b_row"),
    *("param_row", "offset"),
)
_PITCHES = ("stride", "pitch", "act_pitch", "act_block_pitch", "a_pitch", "a_step", "out_pitch")
_EXTENTS = (
    *("lines", "rows", "columns", "height", "width", "blocks", "kernel_rows", "kernel_columns"),
    *("window_rows", "window_columns", "pad_top", "pad_left"),
)
_BEAT = 16


def program_mutant(program: Program, kind: str, rng: Rng) -> Program | None:
    """Return a mutant of a kind of :data:`KINDS`, or None if the program has no place for one."""
    commands = list(program.commands)
    if not KINDS[kind](commands, rng):
        return None
    try:
        for command in commands:
            command.encode()
    except ValueError:  # no such command exists
        return None
    return replace(program, commands=tuple(commands))


def _pick(places: list, rng: Rng):
    return places[rng.integers(len(places))] if places else None


def _bits(commands: Commands, name: str) -> list[tuple[int, Engine]]:
    """Return commands and engines of all waits, or signals."""
    return [
        (i, engine)
        for i, command in enumerate(commands)
        if command.engine is not None
        for engine in Engine
        if command[name] >> engine & 1
    ]


def _toggle(commands: Commands, i: int, name: str, engine: Engine) -> None:
    commands[i] = commands[i].replace(**{name: commands[i][name] ^ (1 << engine)})


def _drop_wait(commands: Commands, rng: Rng) -> bool:
    """Drop a wait; its token is left."""
    if place := _pick(_bits(commands, "wait"), rng):
        _toggle(commands, place[0], "wait", place[1])
    return place is not None


def _drop_token(commands: Commands, rng: Rng) -> bool:
    """Drop a wait and the signal that it takes, so that all tokens are still taken."""
    place = _pick(_bits(commands, "wait"), rng)
    if place is None:
        return False
    taker, giver = place
    engine = commands[taker].engine
    assert engine is not None
    number = sum(
        commands[i].engine == engine for i, each in _bits(commands[:taker], "wait") if each == giver
    )
    given = [
        i for i, each in _bits(commands, "signal") if each == engine and commands[i].engine == giver
    ]
    _toggle(commands, taker, "wait", giver)
    _toggle(commands, given[number], "signal", engine)
    return True


def _move(name: str, step: int) -> Callable[[Commands, Rng], bool]:
    """Return a change that moves a wait or a signal to the engine's command after or before."""

    def change(commands: Commands, rng: Rng) -> bool:
        moves = []
        for i, engine in _bits(commands, name):
            order = range(i + 1, len(commands)) if step > 0 else range(i - 1, -1, -1)
            j = next((j for j in order if commands[j].engine == commands[i].engine), None)
            if j is not None and not commands[j][name] >> engine & 1:
                moves.append((i, j, engine))
        if place := _pick(moves, rng):
            *both, engine = place
            for i in both:
                _toggle(commands, i, name, engine)
        return place is not None

    return change


def _count(commands: Commands, rng: Rng) -> bool:
    """Give or take a token more or less."""
    i = int(rng.integers(len(commands) - 1))
    name = ("wait", "signal")[rng.integers(2)]
    _toggle(commands, i, name, Engine(int(rng.integers(len(Engine)))))
    return True


def _shift(names: tuple[str, ...], *, shorter: bool = False) -> Callable[[Commands, Rng], bool]:
    """Return a change of one of the fields, by one row, one beat or one."""

    def change(commands: Commands, rng: Rng) -> bool:
        places = [
            (i, field)
            for i, command in enumerate(commands)
            for field in COMMANDS[command.opcode].fields
            if field.name in names and (not shorter or command[field.name] > 1)
        ]
        place = _pick(places, rng)
        if place is None:
            return False
        i, field = place
        step = _BEAT if field.name in ("offset", "stride") else 1
        value = commands[i][field.name] + (-step if shorter or rng.random() < 0.5 else step)
        if value not in field.range:
            return False
        commands[i] = commands[i].replace(**{field.name: value})
        return True

    return change


def _swap(commands: Commands, rng: Rng) -> bool:
    """Exchange two commands of an engine that follow each other, tokens and all."""
    pairs = []
    last: dict[Engine, int] = {}
    for i, command in enumerate(commands):
        if command.engine is not None:
            if command.engine in last and commands[last[command.engine]] != command:
                pairs.append((last[command.engine], i))
            last[command.engine] = i
    if place := _pick(pairs, rng):
        i, j = place
        commands[i], commands[j] = commands[j], commands[i]
    return place is not None


def _swap_work(commands: Commands, rng: Rng) -> bool:
    """Exchange what two commands of an engine do that follow each other; tokens stay."""
    before = list(commands)
    if not _swap(commands, rng):
        return False
    for i, command in enumerate(before):
        if command is not commands[i]:
            tokens = {"wait": command["wait"], "signal": command["signal"]}
            commands[i] = commands[i].replace(**tokens)
    return commands != before


def _drop_work(commands: Commands, rng: Rng) -> bool:
    """Drop a command that neither waits nor signals."""
    idle = [
        i
        for i, command in enumerate(commands)
        if command.opcode != Opcode.END and not command["wait"] and not command["signal"]
    ]
    if (place := _pick(idle, rng)) is not None:
        del commands[place]
    return place is not None


KINDS: dict[str, Callable[[Commands, Rng], bool]] = {
    "drop a wait": _drop_wait,
    "drop a wait and its signal": _drop_token,
    "wait one command later": _move("wait", 1),
    "signal one command earlier": _move("signal", -1),
    "a token more or less": _count,
    "shift an address": _shift(_ADDRESSES),
    "change a pitch": _shift(_PITCHES),
    "shorten": _shift(_EXTENTS, shorter=True),
    "swap two commands": _swap,
    "swap the work of two commands": _swap_work,
    "drop a command": _drop_work,
}
"""What is done, by name."""
