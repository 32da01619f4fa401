"""Pooling layers in C."""

from itertools import product

import numpy as np

from tpulite.compiler.bind.network import Network
from tpulite.compiler.geometry.closed_forms import Number, ceil_div, least
from tpulite.compiler.operators.pool import Pooling
from tpulite.compiler.operators.shapes import Shape
from tpulite.compiler.plan.strategy import Strategy
from tpulite.export.c_text import Code, array, define
from tpulite.export.ranges.operator_text import OperatorText, axis_fields, bytes_text

_MOST_RECORDS = 1024
"""Sizes of windows that C can tell apart; each has a record of its own."""

_KINDS = {"rows": 0, "block": 0, "lone block": 0, "panel": 1, "lone panel": 1}


def pool_text(operator: Pooling, network: Network) -> OperatorText:
    """Return a pooling layer in C; ValueError if its windows may have too many sizes."""
    facts, layer = operator.facts, operator.layer
    y, x = facts.y, facts.x
    sizes: list[int] = []
    if layer.op == "average":
        sides = range(1, y.kernel + 1), range(1, x.kernel + 1)
        sizes = sorted({high * wide for high, wide in product(*sides)})
        if len(sizes) > _MOST_RECORDS:
            raise ValueError(
                f"{layer.title} cannot be bound in C: its windows have {len(sizes)} sizes, and C "
                f"tells {_MOST_RECORDS} apart"
            )
    records = [operator.record(size) for size in sizes or [1]] if layer.op != "max" else []
    values = {
        **operator.fields,
        "operation": int(operator.fields["operation"]),
        "y": axis_fields(y),
        "x": axis_fields(x),
        "record_rows": facts.record_rows,
        "records": Code("records" if records else "NULL"),
        "record_count": len(records),
        "record_bytes": len(records[0]) if records else 0,
        "window_sizes": Code("window_sizes" if sizes else "NULL"),
    }
    text = bytes_text("records", b"".join(records)) if records else ""
    if sizes:
        text += "static " + array("uint16_t", "window_sizes", np.array(sizes)) + "\n"
    text += define("static const tpulite_pool", "facts", values)

    def commands(strategy: Strategy, shape: Shape) -> Number:
        found = strategy.sizes
        rows, columns = y.outputs(shape.height), x.outputs(shape.width)
        # Windows of one size: clipped ones are alone; and slabs and panels are cut.
        down = shape.batch * least(rows, y.clipped + 1) + found["slabs"]
        across = least(columns, x.clipped + 1) + found["panels"]
        tiles = found["slabs"] * found["panels"] * found["groups"]
        blocks = ceil_div(shape.channels, network.config.array_size)
        return 2 * tiles + down * across * blocks + 1

    return OperatorText("tpulite_bind_pool", text, _KINDS, sum(map(len, records)), commands)
