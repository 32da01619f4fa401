"""The page that says how each test went."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from conformance_cases import EXCLUDED, REQUIREMENT

__all__ = ["Row", "page"]

_RESULTS = {
    "exact": "the very bits that the test expects",
    "equal": "of a float test on the machine: quantized after training with the test's own data, "
    "all elements are those that ONNX Runtime computes from the same quantized file operator by "
    "operator, in floats; on the host: the expected numbers within 0.1 %",
    "one step": "the same, but for some elements that are one step of the output's scale away",
    "library": "the bits of ONNX Runtime, which are not those that the test expects",
    "not supported": "refused when it is read, an operator that import names as unsupported, or "
    "what ONNX Runtime does not run either",
    "failed": "wrong, or accepted and then not compiled or run",
}


_LONGEST = 160


@dataclass(frozen=True)
class Row:
    """How a test went: where its operators ran (empty if nowhere), the result, and details."""

    test: str
    operator: str
    where: str
    result: str
    reason: str


def page(rows: Sequence[Row], devices: Sequence[str], poor: float) -> str:
    """Return docs/conformance.md."""
    counts = Counter(row.result for row in rows)
    machine = sum(row.where not in ("", "host") for row in rows)
    names = {"golden": "the golden machine", "rtl": "the Verilated chip, with the same bits"}
    lines = [
        "# Conformance",
        "",
        f"The node tests of ONNX (from the wheel of `{REQUIREMENT}`) for the operators that we "
        "claim, on",
        f"{' and '.join(names[device] for device in devices)}. Written by "
        "`python scripts/conformance.py`.",
        "",
        "Parameters of a test (weights, scales, bounds) are constants, as they are in a network.",
        f"A float test fails if quantization changes its output by more than {poor:.0%} of its "
        "largest",
        "magnitude, or if an element is more than one step of the output's scale away from what "
        "ONNX",
        "Runtime computes from the same quantized file.",
        "",
        f"{len(rows)} tests, {machine} of them on the machine:",
        "",
        "| result | tests | meaning |",
        "| --- | --- | --- |",
        *(f"| {result} | {counts[result]} | {text} |" for result, text in _RESULTS.items()),
        "",
        "Not run are tests whose names contain: "
        + "; ".join(f"`{part}` ({why})" for part, why in EXCLUDED.items())
        + ".",
        "",
        "| test | operator | where | result | details |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        reason = row.reason.replace("|", "\\|").replace("\n", " ")
        if len(reason) > _LONGEST:
            reason = reason[:_LONGEST] + "…"
        lines.append(f"| {row.test} | {row.operator} | {row.where} | {row.result} | {reason} |")
    return "\n".join(lines) + "\n"
