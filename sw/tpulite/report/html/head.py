"""The head of a run's page: what was run on what, and how fast it was."""

import base64
import math
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tpulite.arch.config import Config
from tpulite.compiler.schedule.live_tensors import Grouped
from tpulite.report.advice import advise_slowest
from tpulite.report.answers import Answer
from tpulite.report.html.shell import Head, as_json, machine_line
from tpulite.report.network_graph import NetworkGraph
from tpulite.report.operator_details import OperatorDetails
from tpulite.report.profile import Profile
from tpulite.report.speed import Speed

_SIDE = 8
"""Least side of a square that a vector is seen as."""


@dataclass(frozen=True, eq=False)
class Answered:
    """An input and what a network answered."""

    name: str  #: What the input is called.
    inputs: Mapping[str, np.ndarray]  #: Its tensors; those that can be seen as a picture are shown.
    answers: Sequence[Answer]  #: The outputs.
    expected: str = ""  #: The class that it has by its labels, if there are any.
    remark: str = ""  #: What was done to the inputs.


def make_answers(answered: Answered) -> dict[str, Any]:
    """Return an input and its answers as plain values."""
    pictures = [
        {"name": tensor, "shape": "x".join(map(str, values.shape)), "url": url}
        for tensor, values in answered.inputs.items()
        if (url := picture_url(values))
    ]
    outputs = [
        {
            "name": each.tensor.name,
            "top": [_class(each, index) for index in each.top],
            "lines": [] if each.top else each.lines(),
        }
        for each in answered.answers
    ]
    return {
        "name": answered.name,
        "remark": answered.remark,
        "pictures": pictures,
        "outputs": outputs,
        "expected": answered.expected,
    }


def _class(answer: Answer, index: int) -> dict[str, Any]:
    label = answer.names[index] if answer.names else f"class {index}"
    return {"label": label, "value": as_json(float(answer.values.reshape(-1)[index]))}


def picture_url(values: np.ndarray) -> str:
    """Return a tensor as a picture, from its least value (black) to its largest; else nothing.

    A picture has two extents, and one or three channels, first or last; extents of 1 do not count.
    A vector is one if it fills a square, as that of pixels for a dense layer does.
    """
    shape = [extent for extent in values.shape if extent > 1]
    if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        return ""
    side = math.isqrt(values.size)
    if len(shape) == 1 and side**2 == values.size and side >= _SIDE:
        shape = [side, side]
    plane = values.reshape(shape).astype(np.float64)
    if len(shape) == 3 and shape[0] == 3 != shape[-1]:
        plane = plane.transpose(1, 2, 0)
    if plane.ndim != 2 and plane.shape[2:] != (3,):
        return ""
    low, span = plane.min(), np.ptp(plane) or 1.0
    pixels = np.round((plane - low) * (255 / span)).astype(np.uint8)
    return f"data:image/png;base64,{base64.b64encode(_png(pixels)).decode()}"


def _png(pixels: np.ndarray) -> bytes:
    """Return pixels, uint8 [height, width] or [height, width, 3], as a PNG file (RFC 2083)."""
    height, width = len(pixels), pixels.shape[1]
    kind = 2 if pixels.ndim == 3 else 0
    lines = np.zeros((height, 1 + pixels.size // height), np.uint8)  # filter type 0: none
    lines[:, 1:] = pixels.reshape(height, -1)
    head = struct.pack(">2I5B", width, height, 8, kind, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


@dataclass(frozen=True)
class Report:
    """What the page of a run shows."""

    command: str  #: The command that writes it.
    profile: Profile  #: What the run costs, layer by layer, and what each engine does when.
    speed: Speed  #: Its cycles, in milliseconds if there is a clock frequency.
    network: NetworkGraph | None = None  #: Its operators; a program without a network has none.
    #: What their file says of them.
    details: Mapping[str, OperatorDetails] = field(default_factory=dict)
    numerics: str = ""  #: Whose arithmetic it has; empty for a program without a network.
    #: What else stands in its head: how it was compiled.
    facts: Mapping[str, str] = field(default_factory=dict)
    grouped: Sequence[Grouped] = ()  #: Live ranges of each part, if it has just been compiled.
    answers: Sequence[Answered] = ()  #: What came out of the first inputs, if it ran.


def make_head(report: Report) -> Head:
    """Return network, machine, numerics, speed and options, and what would help the slowest."""
    profile = report.profile
    lines = [machine_line(profile.config)]
    if report.numerics:
        lines.append(f"numerics: {report.numerics}")
    if profile.runs:
        lines.append(f"cycles: {profile.device}")
    facts = {"speed": report.speed.line()} if profile.runs else {}
    facts |= {"configuration": _options(profile.config), **report.facts}
    network = report.network
    if network is not None:
        macs = profile.batch * sum(box.macs for box in network.operators if box.where != "host")
        if macs != profile.macs:
            facts["MACs on the accelerator"] = (
                f"{macs:,} by the network's operators, {profile.macs:,} as compiled: rewriting "
                "removes channels without effect, or changes products"
            )
    for number, sentence in enumerate(advise_slowest(profile), start=1):
        facts[f"advice {number}"] = sentence
    return Head(profile.network, report.command, lines, dict(_tiles(report)), facts)


def _tiles(report: Report) -> Iterator[tuple[str, str]]:
    """Yield the figures that matter, each behind what it is."""
    profile, speed = report.profile, report.speed
    if profile.runs:
        each = "inference" if profile.batch == 1 else f"batch of {profile.batch}"
        yield f"cycles per {each}", f"{speed.cycles:,}"
        if speed.milliseconds is not None:
            yield f"ms on the accelerator at {speed.mhz:g} MHz", f"{speed.milliseconds:,.3g}"
        if speed.cpu_ms is not None:
            yield "ms on the CPU, as given by --host-ms", f"{speed.cpu_ms:,.3g}"
        if speed.inputs_per_second is not None:
            yield "inferences/s", f"{speed.inputs_per_second:,.0f}"
        yield "utilization of the multipliers", f"{profile.utilization:.1%}"
        yield "MACs on the accelerator, as compiled", f"{profile.macs:,}"
        traffic = [layer.traffic for layer in profile.layers]
        moved = sum(x.read_bytes + x.written_bytes for x in traffic)
        small = moved < 1 << 20
        yield "DRAM traffic", f"{moved / (1 << 10 if small else 1 << 20):.1f} {'KM'[not small]}iB"
    if report.network is not None:
        cpu = [box for box in report.network.operators if box.where == "host"]
        yield "operators on the CPU", f"{len(cpu)} of {len(report.network.operators)}"
        if cpu:
            share = speed.cpu_share
            yield "of the MACs on the CPU", "?" if share is None else f"{share:.1%}"


def _options(config: Config) -> str:
    """Return the fields of a configuration that are not as they are by default."""
    default = asdict(Config(array_size=config.array_size, ub_rows=config.ub_rows))
    others = [f"{k}={v}" for k, v in asdict(config).items() if v != default[k]]
    size = config.array_size
    return ", ".join([f"{size}x{size}", f"ub_rows={config.ub_rows}", *others])
