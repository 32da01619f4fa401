"""float32 to bfloat16, against the ml_dtypes of ONNX."""

import numpy as np
import pytest

from tpulite.layouts import from_bfloat16, to_bfloat16


def test_every_half_and_its_neighbors_round_as_ml_dtypes_do():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    for lower in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
        values = (upper | lower).view(np.float32)
        bits, numbers = to_bfloat16(values), ~np.isnan(values)
        expected = values[numbers].astype(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(bits[numbers], expected.view(np.uint16))
        assert np.isnan(from_bfloat16(bits[~numbers])).all()


def test_bits_survive_the_way_to_float32_and_back():
    bits = np.arange(1 << 16, dtype=np.uint16).reshape(256, 256)
    values = from_bfloat16(bits)
    numbers = ~np.isnan(values)
    np.testing.assert_array_equal(to_bfloat16(values)[numbers], bits[numbers])
    assert values[0x3F, 0x80] == 1.0 and values.shape == bits.shape


def test_other_types_are_refused():
    with pytest.raises(ValueError, match=r"^Values must be float32, not float64$"):
        to_bfloat16(np.zeros(1))
    with pytest.raises(ValueError, match=r"^Bits must be uint16, not int16$"):
        from_bfloat16(np.zeros(1, np.int16))
