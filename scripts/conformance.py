"""Run the node tests of ONNX on the machine and write docs/conformance.md.

python scripts/conformance.py                 golden machine, writes the page
python scripts/conformance.py --device rtl    the Verilated chip as well; its bits must be equal
python scripts/conformance.py --only conv     prints some tests, writes nothing
"""

import argparse
import fnmatch
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.progress import track

from conformance_cases import Case, bind, find_cases
from conformance_page import Row, page
from tpulite.frontend.onnx.file import load_onnx
from tpulite.quant.calibrate import quantize_onnx
from tpulite.runtime.model import Model
from tpulite_testing.oracles.onnx_session import open_onnx

ROOT = Path(__file__).resolve().parents[1]

POOR = 0.05
"""Share of the largest magnitude of the expected output by which quantization may change it."""

ROUNDINGS = ("ort", "litert-ref")
"""Numerics of the machine: those of ONNX Runtime where it can, else the first that it can."""

RTOL, ATOL = 1e-3, 1e-5
"""Tolerance of what the host computes; some tests state their results with four digits only."""


_ENDS = ("QuantizeLinear", "QUANTIZE", "TRANSPOSE")


@dataclass(frozen=True)
class Run:
    """Outputs of a network, where its operators ran, and why integers were left to the host."""

    outputs: tuple[np.ndarray, ...]
    places: tuple[str, ...]
    reasons: tuple[str, ...]


class RefusedError(ValueError):
    """A network is refused before anything is compiled: the only way not to be supported."""


Feed = Mapping[str, np.ndarray]


def run_model(data: bytes, feeds: Sequence[Feed], devices: Sequence[str], exact: str) -> Run:
    """Run an ONNX file on some inputs, the host taking what the machine cannot.

    RefusedError if the file cannot be read, or nobody can compute an operator; ValueError if a
    network that was accepted cannot be compiled or run after all; AssertionError if devices give
    different bits.
    """
    try:
        model = Model.load(load_onnx(data, "test"), exact=exact)
    except ValueError as error:
        raise RefusedError(str(error)) from error
    names = model.graph.outputs
    shapes = [model.graph.tensors[name].shape for name in names]
    outputs = []
    for device in devices:
        runs = [model.run(feed, device=device).outputs for feed in feeds]
        outputs.append(
            _join(
                [
                    [run[name].reshape(shape) for name, shape in zip(names, shapes, strict=True)]
                    for run in runs
                ]
            )
        )
    for name, *values in zip(names, *outputs, strict=True):
        for value in values[1:]:
            assert np.array_equal(values[0], value, equal_nan=True), f"Devices differ in {name!r}"
    operators = model.summary()
    places = [operator.where for operator in operators if operator.where in ("MXU", "VPU")]
    integers = [
        operator
        for operator in operators
        if operator.dtype in ("int8", "uint8") and operator.operator not in _ENDS
    ]
    reasons = [operator.reason for operator in integers if operator.reason]
    if not integers:
        reasons = ["the quantizer leaves it in float"]
    return Run(outputs[0], tuple(dict.fromkeys(places)), tuple(dict.fromkeys(reasons)))


def run_runtime(data: bytes, feeds: Sequence[Feed]) -> tuple[np.ndarray, ...]:
    """Run an ONNX file in ONNX Runtime, operator by operator."""
    session = open_onnx(data, level="DISABLE_ALL")
    runs = [session.run(None, dict(feed)) for feed in feeds]
    return _join([[np.asarray(value) for value in run] for run in runs])


def _join(runs: Sequence[Sequence[np.ndarray]]) -> tuple[np.ndarray, ...]:
    """Join the outputs of the images of a batch."""
    if len(runs) == 1:
        return tuple(runs[0])
    return tuple(np.concatenate(parts) for parts in zip(*runs, strict=True))


def check(case: Case, devices: Sequence[str]) -> Row:
    """Run a test; one that ONNX Runtime does not pass either is no failure of ours."""
    data, feeds = bind(case)
    row = _check(case, data, feeds, devices)
    if row.result != "failed":
        return row
    try:
        theirs = run_runtime(data, feeds)
    except Exception as error:  # it has classes of its own
        reason = re.sub(r".*(Status Message: | was false\. | : [A-Z_]+ : )", "", str(error).strip())
        text = f"ONNX Runtime does not run it either: {reason.splitlines()[0]}"
        return Row(case.name, case.operator, "", "not supported", text)
    if row.where == "CPU" and not _equal(theirs, case.outputs):
        return Row(case.name, case.operator, "CPU", "library", row.reason)
    return row


def _equal(these: Sequence[np.ndarray], those: Sequence[np.ndarray]) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(these, those, strict=True))


