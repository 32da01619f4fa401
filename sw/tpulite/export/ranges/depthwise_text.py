"""Depthwise convolutions in C."""

from tpulite.arch.isa import CONV, Axis, Drain
from tpulite.compiler.bind.network import Network
from tpulite.compiler.geometry.closed_forms import Number, ceil_div, least, most
from tpulite.compiler.operators.depthwise import DepthwiseFilter
from tpulite.compiler.operators.shapes import Shape
from tpulite.compiler.plan.depthwise import FINENESS, stays
from tpulite.compiler.plan.depthwise_pattern import Pattern
from tpulite.compiler.plan.strategy import Strategy
from tpulite.export.c_text import Code, define, table
from tpulite.export.ranges.operator_text import OperatorText, axis_fields, bytes_text

_WIDEST = CONV.limit("width")

_KINDS = {
    f"{kind} {axis.name}": int(not stays(kind))
    for kind in (
        *(f"{kind}{part}" for kind in ("resident", "streamed") for part in FINENESS),
        *("paired", "lone"),
    )
    for axis in Axis
}


def depthwise_text(operator: DepthwiseFilter, network: Network) -> OperatorText:
    """Return a depthwise convolution in C."""
    facts, config = operator.facts, network.config
    weights, x = facts.weights, facts.x
    text = bytes_text("constants", operator.constants)
    for number, pattern in enumerate(weights.patterns):
        text += table("tpulite_taps", f"taps_{number}", pattern.taps.table.T.tolist())
    patterns = [_pattern(pattern, number) for number, pattern in enumerate(weights.patterns)]
    text += table("tpulite_pattern", "patterns", patterns)
    values = {
        "y": axis_fields(facts.y),
        "x": axis_fields(x),
        "patterns": Code("patterns"),
        "at_once": int(facts.at_once),
        "form": int(weights.form),
        "drain": int(Drain.REQUANTIZE),
        "input_zero": operator.zero_points[0],
        "weight_zero": operator.zero_points[1],
        "blocks": facts.blocks,
        "accumulators": config.acc_rows,
        "widest": _WIDEST,
        "banks": config.ub_banks,
        "record_rows": weights.record_rows,
        "zeros": weights.zeros,
        "constants": Code("constants"),
        "constants_bytes": len(operator.constants),
    }
    text += define("static const tpulite_depthwise", "facts", values)

    def commands(strategy: Strategy, shape: Shape) -> Number:
        found = strategy.sizes
        pattern = weights.patterns[found["pattern"]]
        rows, width = shape.batch * facts.y.outputs(shape.height), x.outputs(shape.width)
        widest = least((_WIDEST - x.reach) // x.stride + 1, config.acc_rows)
        along_rows = pattern.inner == Axis.Y
        across = ceil_div(width, widest) if along_rows else pattern.parts(width, widest)
        lines = most(config.acc_rows // ceil_div(width, across), 1)
        if along_rows:  # outputs are cut into parts of the fewest that any cut has
            lines = least(lines, pattern.few)
        regions = (found["slabs"] + shape.batch + ceil_div(rows, lines)) * across
        return facts.blocks * (regions * (len(pattern.taps) + 1) + 4 * found["slabs"]) + 1

    size = len(operator.constants)
    return OperatorText("tpulite_bind_depthwise", text, _KINDS, size, commands, passes=facts.blocks)


def _pattern(pattern: Pattern, number: int) -> dict[str, object]:
    return {
        "inner": int(pattern.inner),
        "along_rows": int(pattern.inner == Axis.Y),
        "most": pattern.most,
        "few": pattern.few,
        "many": pattern.many,
        "numbers": pattern.numbers,
        "offset": pattern.offset,
        "taps": Code(f"taps_{number}"),
        "tap_count": len(pattern.taps),
        "step": pattern.step,
    }
