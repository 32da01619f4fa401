"""Patches of pixels as the host packs them, against loops over pixels."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tpulite.arch.config import Config
from tpulite.arch.memory import Window
from tpulite.layout import pack_activations
from tpulite.program import PackedRows, Patches, Program, TensorSpec

PAIRS = st.tuples(st.integers(1, 5), st.integers(1, 5))


@st.composite
def specs(draw):
    """Draw an image of patches; perhaps their rows are packed."""
    dtype = draw(st.sampled_from(["int8", "uint8"]))
    patches = Patches(
        count=draw(PAIRS),
        size=draw(PAIRS),
        step=draw(PAIRS),
        pad=draw(st.tuples(st.integers(0, 3), st.integers(0, 3))),
        fill=draw(st.integers(0, 127)),
    )
    packed_rows, vectors = None, patches.count[0] * patches.count[1]
    if draw(st.booleans()):
        packed_rows = PackedRows(
            draw(st.integers(1, 9)),
            draw(st.integers(0, 1)),
            fill=patches.fill,
            transposed=draw(st.booleans()),
        )
        vectors = patches.count[packed_rows.transposed]
    return TensorSpec(
        "x",
        Window.INPUT,
        0,
        m=vectors,
        channels=draw(st.integers(1, 5)),
        dtype=dtype,
        image=(draw(st.integers(1, 9)), draw(st.integers(1, 9))),
        packed_rows=packed_rows,
        batch=draw(st.integers(1, 2)),
        patches=patches,
    )


def patch(image, patches, y, x):
    """Return the channels of a patch, pixel by pixel."""
    found = []
    for row, column in np.ndindex(*patches.size):
        at = (
            y * patches.step[0] + row - patches.pad[0],
            x * patches.step[1] + column - patches.pad[1],
        )
        inside = 0 <= at[0] < image.shape[0] and 0 <= at[1] < image.shape[1]
        found += list(image[at]) if inside else [patches.fill] * image.shape[2]
    return found


@given(spec=specs(), n=st.sampled_from([4, 8, 16, 32]))
def test_patches_hold_the_pixels_that_they_say(spec, n):
    config, patches = Config(array_size=n), spec.patches
    limits, rng = np.iinfo(spec.dtype), np.random.default_rng(spec.channels)
    images = rng.integers(limits.min, limits.max, spec.shape, spec.dtype, endpoint=True)
    packed = pack_activations(images, spec, config).view(spec.dtype)
    assert packed.size == spec.nbytes(config)
    packed = packed.reshape(spec.batch, -1)
    images = images.reshape(spec.batch, *spec.one.shape)
    for b, y, x in np.ndindex(spec.batch, *patches.count):
        expected = patch(images[b], patches, y, x)
        if spec.packed_rows is None:
            blocks = packed[b].reshape(spec.blocks(config), -1)
            m = y * patches.count[1] + x
            found = blocks[:, m * n : (m + 1) * n].reshape(-1)[: len(expected)]
        else:
            line, place = (x, y) if spec.packed_rows.transposed else (y, x)
            rows = packed[b][: spec.m * spec.packed_rows.vectors * n].reshape(spec.m, -1)
            start = (spec.packed_rows.pad + place) * len(expected)
            found = rows[line, start : start + len(expected)]
            expected = expected[: len(found)]
        assert list(found) == expected


@given(spec=specs())
def test_program_files_keep_patches(tmp_path_factory, spec):
    path = tmp_path_factory.mktemp("patches") / "program"
    program = Program(Config(), (), inputs=(spec,))
    program.save(path)
    assert Program.load(path) == program
