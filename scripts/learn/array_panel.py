"""The panel of the systolic array: skew registers, elements, deskew registers."""

from collections.abc import Callable

from learn.drawing import Drawing, Value
from learn.recording import Recording

_SLOT = 30
"""Width of a skew register."""

_LEFT, _TOP = 4 + 4 * _SLOT, 58
_CELL_WIDTH, _CELL_HEIGHT = 74, 66
_REGISTER = 24
"""Height of a deskew register."""

_BUSY = (
    "Row {row}, column {column}: weight {{w{row}{column}}} × activation {{x{row}{column}}} + "
    "{{in{row}{column}}} from above = {{sum{row}{column}}}. The next weight register holds "
    "{{next{row}{column}}}. This is {{who{row}{column}}}."
)
_IDLE = (
    "Row {row}, column {column}: no vector is here in this cycle, so nobody looks at the sum. "
    "The next weight register holds {{next{row}{column}}}."
)

Labels = Callable[[int], tuple[str, str, str]]
"""From the index of a vector to its color, its short name and its name in a sentence."""


def color(index: int) -> str:
    """Return the class that colors the parts of one vector, or of one tile."""
    return f"v{index % 6}"


def array_panel(n: int) -> Drawing:
    """Return the drawing of an array of n rows and columns."""
    drawing = Drawing(
        "The systolic array",
        _LEFT + n * _CELL_WIDTH + 6,
        _TOP + n * (_CELL_HEIGHT + _REGISTER) + 58,
    )
    text = drawing.text
    text(4, 12, "vector", cls="left small faint")
    text(4, 24, "enters", cls="left small faint")
    text(4 + _SLOT * 2.9, 24, "skew registers", cls="small faint")
    text(_LEFT + n * _CELL_WIDTH / 2, 12, "row of weights on its way in", cls="small faint")
    for column in range(n):
        x = _LEFT + column * _CELL_WIDTH
        drawing.box(x + 18, 18, 40, 22, data_c="weights_class")
        text(x + 38, 34, data_t=f"arriving{column}", cls="bold")
        drawing.line(f"M{x + 38} 40V{_TOP - 2}", cls="dashed")
    for row in range(n):
        _draw_skew(drawing, row, n)
        for column in range(n):
            _draw_element(drawing, row, column)
    for column in range(n):
        _draw_deskew(drawing, column, n)
    bottom = _TOP + n * (_CELL_HEIGHT + _REGISTER)
    text(4, bottom - 36, "deskew registers", cls="left small faint")
    text(4, bottom + 20, "sums leave together", cls="left small faint")
    legend = "w weight · x activation · Σ partial sum · small box: next weight"
    text(4, bottom + 50, legend, cls="left small faint")
    return drawing


def _draw_skew(drawing: Drawing, row: int, n: int) -> None:
    y = _TOP + row * _CELL_HEIGHT + 20
    with drawing.group(
        data_c=f"entering_class{row}",
        data_d=f"Activation {row} of the vector that enters: {{vector{row}}}. It reaches the array "
        f"{row} cycles later.",
    ):
        drawing.box(4, y, 26, 24)
        drawing.text(17, y + 16, data_t=f"vector{row}")
    drawing.line(f"M30 {y + 12}H{_LEFT + 2}")
    for stage in range(1, row + 1):
        x = 4 + (n - 1 - row + stage) * _SLOT
        with drawing.group(
            data_c=f"skew_class{row}{stage}",
            data_d=f"Skew register {stage} of row {row}: {{skew{row}{stage}}}.",
        ):
            drawing.box(x, y, 26, 24)
            drawing.text(x + 13, y + 16, data_t=f"skew{row}{stage}", cls="moves-right")


def _draw_element(drawing: Drawing, row: int, column: int) -> None:
    x, y = _LEFT + column * _CELL_WIDTH + 2, _TOP + row * _CELL_HEIGHT
    at = f"{row}{column}"
    sentences = "|".join(s.format(row=row, column=column) for s in (_IDLE, _BUSY))
    with drawing.group(data_c=f"class{at}", data_d=sentences, data_k=f"busy{at}"):
        drawing.box(x, y, 70, 60)
        drawing.text(x + 5, y + 16, "w", cls="left faint")
        drawing.text(x + 18, y + 16, cls="left bold", data_t=f"w{at}")
        drawing.box(x + 41, y + 3, 26, 17, data_c=f"next_class{at}")
        drawing.text(x + 54, y + 16, cls="small", data_t=f"next{at}")
        drawing.text(x + 5, y + 34, "x", cls="left faint")
        drawing.text(x + 18, y + 34, cls="left bold moves-right", data_t=f"x{at}")
        drawing.text(x + 66, y + 34, cls="right small faint", data_t=f"name{at}")
        drawing.text(x + 5, y + 53, "Σ", cls="left faint")
        drawing.text(x + 66, y + 53, cls="right big moves-down", data_t=f"sum{at}")


