"""Whether a program computes its network: both in terms, compared output by output."""

from collections.abc import Sequence

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.arch.memory import PAGE_BYTES, Window, WindowBinding
from tpulite.golden.layers import interpret
from tpulite.golden.validation.execution import TermMachine
from tpulite.golden.validation.terms import Array, Terms
from tpulite.graph.layers import LayerGraph
from tpulite.layout import pack_activations, unpack_activations
from tpulite.program import Program
from tpulite.tensor_spec import TensorSpec

_DIGITS = 4
"""Bytes of a position in a tensor."""


def validate(layers: LayerGraph, program: Program, *, seed: int = 0) -> list[str]:
    """Find outputs of a program that are not, for all inputs, those of its network.

    Commands are executed one after the other, which is legal if :func:`tpulite.golden.check.check`
    finds nothing. Nothing is taken from the compiler but the program.

    Parameters
    ----------
    seed : int
        Of the random numbers that stand for what is not known. A program that is wrong passes with
        a probability below 2**-30; then not with another seed.

    Returns
    -------
    list of str
        What differs; empty if the program computes the network.

    Raises
    ------
    NotImplementedError
        If terms cannot express an operation: softmax.
    """
    terms, config = Terms(seed), program.config
    windows, size = _windows(program)
    dram = terms.unknown(size)
    start = windows[Window.CONSTANTS].base
    dram[start : start + len(program.constants)] = np.frombuffer(program.constants, np.int8)
    given = {}
    for spec in program.inputs:
        shape = layers.activations[spec.name].shape
        given[spec.name] = terms.unknown(program.batch, *shape)
        place = windows[spec.window].base + spec.offset
        seen = given[spec.name]
        seen = terms.flip(seen) if spec.name in layers.unsigned else seen
        dram[place : place + spec.nbytes(config)] = _packed(seen, spec, config)

    machine = TermMachine(config, windows, dram, terms)
    for index, command in enumerate(program.commands):
        try:
            if command.opcode != Opcode.END:
                machine.execute(command)
        except ValueError as error:
            return [f"Command {index} {command.opcode.name}: {error}"]

    found = []
    for number in range(program.batch):
        images = {name: values[number] for name, values in given.items()}
        expected = interpret(layers, images, terms)
        for spec in program.outputs:
            wanted = expected[spec.name]
            wanted = terms.words(wanted) if spec.dtype == "int32" else wanted
            place = windows[spec.window].base + spec.offset
            data = dram[place : place + spec.nbytes(config)]
            got = _unpacked(data, spec, config).reshape(program.batch, *wanted.shape)[number]
            got = terms.flip(got) if spec.name in layers.unsigned else got
            wrong = np.argwhere(got != wanted)
            if wrong.size:
                at = wrong[0].tolist()
                found.append(f"Image {number} of {spec.name!r}: {len(wrong)} terms, first {at}")
    return found


def compare_layers(before: LayerGraph, after: LayerGraph, *, seed: int = 0) -> list[str]:
    """Find outputs of rewritten layers that are not, for all inputs, those of the layers before.

    Parameters
    ----------
    before, after : LayerGraph
        Networks with the same inputs and outputs.
    seed : int
        As for :func:`validate`, as are the list that is returned and the error.
    """
    terms = Terms(seed)
    inputs = {name: terms.unknown(*before.activations[name].shape) for name in before.inputs}
    old, new = (interpret(layers, inputs, terms) for layers in (before, after))
    wrong = {name: np.argwhere(old[name] != new[name]) for name in before.outputs}
    return [
        f"Layers of {name!r} as rewritten: {len(places)} terms, first {places[0].tolist()}"
        for name, places in wrong.items()
        if places.size
    ]


def _windows(program: Program) -> tuple[list[WindowBinding], int]:
    """Bind the windows one after the other."""
    windows, base = [], 0
    for size in program.window_bytes:
        windows.append(WindowBinding(base=base, size=size, read=True, write=True))
        base += -(-size // PAGE_BYTES) * PAGE_BYTES
    return windows, base


def _places(count: int) -> Sequence[np.ndarray]:
    """Return the digits of positions, as bytes."""
    digits = np.arange(count, dtype="<u4").view(np.uint8).reshape(-1, _DIGITS)
    return [np.ascontiguousarray(digits[:, i]) for i in range(_DIGITS)]


def _packed(values: Array, spec: TensorSpec, config: Config) -> Array:
    """Lay terms out as bytes are: where an element goes is found by packing its position."""

    def packed(digit: np.ndarray) -> np.ndarray:
        return pack_activations(digit.view(spec.dtype).reshape(spec.shape), spec, config)

    digits = _places(values.size)
    index = sum(packed(digit).astype(np.int64) << 8 * i for i, digit in enumerate(digits))
    zeros, ones = (packed(np.full(values.size, x, np.uint8)) for x in (0, 255))
    return np.where(zeros == ones, zeros.view(np.int8), values.reshape(-1)[index * (zeros != ones)])


def _unpacked(data: Array, spec: TensorSpec, config: Config) -> Array:
    """Return the terms of a tensor, the bytes of an int32 along a last axis."""
    index: Array = np.zeros(1, np.int64)
    for i, digit in enumerate(_places(data.size)):
        values = unpack_activations(digit, spec, config)
        values = np.ascontiguousarray(values)[..., None].view(np.uint8)
        index = index + (values.astype(np.int64) << 8 * i)
    return data[index if spec.dtype == "int32" else index[..., 0]]
