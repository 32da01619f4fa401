import numpy as np
import pytest

from tpulite.arch.config import COMMAND_BYTES
from tpulite.arch.isa import COMMANDS, Command, Opcode
from tpulite.compiler.operators.words import commands as batch
from tpulite.compiler.operators.words import encode


def legal(rng, field, count: int) -> np.ndarray:
    """Draw values of a field, its limits among them."""
    if field.enum is not None:
        return rng.choice([int(member) for member in field.enum], count)
    low = field.range[0] if field.minimum is None else field.minimum
    values = rng.integers(low, field.range[-1] + 1, count) // field.multiple * field.multiple
    values[:2] = low, field.range[-1] // field.multiple * field.multiple
    return values


@pytest.mark.parametrize("opcode", [Opcode.LOAD, Opcode.STORE, Opcode.CONV, Opcode.VECTOR])
@pytest.mark.parametrize("seed", range(10))
def test_words_are_encoded_commands(opcode, seed):
    rng, count = np.random.default_rng(seed), 20
    columns = {f.name: legal(rng, f, count) for f in COMMANDS[opcode].fields[1:]}
    commands = [
        Command.make(opcode, **{name: int(values[i]) for name, values in columns.items()})
        for i in range(count)
    ]
    signed = {field.name for field in COMMANDS[opcode].fields if field.signed}
    for name in columns:
        if name in signed or rng.random() < 0.4:  # the same for all
            columns[name] = int(columns[name][0])
            commands = [command.replace(**{name: columns[name]}) for command in commands]
    words = encode([batch(opcode, count, **columns)])
    stream = np.ascontiguousarray(words.T).tobytes()
    assert len(stream) == count * COMMAND_BYTES
    assert stream == b"".join(command.encode() for command in commands)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"row": np.array([0, 1 << 14])}, r"^LOAD.row must be in range\(0, 16384\), not 16384$"),
        ({"row": np.array([-1, 5])}, r"^LOAD.row must be in range\(0, 16384\), not -1$"),
        ({"offset": np.array([16, 24])}, r"^LOAD.offset must be a multiple of 16, not 24$"),
        ({"lines": 0}, r"^LOAD.lines must be at least 1, not 0$"),
        ({"pitch": 1 << 14}, r"^LOAD.pitch must be in range\(0, 16384\), not 16384$"),
    ],
)
def test_values_that_do_not_fit(values, message):
    with pytest.raises(ValueError, match=message):
        encode([batch(Opcode.LOAD, 2, **values)])
