from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpulite.layout.bm1684x import (
    BM1684X,
    Coefficients,
    ConvSpec,
    Fold,
    Geometry,
    Manifest,
    choose_fold,
    pack_bias,
    pack_coefficients,
    pack_filter,
    unpack_bias,
    unpack_coefficients,
    unpack_filter,
)
from tpulite_testing.oracles.convolutions import (
    ODD,
    OURS,
    SMALL,
    random_coefficients,
    random_filter,
)

FOLDS = {
    "c128": Fold.NONE,
    "g_oc100_ic20": Fold.KH,
    "g_oc40_ic16_1x1": Fold.NONE,
    "g_dw96": Fold.NONE,
    "g_nobias130_ic70": Fold.NONE,
    "g_first32_3": Fold.BOTH,
    "g_5x5": Fold.NONE,
}
"""Folds of the vendor-compiled convolutions."""


def assert_same(actual, expected):
    for name, values in vars(expected).items():
        np.testing.assert_array_equal(getattr(actual, name), values, err_msg=name)


@pytest.fixture(scope="module")
def vendor():
    with np.load(Path(__file__).parent / "data" / "bm1684x_int8_layout.npz") as file:
        return dict(file)


def vendor_case(vendor, case):
    oc, ic, kh, kw = vendor[f"{case}_filter"].shape
    bias = vendor.get(f"{case}_bias")
    spec = ConvSpec(
        oc=oc, ic=ic, kh=kh, kw=kw, depthwise=case == "g_dw96", has_bias=bias is not None
    )
    coefficients = Coefficients(
        filter=vendor[f"{case}_filter"],
        multiplier=vendor[f"{case}_mult"],
        rshift=vendor[f"{case}_rshift"],
        zero_point=np.zeros(oc, np.int32),
        bias=bias,
    )
    return spec, coefficients, vendor[f"{case}_merged"]


@pytest.mark.parametrize("case", FOLDS)
def test_vendor_compiled_tensors_are_met_to_the_byte(vendor, case):
    spec, coefficients, merged = vendor_case(vendor, case)
    assert spec.fold == FOLDS[case]
    assert Manifest.of(spec).shape == (1, merged.shape[0], 1, merged.shape[1])
    np.testing.assert_array_equal(pack_coefficients(coefficients, spec)[0, :, 0], merged)
    assert_same(unpack_coefficients(merged[None, :, None], spec), coefficients)


def test_every_vendor_compiled_tensor_is_tested(vendor):
    assert {name.rpartition("_")[0] for name in vendor} == FOLDS.keys()


@pytest.mark.parametrize(
    ("geometry", "lanes", "expected"),
    [
        (BM1684X, 64, {"slots": 2, "w1": 576, "w2": 1152, "w3": 8, "w4": 76, "w5": 1280}),
        (OURS, 16, {"slots": 8, "w1": 576, "w2": 4608, "w3": 32, "w4": 124, "w5": 4768}),
    ],
)
def test_worked_example(geometry, lanes, expected):
    manifest = Manifest.of(ConvSpec(oc=128, ic=64, kh=3, kw=3, geometry=geometry))
    assert expected.items() <= asdict(manifest).items()
    assert manifest.shape == (1, lanes, 1, expected["w5"])
    assert manifest.nbytes == {64: 81920, 16: 76288}[lanes]


def test_widths_of_16_bit_and_f32_filters():
    assert ConvSpec(oc=8, ic=33, kh=3, kw=3, dtype="bf16").w1 == 2 * 9 * 32
    packed = pack_filter(
        np.zeros((8, 33, 3, 3), np.float32), ConvSpec(oc=8, ic=33, kh=3, kw=3, dtype="f32")
    )
    assert packed.shape == (1, 8, 33, 9)


@pytest.mark.parametrize(
    ("ic", "kh", "kw", "fold"),
    [
        (3, 3, 3, Fold.BOTH),
        (7, 3, 3, Fold.BOTH),
        (8, 3, 3, Fold.KH),
        (21, 3, 3, Fold.KH),
        (22, 3, 3, Fold.NONE),
        (16, 3, 5, Fold.KH),
        (22, 3, 5, Fold.NONE),
        (12, 3, 5, Fold.KW),
        (12, 6, 5, Fold.KW),
        (12, 5, 5, Fold.KH),
        (1, 64, 1, Fold.KH),
        (1, 1, 64, Fold.KW),
        (1, 1, 1, Fold.NONE),
    ],
)
def test_fold_that_the_vendor_chooses(ic, kh, kw, fold):
    assert choose_fold(ic, kh, kw, 64) == ConvSpec(oc=1, ic=ic, kh=kh, kw=kw).fold == fold


def test_only_int8_is_folded_by_itself():
    shape = {"oc": 8, "ic": 1, "kh": 3, "kw": 3}
    assert ConvSpec(**shape).fold == Fold.BOTH
    assert ConvSpec(**shape, depthwise=True).fold == Fold.NONE
    assert ConvSpec(**shape, dtype="f16").fold == Fold.NONE
    assert ConvSpec(**shape, dtype="f16", fold=Fold.KH).fold == Fold.KH


GEOMETRIES = st.builds(
    Geometry, lanes=st.integers(1, 70), parallel=st.integers(1, 70), lane_bytes=st.integers(1, 70)
)


