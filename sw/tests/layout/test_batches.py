"""Batches in DRAM: images one after the other, each as if it were alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpulite.arch.config import Config
from tpulite.arch.memory import Window
from tpulite.layout import pack_activations, unpack_activations
from tpulite.program import PackedRows, Program, TensorSpec

CONFIGS = st.sampled_from([Config(array_size=n) for n in (4, 8, 16, 32)])


@st.composite
def specs(draw, *, packed_rows):
    """Draw specs of batches: matrices or images of all dtypes, or images in packed rows."""
    height, width = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    channels, batch = draw(st.integers(1, 40)), draw(st.integers(1, 5))
    dtype = draw(st.sampled_from(["int8", "uint8"] if packed_rows else ["int8", "uint8", "int32"]))
    image = (height, width) if packed_rows or draw(st.booleans()) else None
    rows = None
    if packed_rows:
        fill = draw(st.integers(0, 127))
        rows = PackedRows(
            draw(st.integers(1, 9)), draw(st.integers(0, 1)), fill, draw(st.booleans())
        )
    lines = height * width
    if rows is not None:
        lines = width if rows.transposed else height
    return TensorSpec("x", Window.INPUT, 48, lines, channels, dtype, image, rows, batch)


def draw_images(spec):
    limits, rng = np.iinfo(spec.dtype), np.random.default_rng(spec.channels)
    shape = (spec.batch, *spec.one.shape)
    return rng.integers(limits.min, limits.max, shape, spec.dtype, endpoint=True)


@given(spec=st.one_of(specs(packed_rows=False), specs(packed_rows=True)), config=CONFIGS)
def test_images_lie_one_after_the_other(spec, config):
    images = draw_images(spec)
    packed = pack_activations(images.reshape(spec.shape), spec, config)
    alone = [pack_activations(image, spec.one, config) for image in images]
    np.testing.assert_array_equal(packed, np.concatenate(alone))
    assert packed.size == spec.nbytes(config) == spec.batch * spec.one.nbytes(config)
    assert spec.one == replace(spec, batch=1)
    for n, one in enumerate(alone):
        start = spec.offset_of(n, config) - spec.offset
        assert start % 16 == 0
        np.testing.assert_array_equal(packed[start : start + one.size], one)


@given(spec=specs(packed_rows=False), config=CONFIGS)
def test_batches_survive_the_round_trip(spec, config):
    images = draw_images(spec).reshape(spec.shape)
    packed = pack_activations(images, spec, config)
    np.testing.assert_array_equal(unpack_activations(packed, spec, config), images)


def test_a_batch_is_an_axis_in_front():
    spec = TensorSpec("x", Window.INPUT, 0, m=6, channels=4, image=(2, 3))
    assert spec.shape == (2, 3, 4)
    assert replace(spec, batch=5).shape == (5, 2, 3, 4)
    assert replace(spec, batch=5, image=None).shape == (5, 6, 4)
    # Images of a shape bound later lie pixel by pixel in each block; that is no batch.
    assert replace(spec, image=(1, 2, 3)).shape == (1, 2, 3, 4)


def test_wrong_batches_are_refused():
    spec = TensorSpec("x", Window.INPUT, 0, m=6, channels=4, image=(2, 3), batch=2)
    message = r"^Tensor 'x' must have shape \(2, 2, 3, 4\), not \(3, 2, 3, 4\)$"
    with pytest.raises(ValueError, match=message):
        pack_activations(np.zeros((3, 2, 3, 4), np.int8), spec, Config())
    with pytest.raises(ValueError, match=r"^Tensor 'x' must have 192 bytes, not 96$"):
        unpack_activations(np.zeros(96, np.uint8), spec, Config())
    with pytest.raises(ValueError, match=r"^Tensor 'x' must have a batch of 1 or more: 0$"):
        replace(spec, batch=0)
    packed_rows = replace(spec, m=2, packed_rows=PackedRows(1, 0, 0))
    with pytest.raises(
        ValueError, match=r"^Tensor 'x' is stored as packed rows, and cannot be read"
    ):
        unpack_activations(np.zeros(64, np.uint8), packed_rows, Config())


@given(spec=st.one_of(specs(packed_rows=False), specs(packed_rows=True)))
def test_program_files_keep_batches(tmp_path_factory, spec):
    path = tmp_path_factory.mktemp("batch") / "program"
    output = replace(spec, name="y", window=Window.OUTPUT, packed_rows=None)
    program = Program(Config(), (), inputs=(spec,), outputs=(output,))
    program.save(path)
    assert Program.load(path) == program
    assert program.batch == spec.batch
