"""The command ``quantize``: a network of floats becomes one of int8, and what that costs."""

from pathlib import Path
from typing import Any

import click
import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tpulite.atomic import write_whole
from tpulite.cli.common import (
    csv_option,
    is_stdout,
    json_option,
    progress_bar,
    save_csv,
    save_json,
    say,
)
from tpulite.cli.help import Choice, Topic, command, option
from tpulite.cli.inputs import PIXELS, Samples, errors_named, read_feeds, read_samples
from tpulite.cli.paths import NETWORK, OUTPUT, PATH
from tpulite.cli.shapes import dim_option, given_shapes, set_option, shape_option
from tpulite.frontend.files import load_graph, network_name
from tpulite.frontend.foreign import TFLITE
from tpulite.frontend.tflite.file import load_tflite
from tpulite.graph.graph import Graph, Tensor
from tpulite.needs import require_package
from tpulite.quant.exactness import Exactness
from tpulite.quant.floats.ranges import METHODS, Method
from tpulite.quant.quality import Quality, measure_outputs
from tpulite.report.name_cell import NameCell
from tpulite.runtime.inputs import as_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.outputs import compare_outputs, given_inputs, load_runnable

Feeds = list[dict[str, np.ndarray]]
"""The inputs of each sample by name."""

_SHOWN = 10
"""Tensors in the table."""

_BRANCH = b"then_branch"
"""What an ONNX file with branches contains: they are decided when it is read."""

_BLAMED = 3
"""Tensors that a message names."""


@command(first=("--calibrate", "--output", "--pixels", "--shape", "--weights", "--json"))
@click.argument("network", type=NETWORK)
@option(
    "--calibrate",
    "calibration",
    group=Topic.INPUT,
    type=PATH,
    required=True,
    help="Samples of your data: an array (.npy, .npz), an image, or a folder of them.",
)
@option(
    "-o",
    "--output",
    group=Topic.OUTPUT,
    type=OUTPUT,
    help="File to write.  [default: NETWORK.int8.onnx or .tflite, in this folder]",
)
@shape_option
@dim_option
@set_option
@option(
    "--pixels",
    group=Topic.INPUT,
    type=PIXELS,
    metavar="LOW:HIGH",
    help="Input range that pixel values are scaled to.  [default: 0:1]",
)
@option(
    "--per-tensor",
    group=Topic.NUMERICS,
    is_flag=True,
    help="Use one weight scale per tensor, not per channel.",
)
@option(
    "--weights",
    group=Topic.NUMERICS,
    type=Choice(("int8", "int4")),
    default="int8",
    help="int4 rounds weights of products to 4 bits; those that lose most stay int8 until every "
    "output has --min-cosine.",
)
@option(
    "--symmetric",
    group=Topic.NUMERICS,
    is_flag=True,
    help="Quantize activations symmetrically (uint8 with zero point 128).",
)
@option(
    "--percentile",
    group=Topic.NUMERICS,
    type=click.FloatRange(0, 100, min_open=True),
    default=100.0,
    help="Percentage of activation values that each tensor's range covers.",
)
@option(
    "--ranges",
    group=Topic.NUMERICS,
    type=Choice(METHODS),
    default="mse",
    help="How activation ranges are chosen; percentile needs --percentile.",
)
@option(
    "--min-cosine",
    group=Topic.NUMERICS,
    type=click.FloatRange(0, 1),
    default=0.98,
    help="Minimum cosine of each output to the float network's; below it the exit code is 1.",
)
@option(
    "--exact",
    "numerics",
    group=Topic.NUMERICS,
    type=Choice(("ort", "litert-ref")),
    help="Numerics of the written ONNX file: ort leaves softmax and normalizations to the CPU.  "
    "[default: litert-ref for transformers and networks with normalizations, else ort]",
)
@json_option
@csv_option
def quantize(  # noqa: PLR0913 - options of the command
    network: Path,
    calibration: Path,
    output: Path | None,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    dims: tuple[tuple[str, int], ...],
    values: tuple[tuple[str, float], ...],
    pixels: tuple[float, float] | None,
    per_tensor: bool,
    weights: str,
    symmetric: bool,
    percentile: float,
    ranges: Method,
    min_cosine: float,
    numerics: str | None,
    json_path: Path | None,
    csv_path: Path | None,
) -> None:
    """Quantize a float network (.onnx, .tflite) to int8 with samples of your data.

    Any runtime opens the resulting file; ONNX files are in QDQ format. The tables compare every
    output with the float network, and show the tensors that lose most; --json and --csv have all
    tensors. In ONNX files, activations that lose most stay in floats until every output has
    --min-cosine.

    The weights of an .onnx file with float activations may be integers. --weights int4 takes a
    float .onnx file, or a .tflite file that is int8 already.

    By default, networks with normalizations, attention or transposed convolutions become LiteRT's
    integer operators, which run on the machine; the file names these numerics (litert-ref).
    """
    data = network.read_bytes()
    tflite = data[4:8] == TFLITE
    suffix = "tflite" if tflite else "onnx"
    output = output or Path(f"{network_name(network)}.{weights}.{suffix}")
    if output.resolve() == network.resolve():
        raise click.UsageError(f"{output} is the network itself.")
    int4 = weights == "int4"
    others = symmetric or percentile < 100 or ranges != "mse" or numerics
    if tflite and (others or (per_tensor and not int4)):
        raise click.UsageError(
            "--symmetric, --percentile, --ranges and --exact are for ONNX files, --per-tensor is "
            "for these and for --weights int4."
        )
    if tflite and values:
        raise click.UsageError("--set is for ONNX files.")
    if ranges == "percentile" and percentile == 100:
        raise click.UsageError("--ranges percentile needs --percentile P with P below 100.")
    if percentile < 100 and ranges in ("minmax", "entropy"):
        raise click.UsageError(f"--percentile cannot be used with --ranges {ranges}.")
    given = given_shapes(shapes, dims, values)
    settings = {
        "per_channel": not per_tensor,
        "symmetric": symmetric,
        "ranges": ranges,
        "percentile": percentile,
        "min_cosine": min_cosine,
        "numerics": numerics,
        "int4": int4,
    }
    _require(tflite, int4)
    with errors_named(network, calibration):
        graph = load_graph(network, given)
        if graph.source is not None and (given or _BRANCH in data or graph.source.dialect):
            data = graph.source.data
        if tflite:
            samples, remarks = read_samples(calibration, graph, pixels)
            with errors_named(calibration):
                feeds = _tflite_feeds(graph, samples)
            found, quality = _of_tflite(data, graph, feeds, int4=int4, per_channel=not per_tensor)
        else:
            data = _whole(data, network)
            feeds, remarks = read_feeds(calibration, graph, data, pixels)
            found, quality = _of_onnx(data, feeds, settings)
    write_whole(output, lambda path: path.write_bytes(found))
    model = load_runnable(load_graph(output))
    save_json(json_path, {"output": str(output), **quality.as_dict(), "host": _host(model)})
    if csv_path is not None:
        save_csv(csv_path, quality.as_dict()["tensors"])
    if not is_stdout(json_path) and not is_stdout(csv_path):
        console = Console()
        lines = [*remarks, f"{output}: quantized", model.statement(), *_advice(model)]
        lines += [*_left(quality), _summary(quality, _before(data, tflite=tflite, int4=int4))]
        console.print(_outputs(quality))
        if quality.tensors:
            console.print(_table(quality))
        for line in lines:
            say(console, line)
    _check(output, quality, min_cosine)


