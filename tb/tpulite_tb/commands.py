"""Random commands, field by field."""

import random

from tpulite.arch.bitfield import Field
from tpulite.arch.config import Config
from tpulite.arch.isa import COMMANDS, Command, Opcode, illegal_combination

__all__ = ["illegal_values", "random_command", "raw_word", "single_bits"]


def random_command(opcode: Opcode, config: Config | None = None) -> Command:
    """Return a command whose fields have legal random values, legal together on a machine."""
    fields = COMMANDS[opcode].fields[1:]
    while True:
        command = Command.make(opcode, **{field.name: _legal_value(field) for field in fields})
        if config is None or illegal_combination(command, config) is None:
            return command


def illegal_values(field: Field) -> list[int]:
    """Return some values that fit in the field and are illegal; none if all are legal."""
    low, high = field.range[0], field.range[-1]
    candidates = {low, low + 1, -1, 0, 1, 2, 3, 8, 15, high - 1, high, random.choice(field.range)}
    return sorted(
        value for value in candidates if value in field.range and field.problem(value) is not None
    )


def single_bits(opcode: Opcode, config: Config) -> list[Command]:
    """Return a legal command for each bit of each field, which is alone in its field."""
    commands = []
    for field in COMMANDS[opcode].fields[1:]:
        for value in (1 << bit for bit in range(field.width - field.signed)):
            command = random_command(opcode, config).replace(**{field.name: value})
            if field.problem(value) is None and illegal_combination(command, config) is None:
                commands.append(command)
    return commands


def raw_word(command: Command, **values: int) -> int:
    """Return the 256 bits of a command with some fields replaced, legal or not."""
    word = int.from_bytes(command.encode(), "little")
    layout = COMMANDS[command.opcode]
    offsets = layout.offsets()
    for field in layout.fields:
        if field.name in values:
            parts = [(offsets[field.name], 0, field.width - field.behind)]
            if field.behind:
                parts.append((layout.grown[field.name], parts[0][2], field.behind))
            for offset, first, width in parts:
                mask = (1 << width) - 1
                word &= ~(mask << offset)
                word |= (values[field.name] >> first & mask) << offset
    return word


def _legal_value(field: Field) -> int:
    if field.enum is not None:
        return random.choice(list(field.enum))
    low = field.range[0] if field.minimum is None else field.minimum
    extremes = [low, field.range[-1] // field.multiple * field.multiple]
    value = random.randrange(low, field.range.stop) // field.multiple * field.multiple
    return random.choice([*extremes, value, value])
