"""Weights of a whole network as another machine reads them: Sophgo's BM1684X.

From a network to files and back::

    from tpulite import layouts

    layout = layouts.lay_out("net.tflite")
    print(layout)  # a row for each layer
    layouts.write(layout, "out")
    same = layouts.read("out")
    same["conv_2d_0"].filter  # as the network has it, [oc, ic, kh, kw]

One convolution, without a network, is :func:`pack_coefficients` and :func:`unpack_coefficients`
for int8, :func:`pack_filter` and :func:`unpack_filter` for all types; sizes and offsets are those
of :class:`Manifest`. docs/sources/weight-layouts.md shows all of it.
"""

from tpulite.layout.bm1684x import (
    BM1684X,
    Coefficients,
    ConvSpec,
    Fold,
    Geometry,
    Manifest,
    choose_fold,
    from_bfloat16,
    pack_bias,
    pack_coefficients,
    pack_filter,
    to_bfloat16,
    unpack_bias,
    unpack_coefficients,
    unpack_filter,
)
from tpulite.layouts.files import describe, read, write
from tpulite.layouts.layer import Layer, Requant
from tpulite.layouts.layout import Layout, LeftOut
from tpulite.layouts.network import FLOAT_TYPES, lay_out

__all__ = [
    "BM1684X",
    "FLOAT_TYPES",
    "Coefficients",
    "ConvSpec",
    "Fold",
    "Geometry",
    "Layer",
    "Layout",
    "LeftOut",
    "Manifest",
    "Requant",
    "choose_fold",
    "describe",
    "from_bfloat16",
    "lay_out",
    "pack_bias",
    "pack_coefficients",
    "pack_filter",
    "read",
    "to_bfloat16",
    "unpack_bias",
    "unpack_coefficients",
    "unpack_filter",
    "write",
]