@st.composite
def specs(draw, dtypes=("int8",)):
    geometry, dtype = draw(GEOMETRIES), draw(st.sampled_from(dtypes))
    if dtype in ("bf16", "f16"):
        geometry = replace(geometry, parallel=2 * geometry.parallel)
    depthwise = draw(st.booleans())
    kh, kw = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    ic = 1 if depthwise else draw(st.integers(1, 80))
    parallel = geometry.parallel // (2 if dtype in ("bf16", "f16") else 1)
    folds = [None, Fold.NONE]
    if not depthwise and dtype != "f32":
        folds += [fold for fold in Fold if ic * fold.factor(kh, kw) <= parallel]
    return ConvSpec(
        oc=draw(st.integers(1, 150)),
        ic=ic,
        kh=kh,
        kw=kw,
        dtype=dtype,
        depthwise=depthwise,
        has_bias=draw(st.booleans()),
        fold=draw(st.sampled_from(folds)),
        geometry=geometry,
    )


@given(spec=specs(), seed=st.integers(0, 1 << 32))
def test_coefficients_survive_the_round_trip(spec, seed):
    coefficients = random_coefficients(spec, seed)
    image = pack_coefficients(coefficients, spec)
    assert image.shape == Manifest.of(spec).shape
    assert_same(unpack_coefficients(image, spec), coefficients)


@given(spec=specs(dtypes=("int8", "bf16", "f16", "f32")), seed=st.integers(0, 1 << 32))
def test_filters_survive_the_round_trip(spec, seed):
    values = random_filter(spec, seed)
    packed = pack_filter(values, spec)
    assert packed.dtype == values.dtype
    assert packed.size == spec.oc * spec.w1
    unpacked = unpack_filter(packed, spec)
    assert unpacked.shape == values.shape
    assert unpacked.tobytes() == values.tobytes()


@pytest.mark.parametrize("geometry", [OURS, SMALL, ODD])
@pytest.mark.parametrize("fold", Fold)
@pytest.mark.parametrize("has_bias", [True, False])
def test_every_value_has_its_byte_and_the_rest_is_zero(geometry, fold, has_bias):
    ic = 1 if fold else 11
    spec = ConvSpec(oc=37, ic=ic, kh=2, kw=3, has_bias=has_bias, fold=fold, geometry=geometry)
    check_every_byte(spec)


@pytest.mark.parametrize("geometry", [OURS, ODD])
@pytest.mark.parametrize("oc", [1, 2, 37])
def test_every_value_of_a_depthwise_convolution_has_its_byte(geometry, oc):
    check_every_byte(ConvSpec(oc=oc, ic=1, kh=3, kw=2, depthwise=True, geometry=geometry))


def check_every_byte(spec):
    """Place every value by the formulas, one by one."""
    coefficients, manifest = random_coefficients(spec), Manifest.of(spec)
    n, p, e = vars(spec.geometry).values()
    slots = -(-spec.oc // n)
    bias_off = -(-((slots - 1) * -(-12 // e) * e + 12) // 4) * 4
    filter_off = bias_off + 4 * slots * spec.has_bias
    if not spec.depthwise:
        filter_off = -(-filter_off // e) * e
    expected = np.zeros((min(spec.oc, n), manifest.w5), np.int8)
    for c in range(spec.oc):
        lane, slot = expected[c % n], c // n
        words = (coefficients.multiplier[c], -coefficients.rshift[c], coefficients.zero_point[c])
        requant = slot * -(-12 // e) * e
        lane[requant : requant + 12] = np.array(words, "<i4").view(np.int8)
        if coefficients.bias is not None:
            at = bias_off + 4 * slot
            lane[at : at + 4] = np.array([coefficients.bias[c]], "<i4").view(np.int8)
        for i, y, x in np.ndindex(spec.filter_shape[1:]):
            channel, position, positions = {
                Fold.NONE: (i, y * spec.kw + x, spec.kh * spec.kw),
                Fold.KH: (i * spec.kh + y, x, spec.kw),
                Fold.KW: (i * spec.kw + x, y, spec.kh),
                Fold.BOTH: ((i * spec.kh + y) * spec.kw + x, 0, 1),
            }[spec.folded]
            at = (channel // p * positions + position) * p + channel % p
            if spec.depthwise:
                at = position
            lane[filter_off + slot * manifest.w1 + at] = coefficients.filter[c, i, y, x]
    np.testing.assert_array_equal(pack_coefficients(coefficients, spec)[0, :, 0], expected)


def test_float_bias_survives_the_round_trip():
    spec = ConvSpec(oc=5, ic=3, kh=1, kw=1, dtype="bf16")
    bias = np.arange(5, dtype=np.float32)
    assert pack_bias(bias, spec).shape == (1, 5, 1, 1)
    np.testing.assert_array_equal(unpack_bias(pack_bias(bias, spec), spec), bias)
    with pytest.raises(ValueError, match=r"^Bias must be float32, not uint16$"):
        pack_bias(np.zeros(5, np.uint16), spec)
    with pytest.raises(
        ValueError, match=r"^Only floating filters with a bias have a bias tensor, not int8$"
    ):
        pack_bias(bias, replace(spec, dtype="int8"))
    with pytest.raises(ValueError, match=r"a bias tensor, not no bias$"):
        unpack_bias(bias, replace(spec, has_bias=False))