def _check(output: Path, quality: Quality, least: float) -> None:
    """Fail if an output lost too much; the file stays."""
    worst = quality.worst_output
    if worst is None or worst.cosine >= least:
        return
    layers = ", ".join(each.tensor for each in quality.worst[:_BLAMED])
    say(
        Console(stderr=True),
        f"tpulite: {output}: cosine {worst.cosine:.3f} of output {worst.output} is below "
        f"{least:g}; most is lost in {layers}",
    )
    raise SystemExit(1)


def _left(quality: Quality) -> list[str]:
    """Say what stayed in floats, and which weights kept 8 bits."""
    lines = [f"recurrent node {each}; it stays in floats" for each in quality.recurrent[:_BLAMED]]
    if (more := len(quality.recurrent) - _BLAMED) > 0:
        lines.append(f"{more} more recurrent nodes stay in floats (--json has all)")
    for left, what in (
        (quality.floats, "activations stay in floats"),
        (quality.int8, "products keep int8 weights"),
    ):
        names, more = ", ".join(left[:_BLAMED]), len(left) - _BLAMED
        rest = f" and {more} more (--json has all)" if more > 0 else ""
        if left:
            lines.append(f"{len(left)} {what} for the outputs' sake: {names}{rest}")
    return lines


def _outputs(quality: Quality) -> Table:
    """Return the outputs."""
    table = Table(title="outputs", box=box.SIMPLE)
    table.add_column("output")
    for column in ("cosine", "SNR dB", "top-1"):
        table.add_column(column, justify="right")
    for each in quality.outputs:
        top = "" if each.agreement is None else f"{each.agreement:.1%}"
        table.add_row(NameCell(each.output), f"{each.cosine:.4f}", f"{each.decibels:.1f}", top)
    return table


def _require(tflite: bool, int4: bool) -> None:
    """Check that the quantizer of a format is installed."""
    if tflite and int4:
        require_package("ai_edge_litert", "litert", "quantize --weights int4 for TFLite files")
        return
    if tflite:
        require_package("ai_edge_quantizer", "quantize", "quantize for TFLite files")
        return
    for package in ("onnx", "onnxruntime"):
        require_package(package, "onnx", "quantize")


