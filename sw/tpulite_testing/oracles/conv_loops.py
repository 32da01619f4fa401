"""CONV in plain loops over the image, and random CONVs to compare it with."""

import random

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.isa import RAW_ROWS, Axis, Command, Drain
from tpulite.golden.machine.datapath import Datapath
from tpulite_testing.compiling.programs import conv

SIZES = [4, 8, 16]
OUT = 2048
"""Row of the first output; the image, the weights and the records lie below."""


class Reference:
    """A CONV in plain loops: what it reads, in order, and what each output vector is.

    ``sums`` maps (oy, ox) to N sums; ``outputs`` are (oy, ox) in the order of issue, and ``done``
    says how many reads there were when each of them was complete.
    """

    def __init__(self, buffer: np.ndarray, command: Command, size: int) -> None:
        self.buffer = buffer.view(np.int8).astype(np.int64)
        self.command = command
        self.size = size
        self.reads: list[int] = []
        self.sums: dict[tuple[int, int], np.ndarray] = {}
        self.outputs: list[tuple[int, int]] = []
        self.done: list[int] = []
        if command["depthwise"]:
            self._depthwise()
        else:
            self._normal()

    def _vector(self, block: int, y: int, x: int) -> np.ndarray:
        c = self.command
        if not (0 <= y < c["height"] and 0 <= x < c["width"]):
            return np.full(self.size, c["pad"])
        row = c["act_row"] + block * c["act_block_pitch"] + y * c["act_pitch"] + x
        self.reads.append(row)
        return self.buffer[row]

    def _tile(self, number: int) -> np.ndarray:
        first = self.command["weight_row"] + number * self.size
        if self.command["int4"]:
            return self._int4_tile(self.command["weight_row"] + number * self.size // 2)
        rows = self.buffer[first : first + self.size] - self.command["weight_zero_point"]
        return rows.T if self.command["transposed"] else rows

    def _int4_tile(self, first: int) -> np.ndarray:
        """Return a tile of int4, of which a byte holds two that are below each other."""
        tile = np.zeros((self.size, self.size), np.int64)
        for k, n in np.ndindex(*tile.shape):
            nibble = int(self.buffer[first + k // 2, n]) >> 4 * (k % 2) & 15
            tile[k, n] = nibble - 16 if nibble >= 8 else nibble
        return tile

    def _region(self) -> list[tuple[int, int]]:
        c = self.command
        if c["inner"] == Axis.X:
            return [(oy, ox) for oy in range(c["rows"]) for ox in range(c["columns"])]
        return [(oy, ox) for ox in range(c["columns"]) for oy in range(c["rows"])]

    def _normal(self) -> None:
        c, number = self.command, 0
        for block in range(c["blocks"]):
            for ky in range(c["kernel_rows"]):
                for kx in range(c["kernel_columns"]):
                    self.outputs, self.done = [], []
                    if c["transposed"]:
                        first = c["weight_row"] + number * self.size
                        self.reads += range(first, first + self.size)
                    for oy, ox in self._region():
                        y = oy * c["stride_y"] + ky * c["dilation_y"] - c["pad_top"]
                        x = kx * c["dilation_x"] - c["pad_left"]
                        if c["byte_step"]:
                            place = ox * c["byte_step"]
                            pair = [
                                self._vector(block, y, x + place // self.size + i) for i in (0, 1)
                            ]
                            first = place % self.size
                            vector = np.concatenate(pair)[first : first + self.size]
                        else:
                            vector = self._vector(block, y, x + ox * c["stride_x"])
                        sums = self.sums.setdefault((oy, ox), np.zeros(self.size, np.int64))
                        sums += vector @ self._tile(number)
                        self.outputs.append((oy, ox))
                        self.done.append(len(self.reads))
                    number += 1

    def _depthwise(self) -> None:
        c = self.command
        x_inner = c["inner"] == Axis.X
        vx = (c["columns"] - 1) * c["stride_x"] + c["kernel_columns"]
        vy = (c["rows"] - 1) * c["stride_y"] + c["kernel_rows"]
        interleaved, outer = (vx, vy) if x_inner else (vy, vx)
        taps, places = {}, []
        # With delay lines the rows of the tile are 3 or 5 apart, wherever the vectors are.
        inner = c["kernel_columns"] if x_inner else c["kernel_rows"]
        lines = (c["kernel_rows"] if x_inner else c["kernel_columns"]) == 3
        lines = lines and self.size >= 16 and inner in (3, 5)
        late = lines and self.size // 2 - 2 <= interleaved - inner <= 31
        pitch = inner if late else interleaved
        for ky in range(c["kernel_rows"]):
            for kx in range(c["kernel_columns"]):
                o, i = (ky, kx) if x_inner else (kx, ky)
                if pitch * o + i < self.size:
                    taps[ky, kx] = pitch * o + i
                    places.append(interleaved * o + i)
        complete = {}
        for oy, ox in self._region():
            y, x = oy * c["stride_y"], ox * c["stride_x"]
            first = y * interleaved + x if x_inner else x * interleaved + y
            complete[first + max(places)] = oy, ox
        vectors = {}
        for o in range(outer):
            for i in range(interleaved):
                y, x = (o, i) if x_inner else (i, o)
                vectors[y, x] = self._vector(
                    0, y * c["dilation_y"] - c["pad_top"], x * c["dilation_x"] - c["pad_left"]
                )
                if o * interleaved + i in complete:
                    self.outputs.append(complete[o * interleaved + i])
                    self.done.append(len(self.reads))
        for oy, ox in self.outputs:
            self.sums[oy, ox] = sum(
                vectors[oy * c["stride_y"] + ky, ox * c["stride_x"] + kx] * self._tile(0)[row]
                for (ky, kx), row in taps.items()
            )


def filled(config: Config, seed: int) -> Datapath:
    """Return a machine with random bytes in its buffer."""
    datapath = Datapath(config)
    rng = np.random.default_rng(seed)
    datapath.buffer[:] = rng.integers(0, 256, datapath.buffer.shape)
    return datapath


def draw(rng: random.Random, size: int, mode: str) -> Command:
    """Draw a small CONV of random shape; its image lies from row 0 on, its output from OUT on."""
    height, width = rng.choice([(rng.randint(1, 7), rng.randint(1, 7)), (21, 21)])
    pitch = width + rng.randint(0, 2)
    blocks = 1 if mode == "depthwise" else rng.randint(1, 2)
    rows, columns = rng.randint(1, 5), rng.randint(1, 6)
    drain = rng.choice([Drain.RAW, Drain.KEEP] if mode != "depthwise" else [Drain.KEEP])
    step = RAW_ROWS + rng.randint(0, 1)
    fields = {
        "height": height, "width": width, "act_pitch": pitch,
        "act_block_pitch": height * pitch + rng.randint(0, 3),
        "act_row": rng.randint(0, 9), "blocks": blocks, "rows": rows, "columns": columns,
        "stride_y": rng.randint(1, 3), "stride_x": rng.randint(1, 3),
        "dilation_y": rng.randint(1, 3), "dilation_x": rng.randint(1, 3),
        "kernel_rows": rng.randint(1, 5), "kernel_columns": rng.randint(1, 5),
        "pad_top": rng.choice([0, 0, rng.randint(1, 4)]),
        "pad_left": rng.choice([0, 0, rng.randint(1, 4)]),
        "pad": rng.randint(-128, 127), "weight_zero_point": rng.choice([0, rng.randint(-128, 127)]),
        "weight_row": 1024, "acc_row": rng.randint(0, 7), "inner": rng.choice(list(Axis)),
        "drain": drain, "out_row": OUT, "out_step": step, "out_pitch": columns * step + 1,
    }  # fmt: skip
    if mode == "dense":
        fields |= {"byte_step": rng.randint(1, size), "inner": Axis.X}
    if mode == "int4":
        fields["weight_zero_point"] = 0
    modes = {name: mode == name for name in ("depthwise", "transposed", "int4")}
    return conv(**modes, **fields)
