"""Readable text of the choice between the compiled program and the bound one."""

from tpulite.compiler.dump.text import columns, short
from tpulite.compiler.state import BoundChoice


def bound_text(choice: BoundChoice) -> str:
    """Return which program is taken, and a line for each layer as it would be bound."""
    taken = "compiled" if choice.program is None else "bound to the shape"
    lines = f"taken: {taken}\n"
    if choice.compiled is not None:
        lines += f"compiled: {choice.compiled:,} cycles\n"
    if choice.plan is None:
        return f"{lines}bound: the network cannot be bound to its shape\n"
    if choice.bound is None:
        lines += f"bound: not made, the closed forms say {choice.plan.cycles:,} cycles\n"
    else:
        lines += f"bound: {choice.bound:,} cycles\n"
    rows = [
        (
            short(each.node.layer.name),
            each.strategy.name,
            f"{each.row:,}",
            f"{each.strategy.sizes['tile_rows']:,}",
            f"{each.strategy.cycles:,}",
        )
        for each in choice.plan.layers
    ]
    heads = ("layer", "strategy", "at row", "rows", "cycles")
    return f"{lines}\n{columns(heads, rows, right=(2, 3, 4))}"
