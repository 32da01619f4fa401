"""Names of what commands say: engines, opcodes, operations, forms."""

from enum import IntEnum


class Engine(IntEnum):
    """The engines. Each has a queue and executes its commands in order."""

    LOAD = 0  #: DMA, DRAM to unified buffer
    STORE = 1  #: DMA, unified buffer to DRAM
    MXU = 2  #: systolic array with the drain path of the VPU
    VPU = 3  #: vector path of the VPU

    __hash__ = int.__hash__  # that of Enum is slow


class Opcode(IntEnum):
    """The commands. Zero is not a valid opcode, so cleared memory is not a program."""

    LOAD = 1
    STORE = 2
    CONV = 3
    VECTOR = 4
    END = 15

    __hash__ = int.__hash__  # that of Enum is slow


class Drain(IntEnum):
    """The destination of the sums after the last k-tile of a CONV."""

    KEEP = 0  #: the sums stay in the accumulator buffer
    REQUANTIZE = (
        1  #: bias, requantize, zero point, clamp; N int8 per vector into the unified buffer
    )
    RAW = 2  #: N int32 per vector, little-endian, in four rows of the unified buffer


class RecordForm(IntEnum):
    """The layout of the channel records of an n-block in the unified buffer."""

    FULL = 0  #: N records of 16 bytes, in 16 rows
    SHORT = 1  #: one record for all channels, padded to whole rows, then N int32 biases in 4 rows


class Axis(IntEnum):
    """An axis of a feature map."""

    X = 0  #: columns
    Y = 1  #: rows


class VectorOp(IntEnum):
    """The operation of the vector path, which computes each channel of an output vector.

    NORM and SHARE implement softmax, on machines that support it. NORM reduces all channels of a
    window to a ``Norm``, which divides by their sum (:func:`tpulite.arch.numerics.reciprocal`);
    SHARE reads it. ``words`` are 256 integers of 32 bits, one for each difference from m.

    ``requantize`` is :func:`tpulite.arch.numerics.requantize` with a channel record. Parameters
    are stored from ``param_row`` on, each part padded to whole rows.
    """

    COPY = 0  #: a
    MAX = 1  #: maximum over the window of a
    SUM = 2  #: requantize(sum over the window of a); parameters: one record
    ADD = 3  #: requantize(scaled(a) + scaled(b)); parameters: OPERANDS, one record
    SUB = 4  #: requantize(scaled(a) - scaled(b)); parameters: OPERANDS, one record
    MUL = 5  #: requantize((a - a_zero_point) * (b - b_zero_point)); OPERANDS, one record
    AFFINE = 6  #: requantize(gain * a); parameters: N records in 16 rows
    LUT = 7  #: table[a + 128]; parameters: 256 bytes
    NORM = 8  #: norm of b's maximum m and the sum of words[m - a] over window and channels; words
    SHARE = 9  #: requantize(words[m - a]) by multiplier and shift of b, a norm; words, one record


class Scaling(IntEnum):
    """The scaling of ADD and SUB, where ``x`` is an operand minus its zero point."""

    TFLITE = 0  #: TFLITE rounding of ``(x << 20) * multiplier * 2**(-31 - shift)``
    EXACT = 1  #: ``x * multiplier``, wrapping at int32; the shift is ignored
