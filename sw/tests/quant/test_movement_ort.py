"""Operators of ONNX that move data, between convolutions: bits are those of ONNX Runtime.

``TPULITE_SWEEP=400`` draws so many cases of each.
"""

import os

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
from onnx import helper

from tpulite.quant.partition import HostSegment, MachineSegment
from tpulite_testing.files.onnx_builder import OnnxBuilder
from tpulite_testing.oracles.model_tensors import equals_library

CASES = max(2, int(os.environ.get("TPULITE_SWEEP", "40")) // 10)
MODES = [
    ("asymmetric", "floor"),
    ("half_pixel", "round_prefer_floor"),
    ("half_pixel", "round_prefer_ceil"),
    ("pytorch_half_pixel", "floor"),
    ("align_corners", "round_prefer_floor"),
    ("asymmetric", "ceil"),
]


class Draw:
    """A network that grows; the tensor that is moved has shape [1, channels, height, width]."""

    def __init__(self, seed):
        self.rng, self.b = np.random.default_rng(seed), OnnxBuilder()
        self.channels = int(self.rng.choice([4, 8, 12, 16, 32, 36, 64]))
        self.height, self.width = (int(n) for n in self.rng.integers(2, 9, 2))
        x = self.b.quantize(self.b.input("x", (1, 3, self.height, self.width)), 0.0517, -7)
        self.x = self.conv(x, 3, self.channels)

    def conv(self, x, inputs, outputs):
        weight = self.rng.integers(-127, 128, (outputs, inputs, 1, 1)).astype(np.int8)
        y = self.b.node("Conv", x, self.b.weight(weight, 0.00713 / inputs**0.5))
        return self.b.quantize(y, 0.0517, -7)

    def integer(self, low, high):
        return int(self.rng.integers(low, high + 1))


def cut(draw):
    begin = [draw.integer(0, n - 1) for n in (draw.channels, draw.height, draw.width)]
    steps = [1, int(draw.rng.choice([1, 1, 2, -1])), 1]
    ends = [1000, -1000 if steps[1] < 0 else 1000, draw.width]
    arrays = (np.array(each, np.int64) for each in (begin, ends, [1, 2, 3], steps))
    return [(draw.b.node("Slice", draw.x, *arrays), draw.channels - begin[0])]


def split(draw):
    axis = draw.integer(1, 3)
    extent = (draw.channels, draw.height, draw.width)[axis - 1]
    first = draw.integer(1, extent - 1)
    sizes = draw.b.constant(np.array([first, extent - first], np.int64))
    node = helper.make_node("Split", [draw.x, sizes], ["p", "q"], axis=axis)
    draw.b.nodes.append(node)
    depths = [first, extent - first] if axis == 1 else [draw.channels] * 2
    return list(zip("pq", depths, strict=True))


def resize(draw):
    places, nearest = MODES[draw.integer(0, len(MODES) - 1)]
    modes = {"coordinate_transformation_mode": places, "nearest_mode": nearest, "mode": "nearest"}
    factors = [draw.integer(1, 3), draw.integer(1, 3)]
    scales = np.array([1, 1, *factors], np.float32)
    if draw.integer(0, 1):
        size = np.array([1, draw.channels, draw.integer(1, 20), draw.integer(1, 20)], np.int64)
        return [(draw.b.node("Resize", draw.x, "", "", size, **modes), draw.channels)]
    return [(draw.b.node("Resize", draw.x, "", scales, **modes), draw.channels)]


def tile(draw):
    counts = np.array([1, draw.integer(1, 2), draw.integer(1, 3), draw.integer(1, 3)], np.int64)
    return [(draw.b.node("Tile", draw.x, counts), draw.channels * int(counts[1]))]


def depth_to_space(draw):
    mode = ["DCR", "CRD"][draw.integer(0, 1)]
    y = draw.b.node("DepthToSpace", draw.x, blocksize=2, mode=mode)
    return [(y, draw.channels // 4)]


def space_to_depth(draw):
    twice = draw.b.node("Tile", draw.x, np.array([1, 1, 2, 2], np.int64))
    return [(draw.b.node("SpaceToDepth", twice, blocksize=2), draw.channels * 4)]


def pad(draw):
    mode = ["reflect", "edge"][draw.integer(0, 1)]
    around = [draw.integer(0, 1) for _ in range(4)]
    pads = np.array([0, 0, *around[:2], 0, 0, *around[2:]], np.int64)
    return [(draw.b.node("Pad", draw.x, pads, mode=mode), draw.channels)]


def gather(draw):
    chosen = draw.rng.integers(-draw.channels, draw.channels, draw.integer(1, 20))
    return [(draw.b.node("Gather", draw.x, chosen, axis=1), len(chosen))]


def shuffle(draw):
    shape, groups = (draw.channels, draw.height, draw.width), int(draw.rng.choice([2, 4]))
    apart = np.array([1, groups, draw.channels // groups, *shape[1:]], np.int64)
    y = draw.b.quantize(draw.b.node("Reshape", draw.x, apart), 0.0517, -7)
    y = draw.b.quantize(draw.b.node("Transpose", y, perm=[0, 2, 1, 3, 4]), 0.0517, -7)
    return [(draw.b.node("Reshape", y, np.array([1, *shape], np.int64)), draw.channels)]


OPERATORS = {
    f.__name__: f
    for f in (cut, split, resize, tile, depth_to_space, space_to_depth, pad, gather, shuffle)
}


@pytest.mark.parametrize("op", OPERATORS)
def test_moved_between_convolutions(tmp_path, op):
    for seed in range(CASES):
        draw = Draw(seed)
        parts = OPERATORS[op](draw)
        outputs = [
            draw.conv(draw.b.quantize(y, 0.0517, -7), n, draw.integer(1, 20)) for y, n in parts
        ]
        model = equals_library(tmp_path, draw.b.build(*outputs), "ort")
        sides = [type(segment) for segment in model.segments]
        assert sides == [HostSegment, MachineSegment, HostSegment], f"seed {seed}"
