"""Machines and random constants of convolutions."""

import numpy as np

from tpulite.layout.bm1684x import Coefficients, Geometry

OURS = Geometry(lanes=16, parallel=16, lane_bytes=16)
SMALL = Geometry(lanes=4, parallel=8, lane_bytes=8)
ODD = Geometry(lanes=5, parallel=7, lane_bytes=5)


def random_coefficients(spec, seed=0):
    """Return random constants for a convolution."""
    rng = np.random.default_rng(seed)

    def words():
        return rng.integers(-1 << 31, 1 << 31, spec.oc, np.int32)

    return Coefficients(
        filter=rng.integers(-128, 128, spec.filter_shape, np.int8),
        multiplier=words(),
        rshift=words(),
        zero_point=words(),
        bias=words() if spec.has_bias else None,
    )


def random_filter(spec, seed=0):
    """Return a filter of random bits: of floating types NaNs and infinities are among them."""
    size = int(np.prod(spec.filter_shape)) * spec.storage.itemsize
    bits = np.random.default_rng(seed).bytes(size)
    return np.frombuffer(bits, spec.storage).reshape(spec.filter_shape)
