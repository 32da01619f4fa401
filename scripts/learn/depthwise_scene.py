"""Page "depthwise as a filter": a depthwise convolution on a 16x16 array, one channel a column."""

from functools import cache

import numpy as np

from learn.captions import captions_of
from learn.drawing import Drawing, Scene, Value
from learn.probe import Cycle, Probe, run_convs
from tpulite.arch.config import Config
from tpulite.arch.interleave import interleave_of
from tpulite.arch.isa import Axis, Command, Drain, Opcode

MACHINE = Config(ub_rows=512, acc_rows=64, requant_lanes=1)
"""The default machine with small memories, which are not looked at here."""

_N = MACHINE.array_size
_HEIGHT, _WIDTH, _TAPS, _PAD = 3, 4, 3, 1
_COLUMNS = _WIDTH + 2 * _PAD
_POSITIONS = (_HEIGHT + 2 * _PAD) * _COLUMNS
"""Vectors of the stream: all positions of the image and its padding."""

_draw = np.random.default_rng(16)
IMAGE = _draw.integers(0, 10, (_HEIGHT, _WIDTH, _N)).astype(np.int8)
KERNEL = _draw.integers(-3, 5, (_TAPS, _TAPS, _N)).astype(np.int8)

_CHANNELS = (0, 1, 15)
"""Columns that are shown element by element."""

_SHADES = ("v0", "v2", "v3")
"""Colors of the sums, by the row of their output."""

_FOLLOWED = 1, 1
"""The output whose way is marked."""

_CONV = {
    **{
        "depthwise": 1,
        "inner": Axis.X,
        "rows": _HEIGHT,
        "columns": _WIDTH,
        "height": _HEIGHT,
        "width": _WIDTH,
    },
    **{"stride_y": 1, "stride_x": 1, "dilation_y": 1, "dilation_x": 1, "blocks": 1},
    **{"kernel_rows": _TAPS, "kernel_columns": _TAPS, "pad_top": _PAD, "pad_left": _PAD},
    **{"act_row": 0, "act_pitch": _WIDTH, "weight_row": 64, "drain": Drain.KEEP},
}
_PLACES = {
    interleave_of(_CONV, MACHINE).row(y, x): (y, x) for y in range(_TAPS) for x in range(_TAPS)
}
"""The tap in each row of the array that has one."""


def depthwise_scenes() -> list[Scene]:
    """Return the scenes of the page, one for each channel shown."""
    return [_scene(channel) for channel in _CHANNELS]


@cache
def _recorded() -> list[Cycle]:
    """Return the cycles from the one before the first position enters column 0."""
    buffer = np.zeros((MACHINE.ub_rows, _N), np.int8)
    buffer[: _HEIGHT * _WIDTH] = IMAGE.reshape(-1, _N)
    for row, (y, x) in _PLACES.items():
        buffer[_CONV["weight_row"] + row] = KERNEL[y, x]

    def watched(probe: Probe) -> dict:
        signals = {"vector_valid": probe["vectors.assembler.o__valid"]}
        for row in range(_N):
            for column in _CHANNELS:
                element = f"array.pe_{row}_{column}"
                for name in ("weight", "activation", "total"):
                    signals[f"{name}{row}_{column}"] = probe[f"{element}.{name}"]
        return signals

    (run,) = run_convs(MACHINE, buffer, [Command.make(Opcode.CONV, **_CONV)], watched)
    return run[next(t for t, cycle in enumerate(run) if cycle["vector_valid"]) - 1 :]


def _output(position: int) -> tuple[int, int] | None:
    """Return the output whose window begins at a position of the stream, if there is one."""
    y, x = divmod(position, _COLUMNS)
    return (y, x) if position >= 0 and y < _HEIGHT and x < _WIDTH else None


def _name(output: tuple[int, int]) -> str:
    return f"{output[0]},{output[1]}"


