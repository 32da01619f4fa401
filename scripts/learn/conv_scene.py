"""Page "convolution as taps": a 3x3 convolution is nine products that are added."""

from learn.array_panel import busy_elements
from learn.captions import captions_of
from learn.drawing import Drawing, Scene, Value
from learn.examples import IMAGE, KERNEL, MACHINE, recordings
from learn.recording import Recording

_N = MACHINE.array_size
_SIDE, _TAPS = IMAGE.shape[0], KERNEL.shape[0]
_OUTPUTS, _PADDED = _SIDE * _SIDE, _SIDE + 2
_WIDE, _TALL = 66, 34


def conv_scenes() -> list[Scene]:
    """Return the scene of the page."""
    recording = recordings()["conv"]
    first = recording.entries[0]
    stores = [t for t, cycle in enumerate(recording.cycles) if cycle["acc_write"]]
    length = stores[-1] + 3
    tap = [recording.entries[i * _OUTPUTS] for i in range(_TAPS * _TAPS)]
    captions = captions_of(
        "convolution",
        {"cycles": _TAPS**2 * _OUTPUTS},
        start=0,
        first_tap=first,
        padding=first + 4,
        second_tap=tap[1],
        stored=stores[0],
        added=stores[_OUTPUTS],
        middle=tap[4],
        addresses=tap[5],
        last_tap=tap[8],
        end=stores[-1],
    )
    return [
        Scene(
            label="3 × 3 kernel",
            panels=[_image_panel(), _array_panel(), _accumulator_panel()],
            values=_values(recording, length),
            captions=captions,
            shown=tap[4] + 4,
            names=[str(t) for t in range(length)],
            bars=("elements at work", busy_elements(recording, length), _N * _N),
        )
    ]


def _image_panel() -> Drawing:
    top = 24
    kernel = top + _PADDED * _TALL + 34
    drawing = Drawing("Image and kernel", _PADDED * _WIDE + 8, kernel + _TAPS * 76 + 4)
    drawing.text(4, 14, "Image", cls="left bold")
    drawing.text(52, 14, "four channels a pixel; dashed: padding", cls="left small faint")
    for y in range(_PADDED):
        for x in range(_PADDED):
            inside = 1 <= y <= _SIDE and 1 <= x <= _SIDE
            text = " ".join(map(str, IMAGE[y - 1, x - 1])) if inside else "0 0 0 0"
            kind = "" if inside else "zero"
            place = 4 + x * _WIDE, top + y * _TALL
            drawing.box(*place, _WIDE - 2, _TALL - 2, cls=kind, data_c=f"pixel{y}{x}")
            drawing.text(place[0] + 32, place[1] + 20, text, cls="" if inside else "faint")
    for oy in range(_SIDE):
        for ox in range(_SIDE):
            place = 3 + ox * _WIDE, top - 1 + oy * _TALL
            drawing.box(*place, 3 * _WIDE, 3 * _TALL, cls="outline", data_c=f"window{oy}{ox}")
    drawing.text(4, kernel - 8, "Kernel", cls="left bold")
    drawing.text(56, kernel - 8, "a 4 × 4 tile for each tap", cls="left small faint")
    for ky in range(_TAPS):
        for kx in range(_TAPS):
            x, y = 4 + kx * 110, kernel + ky * 76
            sentence = f"The weight tile of tap ({ky},{kx}): a row for each input channel."
            with drawing.group(data_c=f"kernel{ky}{kx}", data_d=sentence):
                drawing.box(x, y, 106, 72)
                drawing.text(x + 4, y + 11, f"({ky},{kx})", cls="left tiny faint")
                for row in range(_N):
                    for column in range(_N):
                        text = str(KERNEL[ky, kx, row, column])
                        drawing.text(x + 38 + column * 19, y + 18 + row * 15, text, cls="small")
    return drawing


