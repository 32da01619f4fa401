"""Layouts of weights and matrices for other machines and for ours.

Weights of a whole network as Sophgo's BM1684X reads them, from a network to files and back::

    from tpulite import layouts

    layout = layouts.lay_out("net.tflite")
    print(layout)  # a row for each layer
    layouts.write(layout, "out")
    same = layouts.read("out")
    same["conv_2d_0"].filter  # as the network has it, [oc, ic, kh, kw]

One convolution, without a network, is :func:`pack_coefficients` and :func:`unpack_coefficients`
for int8, :func:`pack_filter` and :func:`unpack_filter` for all types; sizes and offsets are those
of :class:`Manifest`. docs/sources/weight-layouts.md shows all of it.

Operands of a matrix product in panels of 8, 4 and 1, as ncnn packs them, and in tiles of our
array::

    a, b = layouts.pack_panels(A), layouts.pack_panels(B.T)
    layouts.multiply_panels(a, b)  # A @ B, panel by panel

docs/sources/packed-gemm.md shows them; :func:`draw_panels` and :func:`draw_tiles` draw them.
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
from tpulite.layout.panel_products import (
    fixed_stride_elements,
    multiply_panels,
    panel_products,
)
from tpulite.layout.panels import (
    NARROW,
    WIDE,
    PackedPanels,
    PackedTiles,
    pack_panels,
    pack_tiles,
    panel_index,
    panel_rows,
    unpack_panels,
    unpack_tiles,
)
from tpulite.layouts.files import describe, read, write
from tpulite.layouts.layer import Layer, Requant
from tpulite.layouts.layout import Layout, LeftOut
from tpulite.layouts.network import FLOAT_TYPES, lay_out
from tpulite.report.panel_picture import draw_panels, draw_tiles

__all__ = [
    "BM1684X",
    "FLOAT_TYPES",
    "NARROW",
    "WIDE",
    "Coefficients",
    "ConvSpec",
    "Fold",
    "Geometry",
    "Layer",
    "Layout",
    "LeftOut",
    "Manifest",
    "PackedPanels",
    "PackedTiles",
    "Requant",
    "choose_fold",
    "describe",
    "draw_panels",
    "draw_tiles",
    "fixed_stride_elements",
    "from_bfloat16",
    "lay_out",
    "multiply_panels",
    "pack_bias",
    "pack_coefficients",
    "pack_filter",
    "pack_panels",
    "pack_tiles",
    "panel_index",
    "panel_products",
    "panel_rows",
    "read",
    "to_bfloat16",
    "unpack_bias",
    "unpack_coefficients",
    "unpack_filter",
    "unpack_panels",
    "unpack_tiles",
    "write",
]
