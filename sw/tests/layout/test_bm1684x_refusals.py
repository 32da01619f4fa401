from dataclasses import replace

import numpy as np
import pytest

from tpulite.layout.bm1684x import (
    Coefficients,
    ConvSpec,
    Fold,
    Geometry,
    Manifest,
    pack_coefficients,
    pack_filter,
    unpack_coefficients,
    unpack_filter,
)
from tpulite_testing.oracles.convolutions import OURS, SMALL, random_coefficients


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"oc": 0}, r"^oc must be at least 1, not 0$"),
        ({"oc": 2.5}, r"^oc must be an integer, not 2\.5$"),
        ({"kw": -1}, r"^kw must be at least 1, not -1$"),
        ({"dtype": "int4"}, r"^dtype must be one of \[.*\], not 'int4'$"),
        ({"depthwise": True}, r"^ic of a depthwise filter must be 1, not 9$"),
        ({"fold": 4}, r"^fold must be one of \[0, 1, 2, 3\], not 4$"),
        ({"fold": Fold.KW}, r"^Fold KW must give at most 16 channels, not 27$"),
        (
            {"dtype": "f32", "fold": Fold.KH},
            r"^fold of a depthwise or f32 filter must be NONE, not KH$",
        ),
        (
            {"dtype": "f16", "geometry": replace(OURS, parallel=7)},
            r"^parallel \(--ic-parallel\) must be even for f16, not 7$",
        ),
    ],
)
def test_impossible_convolutions_are_refused(changes, message):
    shape = {"oc": 8, "ic": 9, "kh": 3, "kw": 3, "geometry": OURS}
    with pytest.raises(ValueError, match=message):
        ConvSpec(**(shape | changes))


def test_impossible_machines_are_refused():
    with pytest.raises(ValueError, match=r"^lanes must be at least 1, not 0$"):
        Geometry(lanes=0, parallel=64, lane_bytes=64)
    with pytest.raises(ValueError, match=r"^Only int8 filters have a coefficient tensor, not f32$"):
        Manifest.of(ConvSpec(oc=1, ic=1, kh=1, kw=1, dtype="f32"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bias": None}, r"^bias must be given exactly if has_bias, which is True$"),
        ({"rshift": np.zeros(4, np.int32)}, r"^rshift must have shape \(5,\), not \(4,\)$"),
        ({"multiplier": np.zeros(5)}, r"^multiplier must be int32, not float64$"),
        ({"filter": np.zeros((5, 3, 1, 1), np.uint8)}, r"^Filter must be int8, not uint8$"),
        (
            {"filter": np.zeros((5, 3, 1), np.int8)},
            r"^Filter must have shape \(5, 3, 1, 1\), not \(5, 3, 1\)$",
        ),
    ],
)
def test_wrong_coefficients_are_refused(changes, message):
    spec = ConvSpec(oc=5, ic=3, kh=1, kw=1, geometry=SMALL)
    with pytest.raises(ValueError, match=message):
        pack_coefficients(replace(random_coefficients(spec), **changes), spec)


def test_every_byte_of_padding_must_be_zero():
    spec = ConvSpec(oc=5, ic=3, kh=1, kw=1, geometry=SMALL)
    ones = np.full(5, 0x01010101, np.int32)  # no byte of the constants is zero
    image = pack_coefficients(
        Coefficients(
            filter=np.ones((5, 3, 1, 1), np.int8),
            multiplier=ones,
            rshift=-ones,
            zero_point=ones,
            bias=ones,
        ),
        spec,
    )
    padding = np.argwhere(image[0, :, 0] == 0)
    assert len(padding) == image.size - 5 * (12 + 4 + 3)
    for lane, byte in padding:
        broken = image.copy()
        broken[0, lane, 0, byte] = 77
        with pytest.raises(ValueError, match=r"^(Byte|Padding) .* must be 0, not 77"):
            unpack_coefficients(broken, spec)


def test_foreign_tensors_are_refused():
    spec = ConvSpec(oc=5, ic=3, kh=1, kw=1, geometry=SMALL)
    image = pack_coefficients(random_coefficients(spec), spec)
    with pytest.raises(
        ValueError,
        match=r"^Coefficient tensor must have shape \(1, 4, 1, 56\), not \(4, 56\)$",
    ):
        unpack_coefficients(image[0, :, 0], spec)
    with pytest.raises(ValueError, match=r"^Coefficient tensor must be int8, not uint8$"):
        unpack_coefficients(image.view(np.uint8), spec)
    image[0, 3, 0, 13] = 77
    with pytest.raises(ValueError, match=r"^Byte 13 of lane 3 is padding and must be 0, not 77$"):
        unpack_coefficients(image, spec)


def test_padding_of_a_filter_must_be_zero():
    spec = ConvSpec(oc=5, ic=3, kh=1, kw=1, dtype="f16", geometry=SMALL)
    packed = pack_filter(np.ones((5, 3, 1, 1), np.float16), spec)
    packed[0, 2, 0, 3] = -0.0
    with pytest.raises(
        ValueError,
        match=r"^Padding of the packed filter must be 0, not -0.0 as in output channel 2$",
    ):
        unpack_filter(packed, spec)
