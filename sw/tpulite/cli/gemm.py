"""The command ``gemm``: a matrix product in panels and on the machine, in both orders."""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from tpulite.arch.config import Config
from tpulite.arch.isa import Opcode
from tpulite.atomic import write_whole
from tpulite.cli.common import config_option, device_option, is_stdout, json_option, save_json
from tpulite.cli.help import Choice, command, option
from tpulite.cli.paths import OUTPUT
from tpulite.configs import named_config
from tpulite.layout.panel_products import fixed_stride_elements
from tpulite.layout.panels import panel_rows
from tpulite.report.panel_picture import draw_panels, draw_tiles
from tpulite.runtime.product import PRODUCT_ORDERS, Product
from tpulite.runtime.product import gemm as multiply

_SEED = 1

_MOST_ELEMENTS = 2**24
"""Of a matrix: 4096x4096; far less than what memory could hold."""


@command()
@click.argument("size", metavar="MxKxN")
@option(
    "--order",
    type=Choice(PRODUCT_ORDERS),
    help="Loop order: as in the document, or the fastest.  [default: both]",
)
@device_option("golden")
@config_option
@json_option
@option("--panels", type=OUTPUT, help="Write an SVG of A, B and C in panels to this file.")
@option(
    "--tiles", type=OUTPUT, help="Write an SVG of A, B and C in the array's tiles to this file."
)
def gemm(
    size: str,
    order: str | None,
    device: str,
    config_name: str,
    json_path: Path | None,
    panels: Path | None,
    tiles: Path | None,
) -> None:
    """Multiply random int8 matrices: C[M, N] = A[M, K] B[K, N]. Show panels, tiles and cycles.

    To multiply your own matrices, call tpulite.gemm from Python.
    """
    m, k, n = extents = _extents(size)
    config = named_config(config_name)
    rng = np.random.default_rng(_SEED)
    a, b = (rng.integers(-128, 128, shape, np.int8) for shape in ((m, k), (k, n)))
    orders = PRODUCT_ORDERS if order is None else (order,)
    products = {name: multiply(a, b, order=name, device=device, config=config) for name in orders}
    expected = a.astype(np.int32) @ b.astype(np.int32)
    for name, product in products.items():
        assert np.array_equal(product.output, expected), f"{size} in order {name} is wrong"
    for path, picture in (
        (panels, lambda: draw_panels(*extents)),
        (tiles, lambda: draw_tiles(*extents, config)),
    ):
        if path is not None:
            write_whole(path, partial(Path.write_text, data=picture()))
    records = [_record(name, product) for name, product in products.items()]
    save_json(json_path, {"m": m, "k": k, "n": n, "device": device, "orders": records})
    if is_stdout(json_path):
        return
    console = Console()
    for table in (_packed(extents, config), _orders(records, m * k * n, config)):
        console.print(table)
    text = f"device: {device}; every element equals numpy's A @ B"
    console.print(text, highlight=False, markup=False)


def _extents(size: str) -> tuple[int, int, int]:
    parts = size.split("x")
    if len(parts) != 3 or not all(part.isdecimal() and int(part) for part in parts):
        raise ValueError(f"{size!r} is not a size: it must be MxKxN, like 25x64x49")
    m, k, n = map(int, parts)
    if max(m * k, k * n, m * n) > _MOST_ELEMENTS:
        raise ValueError(
            f"{size} is too large: a matrix may have {_MOST_ELEMENTS:,} elements; "
            "give smaller extents, like 256x256x256"
        )
    return m, k, n


def _packed(extents: tuple[int, int, int], config: Config) -> Table:
    """Return how operands are packed, and what that takes."""
    (m, k, n), size = extents, config.array_size
    table = _table("operand", "in", right=("elements", "fixed stride"))
    for name, rows in (("A by rows", m), ("B by columns", n)):
        counts = Counter(len(panel) for panel in panel_rows(rows))
        heights = ", ".join(f"{count} of {height}" for height, count in counts.items())
        stride = fixed_stride_elements(rows, k)
        table.add_row(name, f"panels: {heights}", f"{rows * k:,}", f"{stride:,}")
    tiles = -(-k // size), -(-n // size)
    padded = tiles[0] * tiles[1] * size**2
    table.add_row("B", f"tiles: {tiles[0]} x {tiles[1]} of {size}x{size}", f"{padded:,}")
    return table


def _record(order: str, product: Product) -> dict[str, Any]:
    products = [each for each in product.program.commands if each.opcode == Opcode.CONV]
    return {
        "order": order,
        "products": len(products),
        "rows": max(each["rows"] for each in products),
        "cycles": product.cycles,
        "dram_bytes": product.dram_bytes,
    }


def _orders(records: list[dict[str, Any]], macs: int, config: Config) -> Table:
    """Return what each order takes."""
    right = ("CONVs", "rows at most", "cycles", "MACs/cycle", "DRAM bytes")
    table = _table("order", right=right)
    for record in records:
        order, products, rows, cycles, moved = record.values()
        speed = f"{macs / cycles:.1f} of {config.array_size**2}"
        table.add_row(order, f"{products:,}", str(rows), f"{cycles:,}", speed, f"{moved:,}")
    return table


def _table(*left: str, right: tuple[str, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table