def _array_panel() -> Drawing:
    size, top = 62, 44
    drawing = Drawing("The array", _N * size + 8, top + _N * size + 4)
    drawing.text(4, 14, "Array", cls="left bold")
    drawing.text(50, 14, "which tap each element works on,", cls="left small faint")
    drawing.text(50, 28, "and its partial sum", cls="left small faint")
    for row in range(_N):
        for column in range(_N):
            x, y, at = 4 + column * size, top + row * size, f"{row}{column}"
            sentence = (
                f"Row {row}, column {column}: idle.|Row {row}, column {column}: weight {{w{at}}} × "
                f"activation {{x{at}}}, tap {{tap{at}}}; partial sum {{sum{at}}}."
            )
            with drawing.group(data_c=f"class{at}", data_d=sentence, data_k=f"busy{at}"):
                drawing.box(x, y, size - 4, size - 4)
                drawing.text(x + 29, y + 18, data_t=f"tap{at}", cls="small")
                drawing.text(x + 29, y + 42, data_t=f"sum{at}", cls="big moves-down")
    return drawing


def _accumulator_panel() -> Drawing:
    head, wide, tall = 78, 52, 28
    drawing = Drawing("Accumulators", head + _N * wide + 56, 44 + _OUTPUTS * tall + 6)
    drawing.text(4, 14, "Accumulators", cls="left bold")
    drawing.text(head + _N * wide + 26, 34, "taps", cls="small faint")
    drawing.text(head - 6, 34, "channel", cls="right small faint")
    for column in range(_N):
        drawing.text(head + column * wide + 25, 34, str(column), cls="small faint")
    for i in range(_OUTPUTS):
        oy, ox = divmod(i, _SIDE)
        y = 42 + i * tall
        drawing.text(head - 6, y + 17, f"output ({oy},{ox})", cls="right small faint")
        for column in range(_N):
            sentence = (
                f"Output ({oy},{ox}), channel {column}: {{acc{i}{column}}} after {{count{i}}} "
                f"of {_TAPS * _TAPS} taps."
            )
            with drawing.group(data_c=f"acc_class{i}", data_d=sentence):
                drawing.box(head + column * wide, y, wide - 2, tall - 2)
                drawing.text(head + column * wide + 25, y + 17, data_t=f"acc{i}{column}")
        drawing.text(head + _N * wide + 26, y + 17, data_t=f"count{i}", cls="bold")
    return drawing


def _tap_name(tap: int) -> str:
    return f"({tap // _TAPS},{tap % _TAPS})"


def _values(recording: Recording, length: int) -> dict[str, list[Value]]:
    stored = recording.accumulators(_OUTPUTS)
    stores = [0] * _OUTPUTS
    frames = []
    for t, cycle in enumerate(recording.cycles[:length]):
        frame: dict[str, Value] = {}
        entering = recording.vector_in(t, 0, 0)
        tap, output = divmod(entering, _OUTPUTS) if entering >= 0 else (-1, -1)
        pixel = tap // _TAPS + output // _SIDE, tap % _TAPS + output % _SIDE
        shade = f"v{tap % 6}"
        for y in range(_PADDED):
            for x in range(_PADDED):
                frame[f"pixel{y}{x}"] = shade if entering >= 0 and (y, x) == pixel else ""
        for i in range(_OUTPUTS):
            frame[f"window{i // _SIDE}{i % _SIDE}"] = "" if i == output else "hidden"
            row = stored[t][i]
            now = cycle["acc_write"] and cycle["acc_row"] == i
            frame[f"acc_class{i}"] = f"v{stores[i] % 6}" if now else ""
            frame[f"count{i}"] = stores[i] if stores[i] else ""
            frame |= {f"acc{i}{column}": row[column] if row else "" for column in range(_N)}
            stores[i] += bool(now)
        for each in range(_TAPS * _TAPS):
            frame[f"kernel{each // _TAPS}{each % _TAPS}"] = f"v{each % 6}" if each == tap else ""
        for row in range(_N):
            for column in range(_N):
                at, vector = f"{row}{column}", recording.vector_in(t, row, column)
                busy = vector >= 0
                its = vector // _OUTPUTS
                frame |= {
                    f"busy{at}": int(busy),
                    f"class{at}": f"v{its % 6}" if busy else "",
                    f"tap{at}": _tap_name(its) if busy else "",
                    f"w{at}": cycle[f"w{at}"] if busy else "",
                    f"x{at}": cycle[f"x{at}"] if busy else "",
                    f"sum{at}": cycle[f"sum{at}"] if busy else "",
                }
        frames.append(frame)
    return {key: [frame[key] for frame in frames] for key in frames[0]}