def _check(case: Case, data: bytes, feeds: Sequence[Feed], devices: Sequence[str]) -> Row:
    """Run a test as it is if it is quantized, and quantized after training if it is not."""
    floats = all(value.dtype == np.float32 for value in (*feeds[0].values(), *case.outputs))
    try:
        if case.quantized:
            return _check_exact(case, data, feeds, devices)
        if not floats or _reason(data):
            return _check_host(case, data, feeds, devices, "")
        why = ""
        for exact in ROUNDINGS:
            result = _check_quantized(case, data, feeds, devices, exact)
            if isinstance(result, Row):
                return result
            why = why or result
        return _check_host(case, data, feeds, devices, why)
    except RefusedError as error:
        return Row(case.name, case.operator, "", "not supported", _reason(data) or str(error))
    except (ValueError, RuntimeError, AssertionError) as error:
        if reason := _reason(data):
            return Row(case.name, case.operator, "", "not supported", reason)
        return Row(case.name, case.operator, "", "failed", str(error))


def _reason(data: bytes) -> str:
    """Return why a file is not supported if it can be read at all."""
    try:
        nodes = load_onnx(data, "test").nodes
    except ValueError:
        return ""
    return next((node["reason"] for node in nodes if node.op == "unsupported"), "")


def _check_exact(case: Case, data: bytes, feeds: Sequence[Feed], devices: Sequence[str]) -> Row:
    run = run_model(data, feeds, devices, "ort")
    wrong = sum(
        int(np.count_nonzero(ours != expected))
        for ours, expected in zip(run.outputs, case.outputs, strict=True)
    )
    where = " + ".join(run.places) or "CPU"
    if wrong:
        return Row(case.name, case.operator, where, "failed", f"{wrong} elements differ")
    return Row(case.name, case.operator, where, "exact", "")


def _check_quantized(
    case: Case, data: bytes, feeds: Sequence[Feed], devices: Sequence[str], exact: str
) -> Row | str:
    """Compare with ONNX Runtime on the same quantized file; why not if the machine has no part."""
    try:
        quantized = quantize_onnx(data, feeds)
    except ValueError as error:
        return str(error)
    run = run_model(quantized, feeds, devices, exact)
    if not run.places:
        return "; ".join(run.reasons)
    worst = change = 0.0
    differences = 0
    for step, ours, theirs, expected in zip(
        _output_steps(quantized),
        run.outputs,
        run_runtime(quantized, feeds),
        case.outputs,
        strict=True,
    ):
        distance = np.abs(ours.astype(np.float64) - theirs) / step
        worst = max(worst, float(distance.max(initial=0)))
        differences += int(np.count_nonzero(distance > 0.5))
        size = float(np.abs(expected).max(initial=0)) or 1.0
        change = max(change, float(np.abs(ours - expected).max(initial=0)) / size)
    where = " + ".join(run.places)
    text = f"{100 * change:.2f} % from the float result"
    if exact != ROUNDINGS[0]:
        text += f"; rounding of {exact}"
    if worst > 1.01:
        return Row(case.name, case.operator, where, "failed", f"{worst:.1f} steps; {text}")
    if change > POOR:
        as_expected = _close(run_runtime(data, feeds), case.outputs)
        return Row(case.name, case.operator, where, "failed" if as_expected else "library", text)
    if differences:
        return Row(case.name, case.operator, where, "one step", f"{differences} elements; {text}")
    return Row(case.name, case.operator, where, "equal", text)


def _output_steps(data: bytes) -> Iterator[float]:
    """Yield the scale of each output's quantization."""
    graph = load_onnx(data, "test")
    writers = {node.outputs[0]: node for node in graph.nodes}
    for output in graph.outputs:
        node = writers[output]
        while node.op != "dequantize":
            node = writers[node.inputs[0]]
        quantization = graph.tensors[node.inputs[0]].quantization
        assert quantization is not None
        yield float(quantization.scale[0])


def _check_host(
    case: Case, data: bytes, feeds: Sequence[Feed], devices: Sequence[str], why: str
) -> Row:
    run = run_model(data, feeds, devices, "ort")
    result = "equal" if _close(run.outputs, case.outputs) else "failed"
    return Row(case.name, case.operator, " + ".join(run.places) or "CPU", result, why)


def _close(these: Sequence[np.ndarray], those: Sequence[np.ndarray]) -> bool:
    return all(
        x.shape == y.shape and np.allclose(x, y, rtol=RTOL, atol=ATOL)
        for x, y in zip(these, those, strict=True)
    )


def main() -> int:
    """Run all tests, or those that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--device", choices=["golden", "rtl"], default="golden")
    parser.add_argument("--only", metavar="PATTERN", help="tests whose names match, with * and ?")
    arguments = parser.parse_args()
    devices = ["golden"] if arguments.device == "golden" else ["golden", "rtl"]
    cases = find_cases()
    if arguments.only:
        cases = [case for case in cases if fnmatch.fnmatch(case.name, f"*{arguments.only}*")]
    rows = [check(case, devices) for case in track(cases, "Node tests")]
    failed = [row for row in rows if row.result == "failed"]
    if arguments.only:
        for row in rows:
            print(f"{row.test:60} {row.where:10} {row.result:14} {row.reason}")
    else:
        (ROOT / "docs" / "conformance.md").write_text(page(rows, devices, POOR))
    for row in failed:
        print(f"FAILED {row.test}: {row.reason}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