def _scene(channel: int) -> Scene:
    run = _recorded()
    followed = _FOLLOWED[0] * _COLUMNS + _FOLLOWED[1] + 1 + channel
    last = (_HEIGHT - 1) * _COLUMNS + _WIDTH
    length = last + channel + _N + 3
    values = _element_values(channel, run, length) | _image_values(channel, length)
    values["wave"] = [_wave(t, every=True) for t in range(length)]
    values["followed_wave"] = [_wave(t, every=False) for t in range(length)]
    late = (
        f" Column {channel} sees everything {channel} cycles later than column 0."
        if channel
        else ""
    )
    captions = captions_of(
        "depthwise",
        {
            "channel": channel,
            "late": late,
            "output": _name(_FOLLOWED),
            "gap": f"{_COLUMNS - _TAPS} cycles",
            "columns": _COLUMNS,
            "outputs": _HEIGHT * _WIDTH,
            "positions": _POSITIONS,
        },
        start=0,
        stream=1 + channel,
        begins=followed,
        next_tap=followed + 1,
        between=followed + 3,
        next_line=followed + _COLUMNS,
        last_tap=followed + 2 * _COLUMNS + 2,
        complete=followed + _N,
        end=last + channel + _N,
    )
    return Scene(
        label=f"channel {channel}",
        panels=[_image_panel(channel), _column_panel(channel), _map_panel()],
        values=values,
        captions=captions,
        shown=followed + _COLUMNS,
        names=[str(t) for t in range(length)],
        bars=None,
    )


def _column_panel(channel: int) -> Drawing:
    top, row_height = 42, 27
    drawing = Drawing(f"Column {channel}", 330, top + _N * row_height + 30)
    drawing.text(4, 14, f"Column {channel} of the array", cls="left bold")
    heads = ((58, "tap"), (108, "weight"), (172, "pixel"), (236, "partial sum"), (298, "of output"))
    for x, name in heads:
        drawing.text(x, 34, name, cls="small faint")
    drawing.line(f"M172 38V{top + _N * row_height - 4}", cls="strong")
    for row in range(_N):
        y = top + row * row_height
        tap = _PLACES.get(row)
        sentences = (
            f"Row {row}: the sum that is here belongs to no output.|"
            f"Row {row}: weight {{w{row}}} × pixel {{x{row}}} is added; the sum for output "
            f"({{name{row}}}) is now {{sum{row}}}."
        )
        drawing.text(22, y + 16, str(row), cls="small faint")
        with drawing.group(data_c=f"class{row}", data_d=sentences, data_k=f"busy{row}"):
            drawing.box(38, y, 280, row_height - 4)
            drawing.text(58, y + 16, f"({_name(tap)})" if tap else "–", cls="" if tap else "faint")
            drawing.text(108, y + 16, data_t=f"w{row}", cls="bold" if tap else "faint")
            drawing.box(154, y + 2, 36, row_height - 8, data_c=f"pixel_class{row}")
            drawing.text(172, y + 16, data_t=f"x{row}")
            drawing.text(236, y + 17, data_t=f"sum{row}", cls="big moves-down")
            drawing.text(300, y + 16, data_t=f"name{row}", cls="small faint")
        drawing.box(38, y, 280, row_height - 4, cls="outline", data_c=f"mark{row}")
    drawing.text(38, top + _N * row_height + 15, "sums of output row", cls="left small faint")
    for row, shade in enumerate(_SHADES):
        drawing.box(160 + 44 * row, top + _N * row_height + 2, 18, 18, cls=shade)
        drawing.text(184 + 44 * row, top + _N * row_height + 15, str(row), cls="left small")
    return drawing


def _element_values(channel: int, run: list[Cycle], length: int) -> dict[str, list[Value]]:
    frames = []
    for t, cycle in enumerate(run[:length]):
        frame: dict[str, Value] = {}
        streams = 0 <= t - 1 - channel < _POSITIONS
        for row in range(_N):
            at = f"{row}_{channel}"
            output = _output(t - 1 - channel - row)
            used = t - 1 - channel >= row
            frame |= {
                f"w{row}": cycle[f"weight{at}"] if used else "",
                f"x{row}": cycle[f"activation{at}"] if streams else "",
                f"pixel_class{row}": "v1" if streams and row in _PLACES else "",
                f"busy{row}": int(output is not None),
                f"name{row}": _name(output) if output else "",
                f"sum{row}": cycle[f"total{at}"] if output else "",
                f"class{row}": _SHADES[output[0]] if output else "",
                f"mark{row}": "" if output == _FOLLOWED else "hidden",
            }
        frames.append(frame)
    return {key: [frame[key] for frame in frames] for key in frames[0]}


