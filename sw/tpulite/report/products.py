"""Which blocks of its matrices each command of a dense layer multiplies."""

from collections.abc import Sequence
from dataclasses import dataclass

from tpulite.arch.isa import Command, Drain
from tpulite.program import LayerInfo, Program


@dataclass(frozen=True)
class Product:
    """A command that adds products of blocks to accumulators.

    Blocks are as wide as the array, and counted from 1: on a machine of 16 x 16, A2 are the second
    16 channels of the input, and W2,1 the weights from these to the first 16 outputs.
    """

    index: int  #: Which command of the program it is.
    layer: str  #: The layer.
    inner: range  #: Blocks of input channels.
    outer: int  #: Block of outputs.
    accumulators: range  #: Rows of the accumulators.
    #: Whether the accumulators begin with it, and are drained behind it.
    first: bool
    last: bool

    @property
    def blocks(self) -> str:
        """The product in the words of matrices: ``A2 W2,1``, or ``A1..9 W1..9,1`` of several."""
        begin, end = self.inner[0], self.inner[-1]
        inner = f"{begin}" if begin == end else f"{begin}..{end}"
        return f"A{inner} W{inner},{self.outer}"

    @property
    def position(self) -> str:
        """Where it stands in its sum."""
        if self.first:
            return "first and last" if self.last else "first"
        return "last" if self.last else "middle"


def dense_products(program: Program) -> list[Product]:
    """Return the products of all dense layers whose rows go through the array together.

    A layer that is cut into rows, or has a kernel, has none here.
    """
    return [product for layer in program.layers for product in _of_layer(layer, program)]


def _of_layer(layer: LayerInfo, program: Program) -> list[Product]:
    """Return the products of a layer, none unless they are each block of weights once."""
    commands = [(index, program.commands[index]) for index in layer.commands]
    if not layer.k or not all(_is_dense(command, layer) for _, command in commands):
        return []
    size, pitch = program.config.array_size, commands[0][1]["act_block_pitch"]
    begin = min(command["act_row"] for _, command in commands)
    outer = _outer_blocks([command for _, command in commands])
    products = []
    for (index, command), block in zip(commands, outer, strict=True):
        start = (command["act_row"] - begin) // pitch + 1 if pitch else 1
        products.append(
            Product(
                index,
                layer.name,
                range(start, start + command["blocks"]),
                block,
                range(command["acc_row"], command["acc_row"] + layer.m),
                not command["accumulate"],
                command["drain"] != Drain.KEEP,
            )
        )
    tiles = sorted((inner, each.outer) for each in products for inner in each.inner)
    rows, columns = (-(-extent // size) for extent in (layer.k, layer.n))
    wanted = [(i, j) for i in range(1, rows + 1) for j in range(1, columns + 1)]
    return products if tiles == wanted else []


def _is_dense(command: Command, layer: LayerInfo) -> bool:
    """Return whether a command multiplies all rows of a layer, each as a pixel."""
    kernel = command["kernel_rows"], command["kernel_columns"]
    whole = command["rows"] * command["columns"] == layer.m
    return kernel == (1, 1) and whole and not command["depthwise"]


def _outer_blocks(commands: Sequence[Command]) -> list[int]:
    """Return the block of outputs of each command, by where its accumulators are drained to.

    It is 0 if that is not told by these commands alone.
    """
    owner: dict[int, int] = {}
    drained: dict[int, int] = {}
    sums = []
    for number, command in enumerate(commands):
        if not command["accumulate"]:
            owner[command["acc_row"]] = number
        sums.append(owner.get(command["acc_row"], -1))
        if command["drain"] != Drain.KEEP:
            drained[sums[-1]] = command["out_row"]
    order = sorted(drained.values())
    return [order.index(drained[each]) + 1 if each in drained else 0 for each in sums]
