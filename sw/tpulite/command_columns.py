"""Commands of one opcode as columns of numbers: thousands are checked and encoded at once."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tpulite.arch.config import COMMAND_BYTES
from tpulite.arch.isa import COMMANDS, Command, Opcode

_WORD = 64
_WORDS = COMMAND_BYTES * 8 // _WORD


def field_problems(commands: Sequence[Command]) -> dict[int, str]:
    """Return what is wrong with the fields of commands, by index; nothing if all are legal."""
    problems = {}
    for opcode, (indices, columns) in _columns(commands).items():
        for index in indices[_illegal(opcode, columns)].tolist():
            values = {"opcode": opcode, **commands[index].fields}
            problems[index] = str(COMMANDS[opcode].problem(values))
    return problems


def encode_commands(commands: Sequence[Command]) -> bytes:
    """Return what :meth:`tpulite.arch.isa.Command.encode` returns of each, one behind the other.

    ValueError if a field has an illegal value.
    """
    words = np.zeros((len(commands), _WORDS), "<u8")
    for opcode, (indices, columns) in _columns(commands).items():
        for index in indices[_illegal(opcode, columns)].tolist():
            commands[index].encode()  # says what is wrong
        mine = np.full((len(indices), _WORDS), [int(opcode)] + [0] * (_WORDS - 1), np.uint64)
        layout = COMMANDS[opcode]
        for coder, column in zip(layout.coders[1:], columns, strict=True):
            field = coder.field
            _insert(mine, column & coder.mask, coder.offset, field.width)
            if field.behind:
                behind = column >> field.width - field.behind & (1 << field.behind) - 1
                _insert(mine, behind, layout.grown[field.name], field.behind)
        words[indices] = mine
    return words.tobytes()


def _insert(words: NDArray[np.uint64], values: NDArray[np.int64], offset: int, width: int) -> None:
    """Put unsigned values into the words of commands, which are zero there."""
    index, shift = divmod(offset, _WORD)
    bits = values.astype(np.uint64)
    words[:, index] |= bits << np.uint64(shift)
    if shift + width > _WORD:
        words[:, index + 1] |= bits >> np.uint64(_WORD - shift)


def _columns(
    commands: Sequence[Command],
) -> dict[Opcode, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return the commands of each opcode: their indices, and a row for each field but the first."""
    numbers: dict[Opcode, list[int]] = defaultdict(list)
    for index, command in enumerate(commands):
        numbers[command.opcode].append(index)
    found = {}
    for opcode, indices in numbers.items():
        names = [field.name for field in COMMANDS[opcode].fields[1:]]
        fields = [commands[index].fields for index in indices]
        table = [[each[name] for each in fields] for name in names]
        try:
            columns = np.array(table, np.int64)
        except OverflowError:  # illegal, whatever it is
            columns = np.array(table, object)
        found[opcode] = np.array(indices), columns.reshape(len(names), len(indices))
    return found


def _illegal(opcode: Opcode, columns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which commands have a field with an illegal value."""
    wrong = np.zeros(columns.shape[1], bool)
    for coder, column in zip(COMMANDS[opcode].coders[1:], columns, strict=True):
        wrong |= (column < coder.low) | (column > coder.high)
        if coder.multiple > 1:
            wrong |= column % coder.multiple != 0
        if coder.members is not None:
            wrong |= ~np.isin(column, list(coder.members))
    return wrong
