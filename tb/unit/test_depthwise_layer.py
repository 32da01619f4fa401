"""A whole depthwise layer on the matrix unit, group by group and pass by pass."""

import random
from dataclasses import dataclass

import cocotb
import numpy as np
import pytest
from conv_model import ConvModel
from mxu_bench import CONFIGS, MatrixBench, config_of

from tpulite.arch.isa import Axis, Command, Drain, Opcode, dense
from tpulite_rtl.mxu.matrix_unit import MatrixUnit
from tpulite_tb.harness import simulate
from tpulite_testing.regress import thinned

KERNEL, PADDING, SIZE = 5, 2, 8  # a 5 x 5 kernel over an 8 x 8 image
TILES, OUTPUT = 256, 1024


@dataclass(frozen=True)
class _Cut:
    """How the layer is cut: rows of a group, and kernel rows and columns of a pass."""

    group: int
    rows: int
    columns: int


CUTS = {  # so that (columns - 1) R + rows is at most N
    (4, 1): _Cut(1, 2, 2), (4, 2): _Cut(1, 1, 3),
    (8, 1): _Cut(1, 2, 3), (8, 2): _Cut(1, 3, 2),
    (16, 1): _Cut(2, 2, 5), (16, 2): _Cut(2, 3, 3),
}  # fmt: skip


def _slice(offset: int) -> tuple[int, int, int]:
    """Return padding, first position and length of an axis that begins at an offset."""
    if offset >= SIZE:
        return 31, 0, 1  # nothing but padding
    return max(-offset, 0), max(offset, 0), SIZE - max(offset, 0)


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(stride=[1, 2], refuse=[0.0, 0.3])
async def convolves_in_passes(dut, stride: int, refuse: float) -> None:
    """Passes accumulate; the sums equal those of the whole kernel, which no command has seen."""
    config = config_of(dut)
    n = config.array_size
    cut = CUTS[n, stride]
    outputs = SIZE // stride
    rng = np.random.default_rng(random.getrandbits(64))
    model = ConvModel(config)
    image = rng.integers(-128, 128, (SIZE, SIZE, n), np.int8)
    kernel = rng.integers(-128, 128, (KERNEL, KERNEL, n))
    zero_point, weight_zero_point = random.randrange(-128, 128), random.randrange(-128, 128)
    model.buffer[: SIZE * SIZE] = image.reshape(-1, n).view(np.uint8)

    # The tiles of the passes, then one of zeros, which only fetches the sums.
    length = (cut.group - 1) * stride + cut.rows
    tiles = []
    for top in range(0, KERNEL, cut.rows):
        for left in range(0, KERNEL, cut.columns):
            part = kernel[top : top + cut.rows, left : left + cut.columns]
            tile = np.full((n, n), weight_zero_point)
            for ky in range(part.shape[0]):
                for kx in range(part.shape[1]):
                    tile[length * kx + ky] = part[ky, kx]
            tiles.append((top, left, tile))
    tiles.append((0, 0, np.full((n, n), weight_zero_point)))
    for index, (_, _, tile) in enumerate(tiles):
        model.buffer[TILES + n * index :][:n] = tile.astype(np.int8).view(np.uint8)

    commands = []
    common = {"pad": zero_point, "weight_zero_point": weight_zero_point, "prefetch": 1}
    for group in range(0, outputs, cut.group):
        for index, (top, left, _) in enumerate(tiles[:-1]):
            pad_top, y, height = _slice(group * stride + top - PADDING)
            pad_left, x, width = _slice(left - PADDING)
            window = {
                "depthwise": 1, "inner": Axis.Y, "blocks": 1, "act_row": SIZE * y + x,
                "act_pitch": SIZE, "height": height, "width": width, "pad_top": pad_top,
                "pad_left": pad_left, "rows": cut.group, "columns": outputs, "stride_y": stride,
                "stride_x": stride, "dilation_y": 1, "dilation_x": 1, "kernel_rows": cut.rows,
                "kernel_columns": cut.columns, "weight_row": TILES + n * index,
                "acc_row": group * outputs, "accumulate": index > 0,
            }  # fmt: skip
            commands.append(Command.make(Opcode.CONV, **common, **window))
    fetch = dense(m=outputs * outputs, k_tiles=1, drain=Drain.RAW, out_row=OUTPUT, accumulate=1)
    zeros = {"weight_row": TILES + n * (len(tiles) - 1)}
    commands.append(Command.make(Opcode.CONV, **(common | fetch | zeros)))
    bench = MatrixBench(dut, model, refuse=refuse, late=0)
    await bench.execute(commands)

    padded = np.full((SIZE + KERNEL, SIZE + KERNEL, n), zero_point)
    padded[PADDING : PADDING + SIZE, PADDING : PADDING + SIZE] = image
    expected = [
        ((kernel - weight_zero_point) * padded[y : y + KERNEL, x : x + KERNEL]).sum((0, 1))
        for group in range(0, outputs, cut.group)
        for x in range(0, SIZE, stride)
        for y in range(group * stride, (group + cut.group) * stride, stride)
    ]
    assert [row for row, _ in bench.buffer.written] == list(
        range(OUTPUT, OUTPUT + 4 * outputs * outputs)
    )
    sums = np.frombuffer(b"".join(data for _, data in bench.buffer.written), "<i4")
    assert (sums.reshape(-1, n) == np.stack(expected)).all()


@pytest.mark.parametrize(
    "config",
    thinned(CONFIGS, "4", reason="larger arrays repeat columns, and take minutes on Icarus"),
)
def test_depthwise_layer(config: str) -> None:
    simulate(MatrixUnit(CONFIGS[config]), __file__, name=f"depthwise_layer_{config}")
