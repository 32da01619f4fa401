"""The instruction set: commands, with the layouts and names that they are made of.

A command is 256 bits, little-endian in DRAM, the first field in the least significant bits. Bits
beyond its layout are zero.
"""

from dataclasses import dataclass

from tpulite.arch.bitfield import Field
from tpulite.arch.config import COMMAND_BYTES, Config
from tpulite.arch.layouts import (
    BYTE_STEPS,
    COMMANDS,
    CONV,
    END,
    ENGINE_OF,
    HEADER,
    LOAD,
    LUT_BYTES,
    NORM,
    OPERANDS,
    RAW_ROWS,
    RECORD,
    STORE,
    TOKEN_MAX,
    VECTOR,
    WORDS_BYTES,
)
from tpulite.arch.opcodes import Axis, Drain, Engine, Opcode, RecordForm, Scaling, VectorOp

__all__ = [
    "BYTE_STEPS",
    "COMMANDS",
    "CONV",
    "END",
    "ENGINE_OF",
    "HEADER",
    "LOAD",
    "LUT_BYTES",
    "NORM",
    "OPERANDS",
    "PAIR_STRIDE",
    "RAW_ROWS",
    "RECORD",
    "STORE",
    "TOKEN_MAX",
    "VECTOR",
    "WORDS_BYTES",
    "Axis",
    "Command",
    "Drain",
    "Engine",
    "Opcode",
    "RecordForm",
    "Scaling",
    "VectorOp",
    "decode",
    "dense",
    "disassemble",
    "illegal_combination",
    "named_fields",
    "operations",
]

PAIR_STRIDE = CONV.limit("stride_x") // 2
"""Largest horizontal stride of pairs: from a lower byte to the next pair are twice as many columns,
less one."""

_OPCODES = {int(opcode): opcode for opcode in Opcode}
_ZEROS = {opcode: {f.name: 0 for f in COMMANDS[opcode].fields[1:]} for opcode in Opcode}


@dataclass(frozen=True)
class Command:
    """One command: an opcode and the values of all its fields (without ``opcode``).

    Examples
    --------
    >>> end = Command.make(Opcode.END)
    >>> decode(end.encode()) == end
    True
    """

    opcode: Opcode
    fields: dict[str, int]

    @classmethod
    def make(cls, opcode: Opcode, **fields: int) -> "Command":
        """Build a command; fields that are not named are 0."""
        zeros = _ZEROS[opcode]
        if not fields.keys() <= zeros.keys():
            raise ValueError(f"{opcode.name} has no fields {sorted(fields.keys() - zeros.keys())}")
        return cls(opcode, zeros | {name: int(value) for name, value in fields.items()})

    def __getitem__(self, name: str) -> int:
        return self.fields[name]

    @property
    def engine(self) -> Engine | None:
        """The engine that executes it; None for END."""
        return ENGINE_OF.get(self.opcode)

    def encode(self) -> bytes:
        """Return the 32 bytes of the command; ValueError if a field has an illegal value."""
        word = COMMANDS[self.opcode].pack(opcode=self.opcode, **self.fields)
        return word.to_bytes(COMMAND_BYTES, "little")

    def replace(self, **fields: int) -> "Command":
        """Return the command with some fields changed."""
        return Command.make(self.opcode, **(self.fields | fields))


def decode(data: bytes) -> Command:
    """Decode 32 bytes into a command; the inverse of :meth:`Command.encode`.

    ValueError if the opcode, a field or an unused bit is illegal.
    """
    if len(data) != COMMAND_BYTES:
        raise ValueError(f"A command has {COMMAND_BYTES} bytes, not {len(data)}")
    word = int.from_bytes(data, "little")
    opcode = _OPCODES.get(word & 0xF)
    if opcode is None:
        raise ValueError(f"Opcode must be one of {[*_OPCODES]}, not {word & 0xF}")
    layout = COMMANDS[opcode]
    values = layout.unpack(word)
    if (why := layout.problem(values)) is not None:
        raise ValueError(why)
    if word >> layout.width:
        raise ValueError(f"{layout.name} has bits set beyond bit {layout.width - 1}")
    del values["opcode"]
    return Command(opcode, values)


def illegal_combination(command: Command, config: Config) -> str | None:
    """Say why fields that are legal each are illegal together on a machine, or return None.

    The dispatcher checks the same and raises a FIELD fault.
    """
    if command.opcode == Opcode.VECTOR:
        return _illegal_vector(command, config)
    if command.opcode != Opcode.CONV:
        return None
    depthwise, byte_step = command["depthwise"], command["byte_step"]
    if byte_step > config.array_size:
        return f"CONV.byte_step must be at most {config.array_size}, not {byte_step}"
    if byte_step and (depthwise or command["inner"] != Axis.X):
        return "CONV with a byte_step must not be depthwise and must have inner x"
    if depthwise and command["blocks"] != 1:
        return f"CONV.blocks must be 1 if depthwise, not {command['blocks']}"
    if depthwise and command["drain"] == Drain.RAW:
        return "CONV must not drain raw if depthwise"
    if depthwise and command["drain"] != Drain.KEEP and config.lanes < config.array_size:
        return "CONV must keep its sums if depthwise: there are too few requantizer lanes"
    if command["transposed"] and (why := _illegal_transposed(command, config)) is not None:
        return why
    if command["int4"] and (why := _illegal_int4(command, config)) is not None:
        return why
    if command["digit"] and not command["int16"]:
        return "CONV.digit must be 0 without int16"
    return _illegal_int16(command, config) if command["int16"] else None