def _draw_deskew(drawing: Drawing, column: int, n: int) -> None:
    x, top = _LEFT + column * _CELL_WIDTH + 12, _TOP + n * _CELL_HEIGHT
    bottom = top + n * _REGISTER
    drawing.line(f"M{x + 25} {top - 6}V{bottom + 4}")
    for stage in range(1, n - column):
        y = top + (stage - 1) * _REGISTER
        with drawing.group(
            data_c=f"deskew_class{column}{stage}",
            data_d=f"Deskew register {stage} of column {column}: {{deskew{column}{stage}}}.",
        ):
            drawing.box(x, y, 50, 20)
            drawing.text(x + 25, y + 14, data_t=f"deskew{column}{stage}", cls="moves-down")
    with drawing.group(
        data_c="out_class", data_d=f"The sum that leaves column {column}: {{out{column}}}."
    ):
        drawing.box(x, bottom + 4, 50, 24)
        drawing.text(x + 25, bottom + 21, data_t=f"out{column}", cls="bold moves-down")


def array_values(recording: Recording, length: int, labels: Labels) -> dict[str, list[Value]]:
    """Return the values of the panel.

    Parameters
    ----------
    length : int
        Cycles of it.
    labels : callable
        Color and names of a vector by its index.
    """
    frames = [_Frame(recording, t, labels) for t in range(length)]
    return {key: [frame.values[key] for frame in frames] for key in frames[0].values}


def busy_elements(recording: Recording, length: int) -> list[int]:
    """Return how many elements work on a vector that counts, for each cycle."""
    n = range(recording.config.array_size)
    return [
        sum(recording.vector_in(t, row, column) >= 0 for row in n for column in n)
        for t in range(length)
    ]


class _Frame:
    """The values of one cycle."""

    def __init__(self, recording: Recording, t: int, labels: Labels) -> None:
        self.recording, self.t, self.labels = recording, t, labels
        self.n = recording.config.array_size
        self.cycle = recording.cycles[t]
        self.values: dict[str, Value] = {}
        self.loaded = self._loaded_rows()
        arrives = self.cycle["weight_valid"]
        self.values["weights_class"] = "arrives" if arrives else ""
        for column in range(self.n):
            at = f"next{self.cycle['weight_row']}{column}"
            self.values[f"arriving{column}"] = recording.cycles[t + 1][at] if arrives else ""
        for row in range(self.n):
            self._skew(row)
            self._deskew(row)
            for column in range(self.n):
                self._element(row, column)

    def _loaded_rows(self) -> set[int]:
        """Return the rows whose next weights have been written before this cycle."""
        before = self.recording.cycles[: self.t]
        return {cycle["weight_row"] for cycle in before if cycle["weight_valid"]}

    def _shown(self, keys: tuple[str, str], value: int, vector: int) -> None:
        """Set a text and a class, empty if no vector that counts is there."""
        self.values[keys[0]] = value if vector >= 0 else ""
        self.values[keys[1]] = self.labels(vector)[0] if vector >= 0 else ""

    def _skew(self, row: int) -> None:
        cycle = self.cycle
        entering = self.recording.vector_in(self.t, 0, 0)
        self._shown((f"vector{row}", f"entering_class{row}"), cycle[f"vector{row}"], entering)
        for stage in range(1, row + 1):
            name = f"skew{row}{stage}"
            vector = self.recording.vector_in(self.t, stage, 0)
            self._shown((name, f"skew_class{row}{stage}"), cycle[name], vector)

    def _deskew(self, column: int) -> None:
        cycle, last = self.cycle, self.n - 1
        for stage in range(1, self.n - column):
            name = f"deskew{column}{stage}"
            vector = self.recording.vector_in(self.t, last + stage + 1, column)
            self._shown((name, f"deskew_class{column}{stage}"), cycle[name], vector)
        # The output is the last register of the column, in the last column that of the element.
        source = f"deskew{column}{last - column}" if column < last else f"out{last}{last}"
        leaving = self.recording.vector_in(self.t, last + 1, last)
        self._shown((f"out{column}", "out_class"), cycle[source], leaving)

    def _element(self, row: int, column: int) -> None:
        cycle, at = self.cycle, f"{row}{column}"
        vector = self.recording.vector_in(self.t, row, column)
        busy = vector >= 0
        shade, name, who = self.labels(vector) if busy else ("", "", "")
        written = cycle["weight_valid"] and cycle["weight_row"] == row
        used = any(self.recording.vector_in(t, row, column) >= 0 for t in range(self.t + 1))
        self.values |= {
            f"class{at}": shade,
            f"busy{at}": int(busy),
            f"name{at}": name,
            f"who{at}": who,
            f"w{at}": cycle[f"w{at}"] if used else "",
            f"next{at}": cycle[f"next{at}"] if row in self.loaded else "",
            f"next_class{at}": "arrives" if written else "",
            f"x{at}": cycle[f"x{at}"] if busy else "",
            f"in{at}": (cycle[f"out{row - 1}{column}"] if row else 0) if busy else "",
            f"sum{at}": cycle[f"sum{at}"] if busy else "",
        }
