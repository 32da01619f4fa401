"""Page "systolic array": one matrix product."""

from learn.array_panel import array_panel, array_values, busy_elements, color
from learn.captions import captions_of
from learn.drawing import Drawing, Scene, Value
from learn.examples import MACHINE, PRODUCTS, Product, recordings
from learn.recording import Recording

_N = MACHINE.array_size
_A, _W, _C = (24, 158), (176, 30), (176, 158)
"""Corners of the matrices."""

_WIDTH, _HEIGHT = 30, 26
_WIDE = 44


def product_scenes() -> list[Scene]:
    """Return the scene of the page."""
    product, recording = PRODUCTS["plain"], recordings()["plain"]
    written = [t for t, cycle in enumerate(recording.cycles) if cycle["acc_write"]]
    length = written[-1] + 3
    values = array_values(
        recording, length, lambda i: (color(i), f"row {i}", f"part of C[{i}][…], for row {i} of A")
    )
    values |= _matrix_values(product, recording, length)
    first, last = recording.entries[0], recording.entries[-1]
    full = first + 2 * (_N - 1)
    captions = captions_of(
        "array",
        {},
        start=0,
        first_weights=first - 1,
        first_vector=first,
        skew=first + 1,
        wavefront=first + 3,
        corner=full,
        deskew=first + 2 * _N - 1,
        stored=written[0],
        end=last + 2 * _N - 1,
    )
    return [
        Scene(
            label="6 × 4 by 4 × 4",
            panels=[array_panel(_N), _matrix_panel(product)],
            values=values,
            captions=captions,
            shown=first + 4,
            names=[str(t) for t in range(length)],
            bars=("elements at work", busy_elements(recording, length), _N * _N),
        )
    ]


def _matrix_panel(product: Product) -> Drawing:
    m = len(product.a)
    drawing = Drawing("The matrices", _C[0] + _N * _WIDE + 6, _C[1] + m * _HEIGHT + 24)
    below = _C[1] + m * _HEIGHT + 14
    drawing.text(_C[0], below, "gray: not all products yet", cls="left small faint")
    for (x, y), name in ((_A, "A"), (_W, "W"), (_C, "C = A × W")):
        drawing.text(x, y - 8, name, cls="left bold")
    for i in range(m):
        y = _A[1] + i * _HEIGHT
        drawing.text(_A[0] - 8, y + 17, str(i), cls="small faint")
        with drawing.group(data_c=f"row_class{i}"):
            for k in range(_N):
                x = _A[0] + k * _WIDTH
                drawing.box(x, y, _WIDTH - 2, _HEIGHT - 2)
                drawing.text(x + 14, y + 17, str(product.a[i, k]))
        for column in range(_N):
            x = _C[0] + column * _WIDE
            factors = zip(product.a[i], product.w[:, column], strict=True)
            terms = " + ".join(f"{a} · {w}" for a, w in factors)
            sentence = f"C[{i}][{column}] = {terms.replace('-', '−')}: {{state{i}{column}}}."
            with drawing.group(data_c=f"result_class{i}{column}", data_d=sentence):
                drawing.box(x, y, _WIDE - 2, _HEIGHT - 2)
                drawing.text(x + 21, y + 17, data_t=f"c{i}{column}")
    for k in range(_N):
        for column in range(_N):
            x, y = _W[0] + column * _WIDE, _W[1] + k * _HEIGHT
            drawing.box(x, y, _WIDE - 2, _HEIGHT - 2, data_c=f"weight_class{k}")
            drawing.text(x + 21, y + 17, str(product.w[k, column]))
    return drawing


def _matrix_values(product: Product, recording: Recording, length: int) -> dict[str, list[Value]]:
    m, n = len(product.a), range(_N)
    stored = recording.accumulators(m)
    frames: list[dict[str, Value]] = []
    for t, cycle in enumerate(recording.cycles[:length]):
        frame: dict[str, Value] = {}
        for k in n:
            arrives = cycle["weight_valid"] and cycle["weight_row"] == k
            frame[f"weight_class{k}"] = "arrives" if arrives else ""
        for i in range(m):
            entered = recording.entries[i]
            inside = entered <= t <= entered + 2 * _N - 1
            frame[f"row_class{i}"] = color(i) if inside else ""
            row = stored[t][i]
            for column in n:
                at = f"{i}{column}"
                passed = t - entered - column
                value, state = "", "not begun"
                if row is not None:
                    value, state = row[column], f"{row[column]}, in the accumulators"
                elif 0 <= passed < _N:
                    value = cycle[f"sum{passed}{column}"]
                    state = f"{value} after {passed + 1} of {_N} products"
                elif passed >= _N:
                    value = frames[-1][f"c{at}"]
                    state = f"{value}, complete, on its way out"
                frame |= {f"c{at}": value, f"state{at}": state}
                moving = passed >= 0 and row is None
                shade = f"{color(i)} unfinished" if passed < _N else color(i)
                frame[f"result_class{at}"] = shade if moving else ""
        frames.append(frame)
    return {key: [frame[key] for frame in frames] for key in frames[0]}
