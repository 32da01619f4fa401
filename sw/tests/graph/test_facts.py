"""What layers say of themselves holds of what they compute."""

import numpy as np
import pytest

from tpulite.golden.layers import run_layer
from tpulite.graph import layers as families
from tpulite.graph.layers import (
    Affine,
    Concat,
    Conv,
    DepthToSpace,
    Depthwise,
    Elementwise,
    Filter,
    Layer,
    Lut,
    MatMul,
    Pad,
    Pick,
    Pool,
    Requantization,
    Reshape,
    Softmax,
    Transpose,
    TransposedConv,
)

SHAPE = (4, 4, 4)
SAME = Requantization(multiplier=np.array([1 << 30]), shift=np.array([1]))
ONE = {"name": "l", "inputs": ("x",), "output": "y"}
TWO = ONE | {"inputs": ("x", "z")}
SUM = {"requantization": SAME, "zero_points": (0, 0)}
KERNEL = np.where(np.arange(9 * 16) % 2, 2, -1).astype(np.int8).reshape(3, 3, 4, 4)
WHOLE = tuple(range(4))

LAYERS = [
    Conv(weight=KERNEL, requantization=SAME, padding=(1, 1, 1, 1), **ONE),
    Conv(weight=KERNEL[:1, :1], requantization=None, stride=(2, 1), **ONE),
    TransposedConv(
        weight=KERNEL, requantization=SAME, stride=(2, 2), padding=(0, 0), size=(9, 9), **ONE
    ),
    Depthwise(weight=KERNEL[..., 0], requantization=SAME, **ONE),
    Depthwise(weight=KERNEL[:1, :1, :, 0], requantization=SAME, **ONE),
    MatMul(requantization=SAME, **TWO),
    MatMul(requantization=SAME, transposed=True, **TWO),
    Transpose(**ONE),
    *(Elementwise(op=op, **SUM, **TWO) for op in ("mul", "max")),
    *(Pool(op=op, window=(2, 3), **ONE) for op in ("max", "average")),
    Affine(gain=np.array([2, 3, -1, 1], np.int16), requantization=SAME, **ONE),
    Lut(table=np.arange(127, -129, -1).astype(np.int8), **ONE),
    Softmax(words=(2.0 ** (30 - np.arange(256) / 8)).astype(np.int32), **ONE),
    Pad(padding=(1, 0, 0, 2), value=3, **ONE),
    *(Concat(axis=axis, **TWO) for axis in (0, 1, 2)),
    Pick(rows=WHOLE, columns=(2, 1), channels=(3, 1), **ONE),
    DepthToSpace(block=(2, 1), channels=2, **ONE),
]


def images(layer: Layer, rng: np.random.Generator) -> list[np.ndarray]:
    """Return small numbers, so that no clamp hides a change."""
    return [rng.integers(-4, 5, SHAPE).astype(np.int8) for _ in layer.inputs]


def reached(layer: Layer, where: tuple[slice | int, ...]) -> np.ndarray:
    """Return what changes of the output, in some runs, if part of all inputs does."""
    rng, changed = np.random.default_rng(0), np.zeros((), bool)
    for _ in range(20):
        before = images(layer, rng)
        after = [x.copy() for x in before]
        for x, other in zip(after, images(layer, rng), strict=True):
            x[where] = other[where]
        changed = changed | (run_layer(layer, *before) != run_layer(layer, *after))
    return changed


def identify(layer: Layer) -> str:
    return type(layer).__name__


def test_every_family_is_here():
    every = (getattr(families, name) for name in families.__all__)
    known = {x for x in every if isinstance(x, type) and issubclass(x, Layer)}
    assert known - {Layer, Filter, Reshape} == {type(layer) for layer in LAYERS}


@pytest.mark.parametrize("layer", LAYERS, ids=identify)
def test_a_channel_depends_on_the_channels_that_a_layer_says(layer):
    depends = np.array([reached(layer, (..., c)).any(axis=(0, 1)) for c in range(SHAPE[2])])
    if layer.by_channel:
        assert (depends == np.eye(SHAPE[2], dtype=bool)).all()
    if layer.mixes_channels:
        assert depends.all()
    assert not (layer.by_channel and layer.mixes_channels)


@pytest.mark.parametrize("layer", LAYERS, ids=identify)
def test_a_layer_that_may_overwrite_its_input_computes_each_vector_from_that_of_its_place(layer):
    if layer.in_place:
        changed = reached(layer, (1, 2)).any(axis=2)
        assert changed.shape == SHAPE[:2]
        assert np.argwhere(changed).tolist() == [[1, 2]]


@pytest.mark.parametrize("layer", LAYERS, ids=identify)
def test_windows_of_single_pixels_read_no_others(layer):
    if layer.windows is not None and layer.windows.single:
        assert np.argwhere(reached(layer, (1, 2)).any(axis=2)).tolist() == [[1, 2]]


@pytest.mark.parametrize("layer", LAYERS, ids=identify)
def test_channels_that_are_apart_can_be_computed_alone(layer):
    if not layer.channels_apart:
        return
    some, given = slice(2, 4), images(layer, np.random.default_rng(1))
    read = [x if layer.mixes_channels and not i else x[..., some] for i, x in enumerate(given)]
    alone = run_layer(layer.of_channels(some), *read)
    assert np.array_equal(alone, run_layer(layer, *given)[..., some])


@pytest.mark.parametrize("layer", LAYERS, ids=identify)
def test_a_layer_reads_its_channels_where_they_are(layer):
    order = np.array([5, 0, 3, 2])
    new = layer.reading(order, 6)
    if new is None:
        assert not isinstance(layer, Conv)
        return
    (x,) = images(layer, np.random.default_rng(2))
    wide = np.full((*SHAPE[:2], 6), 9, np.int8)
    wide[..., order] = x
    assert np.array_equal(run_layer(new, wide), run_layer(layer, x))
