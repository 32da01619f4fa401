"""Page "two tiles": weights that move in, accumulation, and the drain."""

from learn.array_panel import array_panel, array_values, busy_elements
from learn.captions import captions_of
from learn.drawing import Drawing, Scene, Value
from learn.examples import MACHINE, PRODUCTS, Product, recordings
from learn.recording import Recording

_N = MACHINE.array_size
_COLORS = ("v0", "v1", "v2", "v3")
"""Of the k-tiles."""

_STAGES = (
    ("sum", "lane_sum", 1, 0, "The sum from the accumulator's adder."),
    ("+ bias", "lane_biased", 2, 0, "The bias of the channel is added."),
    (
        "multiplicand",
        "lane_operand",
        3,
        0,
        "Shifted left, if the scale is above 1. Here it is not.",
    ),
    ("product", "lane_product", 5, 0, "Times the 31-bit multiplier, the scale as an integer."),
    (
        "rounded down",
        "lane_doubled",
        6,
        1,
        "Shifted right, which rounds down; the next stage rounds.",
    ),
    ("int8", "lane_result", 7, 0, "Rounded, zero point added, clamped to −128 … 127."),
)
"""Name, signal, cycles after the sum left the accumulators, its bits of fraction, and meaning."""

_HEAD, _CELL, _ROW = 90, 76, 24


def tiles_scenes() -> list[Scene]:
    """Return the scenes of the page."""
    return [_tiles_scene(), _vector_scene()]


def _tiles_scene() -> Scene:
    recording = recordings()["tiles"]
    first, n = recording.entries[0], _N
    swap = recording.entries[6]
    drained = [t for t, cycle in enumerate(recording.cycles) if cycle["drains"]]
    written = [t for t, cycle in enumerate(recording.cycles) if cycle["write"] >= 0]
    captions = captions_of(
        "tiles",
        {},
        start=0,
        first_vector=first,
        loaded=first + 4,
        next_arrives=swap - 1,
        swap=swap,
        border=swap + 1,
        leave=first + 2 * n + 1,
        drain=drained[0],
        requantize=drained[0] + 3,
        written=written[0],
        end=written[-1],
    )
    return _scene("tiles", "6 vectors, 2 tiles (K = 8)", captions, swap + 3)


def _vector_scene() -> Scene:
    recording = recordings()["vector"]
    second = recording.entries[1]
    drained = next(t for t, cycle in enumerate(recording.cycles) if cycle["drains"])
    captions = captions_of(
        "vector",
        {},
        start=0,
        first_vector=recording.entries[0],
        wait=recording.entries[0] + 1,
        second=second,
        limit=second + 4,
        drain=drained,
    )
    return _scene("vector", "1 vector, 4 tiles (K = 16)", captions, second + 3)


def _scene(name: str, label: str, captions: list[tuple[int, str]], shown: int) -> Scene:
    product, recording = PRODUCTS[name], recordings()[name]
    m = len(product.a)
    length = max(t for t, cycle in enumerate(recording.cycles) if cycle["write"] >= 0) + 3

    def labels(vector: int) -> tuple[str, str, str]:
        tile, row = divmod(vector, m)
        return _COLORS[tile], f"tile {tile}", f"row {row} of A times k-tile {tile}"

    values = array_values(recording, length, labels)
    values |= _weight_values(product, recording, length)
    values |= _drain_values(product, recording, length)
    return Scene(
        label=label,
        panels=[array_panel(_N), _weight_panel(product), _drain_panel(product)],
        values=values,
        captions=captions,
        shown=shown,
        names=[str(t) for t in range(length)],
        bars=("elements at work", busy_elements(recording, length), _N * _N),
    )


def _weight_panel(product: Product) -> Drawing:
    """Draw A above W, both cut into k-tiles."""
    m, pitch = len(product.a), 25
    across = max(product.a.shape[1] * pitch + 8 * (product.tiles - 1), _N * 36 + 60)
    drawing = Drawing(
        "A and W, cut into k-tiles",
        across + 30,
        64 + (m + 4 * product.tiles) * 24 + 8 * product.tiles,
    )
    drawing.text(4, 14, "A", cls="left bold")
    drawing.text(20, 14, f"{m} × {product.a.shape[1]}", cls="left small faint")
    for i in range(m):
        y = 22 + i * 24
        drawing.text(9, y + 15, str(i), cls="small faint")
        for tile in range(product.tiles):
            with drawing.group(data_c=f"a_class{i}_{tile}"):
                for k in range(_N):
                    x = 20 + (tile * _N + k) * pitch + 8 * tile
                    drawing.box(x, y, pitch - 2, 22)
                    drawing.text(x + 11, y + 15, str(product.a[i, tile * _N + k]))
    top = 22 + m * 24 + 28
    drawing.text(4, top - 8, "W", cls="left bold")
    drawing.text(20, top - 8, f"{product.tiles * _N} × {_N}", cls="left small faint")
    for tile in range(product.tiles):
        for row in range(_N):
            y = top + (tile * _N + row) * 24 + 8 * tile
            with drawing.group(data_c=f"w_class{tile}_{row}"):
                for column in range(_N):
                    drawing.box(20 + column * 36, y, 34, 22)
                    text = str(product.w[tile * _N + row, column])
                    drawing.text(37 + column * 36, y + 15, text)
        y = top + tile * (4 * 24 + 8) + 2 * 24
        drawing.text(20 + _N * 36 + 4, y, f"k-tile {tile}", cls="left small faint")
    return drawing