def _whole(data: bytes, network: Path) -> bytes:
    """Return an ONNX file with the weights that lie beside it."""
    from tpulite.frontend.onnx.read.external import with_weights

    return with_weights(data, network)


def _of_onnx(data: bytes, feeds: Feeds, settings: dict[str, Any]) -> tuple[bytes, Quality]:
    """Quantize an ONNX file; return the file, and what that costs."""
    from tpulite.quant.calibrate import (
        default_numerics,
        fixed_batch,
        has_integers,
        quantize_onnx,
    )
    from tpulite.quant.quality_onnx import measure_quality

    settings["numerics"] = settings["numerics"] or default_numerics(data)
    with progress_bar() as bar:
        task = bar.add_task("calibrate", total=2 * len(feeds))

        def advance(done: int, count: int) -> None:
            bar.advance(task)

        found = quantize_onnx(data, feeds, progress=advance, **settings)
        original = data if has_integers(data) else None
        return found, measure_quality(fixed_batch(data), found, feeds, advance, original=original)


def _tflite_feeds(graph: Graph, samples: Samples) -> Feeds:
    """Return samples as the inputs of a TFLite file take them; ValueError if they do not fit."""
    if isinstance(samples, np.ndarray) and len(graph.inputs) == 1:
        samples = [{graph.inputs[0]: sample} for sample in samples]
    if isinstance(samples, np.ndarray) or any(x.keys() != {*graph.inputs} for x in samples):
        raise ValueError(f"samples must have the inputs {', '.join(graph.inputs)}")
    return [{x: _sample(each[x], graph.tensors[x]) for x in graph.inputs} for each in samples]


def _sample(values: np.ndarray, tensor: Tensor) -> np.ndarray:
    """Return a sample of an input in floats, or in the integers that are no rounded numbers."""
    values = np.asarray(values).reshape(tensor.shape)
    if tensor.quantization is not None:
        return values.astype(np.float32)
    return as_inputs(values, tensor, Exactness.LITERT_REF)[0]


def _of_tflite(
    data: bytes, graph: Graph, feeds: Feeds, *, int4: bool, per_channel: bool
) -> tuple[bytes, Quality]:
    """Quantize a TFLite file; return the new one, and how far its outputs are from the first."""
    if int4:
        from tpulite.quant.int4_tflite import int4_tflite

        samples = (given_inputs(graph, each) for each in feeds)
        found = int4_tflite(data, samples, per_channel=per_channel)
    else:
        from tpulite.quant.tflite import quantize_tflite

        found = quantize_tflite(data, feeds)
    return found, measure_outputs(compare_outputs(graph, load_tflite(found, graph.name), feeds))


def _host(model: Model) -> list[dict[str, Any]]:
    """Return the operators that the host computes, and why."""
    return [
        {"node": each.name, "operator": each.operator, "reason": each.reason}
        for each in model.summary()
        if each.where == "host" and each.reason
    ]


_ADDITIONS = ("Add", "QLinearAdd", "Sub")


def _advice(model: Model) -> list[str]:
    """Say what would keep more on the machine."""
    additions = [x for x in model.summary() if x.where == "host" and x.operator in _ADDITIONS]
    if not additions or not model.exactness.ort:
        return []
    return [
        f"{len(additions)} Add or Sub run on the CPU, because ONNX Runtime's rounding of them "
        "depends on the CPU model; --exact litert-ref runs them on the machine, rounded as LiteRT"
    ]


def _before(data: bytes, *, tflite: bool, int4: bool) -> str:
    """Say which network the new one is compared with."""
    if tflite:
        return "int8" if int4 else "float"
    from tpulite.quant.calibrate import has_integers

    return "original" if has_integers(data) else "float"


def _summary(quality: Quality, before: str) -> str:
    """Return how well both networks agree, on the samples of the calibration."""
    text = f"on the {quality.samples} calibration samples"
    if quality.agreement is None:
        return text
    return f"top-1 agreement with the {before} network: {quality.agreement:.1%} {text}"


def _table(quality: Quality) -> Table:
    """Return the tensors of which the most is lost."""
    table = Table(title="largest losses", box=box.SIMPLE)
    table.add_column("tensor")
    table.add_column("operator", no_wrap=True)
    for column in ("dB lost", "SNR dB", "largest error", "range"):
        table.add_column(column, justify="right")
    for each in quality.worst[:_SHOWN]:
        table.add_row(
            NameCell(each.tensor),
            escape(each.operator),
            f"{each.lost:.1f}",
            f"{each.decibels:.1f}",
            f"{each.largest:.3g}",
            f"{each.range:.3g}",
        )
    return table
