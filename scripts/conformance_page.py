"""The page that says how each test went."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from conformance_cases import EXCLUDED, REQUIREMENT

_RESULTS = {
    "exact": "the result that the test expects, bit for bit",
    "equal": "float tests. On the machine: the test is quantized with its own data, and all "
    "elements "
    "equal those that ONNX Runtime computes from the same quantized file, operator by "
    "operator in float. On the CPU: the expected values within 0.1 %",
    "one step": "as `equal`, but some elements differ by one quantization step of the output",
    "library": "the result of ONNX Runtime, which differs from what the test expects",
    "not supported": "the file is refused, import names an operator as unsupported, or ONNX "
    "Runtime does not "
    "run the test either",
    "failed": "a wrong result, or a file that is accepted and then fails to compile or run",
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
    machine = sum(row.where not in ("", "CPU") for row in rows)
    names = {"golden": "the golden model", "rtl": "the Verilated chip"}
    lines = [
        "# Conformance",
        "",
        f"The node tests of ONNX (from the wheel of `{REQUIREMENT}`) for the supported "
        "operators, on",
        f"{' and '.join(names[device] for device in devices)}. "
        "`python scripts/conformance.py` writes this page.",
        "",
        "Parameters of a test (weights, scales, bounds) are constants, as they are in a network.",
        f"A float test fails if quantization changes its output by more than {poor:.0%} of its "
        "largest",
        "magnitude, or if an element differs by more than one quantization step from what ONNX",
        "Runtime computes from the same quantized file.",
        "",
        f"{len(rows)} tests, {machine} of them on the machine:",
        "",
        "| result | tests | meaning |",
        "| --- | --- | --- |",
        *(f"| {result} | {counts[result]} | {text} |" for result, text in _RESULTS.items()),
        "",
        "Tests whose names contain one of the following are not run: "
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