def _illegal_transposed(command: Command, config: Config) -> str | None:
    if not config.has_transposed_tiles:
        return "CONV.transposed must be 0 without transposed_tiles"
    if command["depthwise"] or command["byte_step"] or command["int16"]:
        return "CONV with transposed must have neither depthwise, a byte_step, nor int16"
    return None


def _illegal_int4(command: Command, config: Config) -> str | None:
    if not config.int4:
        return "CONV.int4 must be 0 without int4"
    if command["depthwise"] or command["byte_step"] or command["transposed"]:
        return "CONV with int4 must have neither depthwise, a byte_step, nor transposed"
    if zero_point := command["weight_zero_point"]:
        return f"CONV.weight_zero_point must be 0 with int4, not {zero_point}"
    return None


def _illegal_int16(command: Command, config: Config) -> str | None:
    if not config.int16:
        return "CONV.int16 must be 0 without int16"
    if command["depthwise"] or command["byte_step"] or command["inner"] != Axis.X:
        return "CONV with int16 must have neither depthwise nor a byte_step, and inner x"
    if command["drain"] == Drain.RAW:
        return "CONV must not drain raw with int16"
    if command["stride_x"] > PAIR_STRIDE:
        return f"CONV.stride_x must be at most {PAIR_STRIDE} with int16, not {command['stride_x']}"
    odd = [name for name in ("columns", "acc_row") if command[name] % 2]
    return f"CONV.{odd[0]} must be even with int16, not {command[odd[0]]}" if odd else None


def _illegal_vector(command: Command, config: Config) -> str | None:
    operation, tail = VectorOp(command["operation"]), command["tail"]
    if operation not in operations(config):
        most = VectorOp.NORM - 1
        return f"VECTOR.operation must be at most {most} without softmax, not {operation:d}"
    if tail and not (config.has_softmax and tail < config.array_size):
        return f"VECTOR.tail must be 0, or less than {config.array_size} with softmax, not {tail}"
    return None


def operations(config: Config) -> tuple[VectorOp, ...]:
    """Return the operations of a machine's vector path."""
    return tuple(VectorOp)[: None if config.has_softmax else VectorOp.NORM]


def dense(
    *, m: int, k_tiles: int, act_row: int = 0, act_pitch: int = 0, drain: int = 0, **fields: int
) -> dict[str, int]:
    """Return the fields of a CONV that multiplies M vectors by a column of weight tiles.

    Parameters
    ----------
    m, k_tiles : int
        Vectors, and weight tiles along K.
    act_row, act_pitch : int
        Row of vector 0 of k-tile 0, and rows from a k-tile's activations to the next k-tile's.
    drain : int
        What happens after the last k-tile; output vectors lie one after the other.
    """
    return {
        "rows": 1,
        "columns": m,
        "stride_y": 1,
        "stride_x": 1,
        "act_row": act_row,
        "act_block_pitch": act_pitch,
        "height": 1,
        "width": m,
        "blocks": k_tiles,
        "kernel_rows": 1,
        "kernel_columns": 1,
        "dilation_y": 1,
        "dilation_x": 1,
        "drain": drain,
        "out_step": RAW_ROWS if drain == Drain.RAW else 1,
        **fields,
    }


def disassemble(command: Command) -> str:
    """Return one line of text: the opcode, then the fields that are not zero.

    Examples
    --------
    >>> disassemble(Command.make(Opcode.LOAD, signal=4, lines=1, rows=16, window=1))
    'LOAD    signal=MXU window=1 lines=1 rows=16'
    """
    words = [f"{name}={value}" for name, value in named_fields(command).items()]
    return f"{command.opcode.name:<8}{' '.join(words)}".rstrip()


def named_fields(command: Command) -> dict[str, int | str]:
    """Return the fields that are not zero: numbers, and names where they stand for something.

    Examples
    --------
    >>> named_fields(Command.make(Opcode.LOAD, signal=4, lines=1, rows=16, window=1))
    {'signal': 'MXU', 'window': 1, 'lines': 1, 'rows': 16}
    """
    names: dict[str, int | str] = {}
    for name, value in command.fields.items():
        if not value:
            continue
        if name in ("wait", "signal"):
            names[name] = "|".join(engine.name for engine in Engine if value >> engine & 1)
        elif (enum := _field(command.opcode, name).enum) is not None:
            names[name] = enum(value).name.lower()
        else:
            names[name] = int(value)
    return names


def _field(opcode: Opcode, name: str) -> Field:
    return next(field for field in COMMANDS[opcode].fields if field.name == name)
