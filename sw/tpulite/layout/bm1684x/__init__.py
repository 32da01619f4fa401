"""Weights of a convolution as Sophgo's BM1684X reads them, in both directions.

What goes where follows from a :class:`ConvSpec`. An int8 convolution becomes one coefficient tensor
of requantization, bias and filter, described by a :class:`Manifest`; the floating types become a
filter and a bias of their own.

The formulas are those of Sophgo's note on the weight layout of the BM1684X, for machines of any
size, and corrected where tensors of the vendor's compiler show otherwise: channels are dealt out to
the lanes one by one, slots of requantization are aligned but the last one is not padded, and its
third word is the zero point of the output.
"""

from tpulite.layout.bm1684x.bfloat16 import from_bfloat16, to_bfloat16
from tpulite.layout.bm1684x.coefficients import (
    Coefficients,
    pack_coefficients,
    unpack_coefficients,
)
from tpulite.layout.bm1684x.filters import pack_bias, pack_filter, unpack_bias, unpack_filter
from tpulite.layout.bm1684x.manifest import Manifest
from tpulite.layout.bm1684x.spec import BM1684X, ConvSpec, Fold, Geometry, choose_fold

__all__ = [
    "BM1684X",
    "Coefficients",
    "ConvSpec",
    "Fold",
    "Geometry",
    "Manifest",
    "choose_fold",
    "from_bfloat16",
    "pack_bias",
    "pack_coefficients",
    "pack_filter",
    "to_bfloat16",
    "unpack_bias",
    "unpack_coefficients",
    "unpack_filter",
]