def _weight_values(product: Product, recording: Recording, length: int) -> dict[str, list[Value]]:
    m = len(product.a)
    arrivals = [t for t, cycle in enumerate(recording.cycles) if cycle["weight_valid"]]
    values: dict[str, list[Value]] = {}
    for tile in range(product.tiles):
        for row in range(_N):
            arrival = arrivals[tile * _N + row]
            later = arrivals[(tile + 1) * _N + row] if tile + 1 < product.tiles else length
            values[f"w_class{tile}_{row}"] = [
                _COLORS[tile] if arrival <= t <= later + _N else "" for t in range(length)
            ]
        for i in range(m):
            entered = recording.entries[tile * m + i]
            values[f"a_class{i}_{tile}"] = [
                _COLORS[tile] if entered <= t <= entered + 2 * _N - 1 else "" for t in range(length)
            ]
    return values


def _drain_panel(product: Product) -> Drawing:
    m = len(product.a)
    requantizer = 22 + m * _ROW + 40
    buffer = requantizer + len(_STAGES) * _ROW + 40
    drawing = Drawing(
        "Accumulators, requantizer, results", _HEAD + _N * _CELL + 6, buffer + m * _ROW + 6
    )
    drawing.text(4, 14, "Accumulators", cls="left bold")
    drawing.text(104, 14, "int32", cls="left small faint")
    drawing.text(4, requantizer - 8, "Requantizer", cls="left bold")
    drawing.text(
        104, requantizer - 8, "a vector moves down one stage each cycle", cls="left small faint"
    )
    drawing.text(4, buffer - 8, "Unified buffer", cls="left bold")
    drawing.text(104, buffer - 8, "int8 results", cls="left small faint")
    for i in range(m):
        drawing.text(_HEAD - 8, 22 + i * _ROW + 16, f"row {i}", cls="right small faint")
        drawing.text(_HEAD - 8, buffer + i * _ROW + 16, f"row {i}", cls="right small faint")
        for column in range(_N):
            sentence = f"Accumulator of row {i}, column {column}: {{acc{i}{column}}}."
            _cell(drawing, 22 + i * _ROW, column, (f"acc{i}{column}", f"acc_class{i}"), sentence)
            sentence = f"Result of row {i}, column {column}: {{result{i}{column}}}."
            keys = f"result{i}{column}", f"result_class{i}"
            _cell(drawing, buffer + i * _ROW, column, keys, sentence)
    for stage, (name, *_, meaning) in enumerate(_STAGES):
        y = requantizer + stage * _ROW
        drawing.text(_HEAD - 8, y + 16, name, cls="right small faint")
        for column in range(_N):
            sentence = f"{meaning} Column {column}: {{stage{stage}{column}}}."
            keys = f"stage{stage}{column}", f"stage_class{stage}"
            _cell(drawing, y, column, keys, sentence)
    return drawing


def _cell(drawing: Drawing, y: int, column: int, keys: tuple[str, str], sentence: str) -> None:
    x = _HEAD + column * _CELL
    with drawing.group(data_c=keys[1], data_d=sentence):
        drawing.box(x, y, _CELL - 2, _ROW - 2)
        drawing.text(x + _CELL / 2 - 1, y + 15, data_t=keys[0], cls="tight")


def _drain_values(product: Product, recording: Recording, length: int) -> dict[str, list[Value]]:
    m, tiles = len(product.a), product.tiles
    stored = recording.accumulators(m)
    drains = [t for t, cycle in enumerate(recording.cycles) if cycle["drains"]]
    writes = [t for t, cycle in enumerate(recording.cycles) if cycle["write"] >= 0]
    frames: list[dict[str, Value]] = []
    for t in range(length):
        frame: dict[str, Value] = {}
        for i in range(m):
            row, cycle = stored[t][i], recording.cycles[t]
            writes_now = cycle["acc_write"] and cycle["acc_row"] == i
            gone = t >= drains[i]
            frame[f"acc_class{i}"] = (
                _COLORS[0] if row and not gone else "arrives" if writes_now else ""
            )
            done = t > writes[i]
            frame[f"result_class{i}"] = _COLORS[tiles - 1] if done else ""
            for column in range(_N):
                frame[f"acc{i}{column}"] = row[column] if row and not gone else ""
                result = recording.cycles[writes[i]][f"written{column}"]
                frame[f"result{i}{column}"] = result if done else ""
        for stage, (_, signal, delay, fraction, _) in enumerate(_STAGES):
            inside = t - delay in drains
            frame[f"stage_class{stage}"] = _COLORS[tiles - 1] if inside else ""
            for column in range(_N):
                value = recording.cycles[t][signal.replace("lane", f"lane{column}")]
                frame[f"stage{stage}{column}"] = value >> fraction if inside else ""
        frames.append(frame)
    return {key: [frame[key] for frame in frames] for key in frames[0]}
