"""Programs written by hand that look every byte of a batch of images up in a table."""

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.isa import LUT_BYTES, Command, Opcode, VectorOp
from tpulite.arch.memory import Window
from tpulite.compiler.encode.tokens import insert_tokens
from tpulite.program import Program, TensorSpec

__all__ = ["lut_program"]


def lut_program(
    table: np.ndarray,
    config: Config,
    shape: tuple[int, int, int],
    *,
    batch: int,
    dtype: str = "int8",
    names: tuple[str, str] = ("x", "y"),
) -> Program:
    """Return a program of ``batch`` images, one after the other, in two buffers in turn.

    Parameters
    ----------
    table : ndarray of int8, [256]
        Results for the bytes -128 to 127; those of uint8 tensors are taken as int8.
    config : Config
        The machine; its buffer must hold the table and two images.
    shape : tuple of int
        Height, width and channels of an image.
    batch : int
        Images of a run.
    dtype : str
        ``int8`` or ``uint8``.
    names : tuple of str
        Of the input and of the output.
    """
    height, width, channels = shape
    extents = {"m": height * width, "channels": channels, "dtype": dtype, "image": shape[:2]}
    source = TensorSpec(names[0], Window.INPUT, 32, batch=batch, **extents)
    target = TensorSpec(names[1], Window.OUTPUT, 16, batch=batch, **extents)
    table_rows = LUT_BYTES // config.array_size
    line = {
        "lines": source.blocks(config),
        "rows": source.block_bytes(config) // config.array_size,
        "stride": source.block_bytes(config),
        "pitch": source.block_bytes(config) // config.array_size,
    }
    vectors = line["lines"] * line["rows"]
    commands = [Command.make(Opcode.LOAD, window=Window.CONSTANTS, lines=1, rows=table_rows)]
    for n in range(batch):
        place = table_rows + n % 2 * vectors
        commands += [
            Command.make(
                Opcode.LOAD,
                window=Window.INPUT,
                offset=source.offset_of(n, config),
                row=place,
                **line,
            ),
            Command.make(
                Opcode.VECTOR,
                operation=VectorOp.LUT,
                rows=1,
                columns=vectors,
                window_rows=1,
                window_columns=1,
                a_row=place,
                a_step=1,
                out_row=place,
                out_step=1,
                low=-128,
                high=127,
            ),
            Command.make(
                Opcode.STORE,
                window=Window.OUTPUT,
                offset=target.offset_of(n, config),
                row=place,
                **line,
            ),
        ]
    return Program(
        config,
        insert_tokens((*commands, Command.make(Opcode.END)), config),
        constants=table.tobytes(),
        window_bytes=(LUT_BYTES, 32 + source.nbytes(config), 16 + target.nbytes(config), 0),
        inputs=(source,),
        outputs=(target,),
    )