def _image_panel(channel: int) -> Drawing:
    size, top = 34, 24
    drawing = Drawing(
        "Image, kernel, output", 290, top + 5 * size + 36 + 3 * size + 40 + 3 * size + 6
    )
    drawing.text(4, 14, f"Input, channel {channel}", cls="left bold")
    drawing.text(130, 14, "with its padding", cls="left small faint")
    for position in range(_POSITIONS):
        y, x = divmod(position, _COLUMNS)
        inside = _PAD <= y < _HEIGHT + _PAD and _PAD <= x < _WIDTH + _PAD
        value = str(IMAGE[y - _PAD, x - _PAD, channel]) if inside else "0"
        cls = "" if inside else "zero"
        drawing.box(
            4 + x * size, top + y * size, size - 2, size - 2, cls=cls, data_c=f"at{position}"
        )
        drawing.text(20 + x * size, top + y * size + 21, value, cls="" if inside else "faint")
    y, x = _FOLLOWED
    drawing.box(3 + x * size, top - 1 + y * size, 3 * size, 3 * size, cls="outline")
    drawing.text(216, top + 70, "black frame:", cls="left small faint")
    drawing.text(216, top + 84, "window of", cls="left small faint")
    drawing.text(216, top + 98, f"output ({_name(_FOLLOWED)})", cls="left small faint")
    kernel = top + 5 * size + 30
    drawing.text(4, kernel - 8, f"Kernel, channel {channel}", cls="left bold")
    for ky in range(_TAPS):
        for kx in range(_TAPS):
            place = 4 + kx * size, kernel + ky * size
            drawing.box(*place, size - 2, size - 2, data_c=f"tap{ky}{kx}")
            drawing.text(place[0] + 16, place[1] + 21, str(KERNEL[ky, kx, channel]), cls="bold")
    drawing.text(120, kernel + 20, "highlighted: the tap that", cls="left small faint")
    drawing.text(120, kernel + 34, "the marked output meets", cls="left small faint")
    output = kernel + 3 * size + 32
    drawing.text(4, output - 8, f"Output, channel {channel}", cls="left bold")
    for oy in range(_HEIGHT):
        for ox in range(_WIDTH):
            place = 4 + ox * 52, output + oy * size
            drawing.box(*place, 50, size - 2, data_c=f"out_class{oy}{ox}")
            drawing.text(place[0] + 25, place[1] + 21, data_t=f"out{oy}{ox}", cls="bold")
    y, x = _FOLLOWED
    drawing.box(3 + x * 52, output - 1 + y * size, 52, size, cls="outline")
    return drawing


def _image_values(channel: int, length: int) -> dict[str, list[Value]]:
    run = _recorded()
    start = _FOLLOWED[0] * _COLUMNS + _FOLLOWED[1]
    frames = []
    for t in range(length):
        now = t - 1 - channel
        frame: dict[str, Value] = {f"at{p}": "v1" if p == now else "" for p in range(_POSITIONS)}
        for row, (y, x) in _PLACES.items():
            frame[f"tap{y}{x}"] = "v1" if now - start == row else ""
        for position in range(_POSITIONS):
            if (output := _output(position)) is None:
                continue
            done = position + _N + channel + 1
            value = run[done - 1][f"total{_N - 1}_{channel}"]
            frame[f"out{output[0]}{output[1]}"] = value if t >= done else ""
            frame[f"out_class{output[0]}{output[1]}"] = _SHADES[output[0]] if t >= done else ""
        frames.append(frame)
    return {key: [frame[key] for frame in frames] for key in frames[0]}


def _map_panel() -> Drawing:
    size, top = 14, 84
    drawing = Drawing("The whole array", 16 * size + 36, top + 16 * size + 8)
    drawing.text(4, 14, "All 16 × 16 elements", cls="left bold")
    drawing.text(4, 30, "a line: the sums of one output, 16 channels", cls="left small faint")
    drawing.text(4, 44, "(a column is one cycle behind its left one)", cls="left small faint")
    drawing.text(4, 58, "yellow rows have a tap", cls="left small faint")
    drawing.text(28 + 8 * size, 77, "columns: channels 0 … 15", cls="small faint")
    for row in range(_N):
        drawing.text(14, top + row * size + 11, str(row), cls="tiny faint")
        kind = "v4" if row in _PLACES else ""
        drawing.add("rect", x=26, y=top + row * size, width=16 * size, height=size, cls=kind)
    with drawing.group(transform=f"translate({26 + size / 2:g} {top + size / 2:g}) scale({size})"):
        drawing.line("", cls="wave", data_a="d:wave")
        drawing.line("", cls="wave thick", data_a="d:followed_wave")
    return drawing


def _wave(t: int, *, every: bool) -> str:
    """Return a line through the elements that hold the sums of each output, or the followed one.

    Their row and column add up to the cycles since the output began.
    """
    lines = []
    for position in range(_POSITIONS):
        output, along = _output(position), t - 1 - position
        if output is None or not 0 <= along <= 2 * (_N - 1) or (output != _FOLLOWED and not every):
            continue
        first = max(0, along - _N + 1)
        lines.append(f"M{first} {along - first}L{along - first} {first}")
    return "".join(lines) or "M0 0"
