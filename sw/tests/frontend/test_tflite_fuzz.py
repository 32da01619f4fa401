"""Damaged files give a graph or a ValueError, never anything else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from tpulite.frontend.tflite.file import load_tflite
from tpulite.graph.passes import simplify
from tpulite_testing.files.tflite_builder import Builder
from tpulite_testing.hostile.corpus import operators


def network() -> bytes:
    b = Builder()
    y = b.unary("SOFTMAX", operators(b), 1 / 256, -128, options_type="SoftmaxOptions", beta=1.0)
    shape = b.tensor((2,), dtype="int32")
    b.operator("SHAPE", [y], [shape])
    last = b.tensor((), dtype="int32")
    begin, end, step = (b.constant(np.int32([n])) for n in (1, 2, 1))
    slicing = {"options_type": "StridedSliceOptions", "shrinkAxisMask": 1}
    b.operator("STRIDED_SLICE", [shape, begin, end, step], [last], **slicing)
    pack = b.tensor((2,), dtype="int32")
    b.operator("PACK", [b.constant(np.int32(1)), last], [pack], options_type="PackOptions")
    z = b.tensor(b.shape(y), 1 / 256, -128)
    b.operator("RESHAPE", [y, pack], [z])
    return b.build(z, pack)


WHOLE = network()


def survives(data: bytes) -> None:
    try:
        simplify(load_tflite(data))
    except ValueError as error:
        assert str(error)


def test_the_whole_file_is_read():
    ops = [node.op for node in simplify(load_tflite(WHOLE)).nodes]
    assert ops == ["conv", "depthwise", "add", "pad", "max_pool", "concat", "mean", "softmax"]


def test_truncations():
    for length in [*range(64), *range(64, len(WHOLE), 5)]:
        survives(WHOLE[:length])


def test_every_byte_replaced():
    for i in range(len(WHOLE)):
        value = (0x00, 0x01, 0x7F, 0x80, 0xFF)[i % 5]
        survives(WHOLE[:i] + bytes([value]) + WHOLE[i + 1 :])


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=2))
def test_several_bytes_replaced(changes):
    data = bytearray(WHOLE)
    for position, value in changes:
        data[position] = value
    survives(bytes(data))


@given(st.binary(max_size=200))
def test_noise_behind_the_identifier(noise):
    survives(WHOLE[:8] + noise)
