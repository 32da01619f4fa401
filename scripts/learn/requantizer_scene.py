"""Page "requantization": from an int32 accumulator to int8, by each of the five roundings."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import floor

from learn.captions import texts_of
from learn.drawing import Drawing, Scene, Value
from learn.probe import Probe
from tpulite.arch.numerics import Rounding, float32_multiplier, quantize_multiplier
from tpulite_rtl.vpu.requantizer_lane import STAGES, RequantizerLane


@dataclass(frozen=True)
class Case:
    """An accumulator and what is to become of it."""

    label: str  #: Name of the scene.
    #: The accumulator, and the channel's bias.
    total: int
    bias: int
    scale: float  #: Input scale times weight scale, divided by the output scale.
    #: Zero point of the output, and where it is clamped.
    zero_point: int
    low: int
    high: int
    lesson: str  #: Name of the text that says what this case shows.

    def record(self, rounding: Rounding) -> dict[str, int]:
        """Return the record of the channel."""
        made = float32_multiplier if rounding == Rounding.FLOAT32 else quantize_multiplier
        multiplier, shift = made(self.scale)
        fields = {name: getattr(self, name) for name in ("bias", "zero_point", "low", "high")}
        return fields | {"multiplier": multiplier, "shift": shift, "rounding": rounding}

    @property
    def exact(self) -> Fraction:
        """The result before it is rounded."""
        return (self.total + self.bias) * Fraction(self.scale)


CASES = (
    Case("an ordinary sum", 1234, -57, 0.0437, -8, -128, 127, "ordinary"),
    Case("ReLU clamps", -640, -57, 0.0437, -8, -8, 127, "relu"),
    Case("a tie below zero", -12, 0, 0.125, 0, -128, 127, "tie_below"),
    Case("a tie above zero", 20, 0, 0.125, 0, -128, 127, "tie_above"),
    Case("rounded twice", 17, 0, 0.31, 0, -128, 127, "twice"),
)

_SIGNALS = {
    "biased": "acc_1",
    "operand": "operand_2",
    "distance": "distance_2",
    "product": "product_4",
    "right": "right_4",
    "doubled": "doubled_5",
    "up": "up_5",
    "rounded": "total_6",
    "result": "o",
}

_LIBRARIES = {
    Rounding.TFLITE: "LiteRT reference, TFLite Micro",
    Rounding.RUY: "LiteRT optimized (ruy)",
    Rounding.SINGLE: "XNNPACK additions",
    Rounding.AWAY: "LiteRT reference, fully connected",
    Rounding.FLOAT32: "XNNPACK, ONNX Runtime",
}

_TABLES = (
    (Rounding.TFLITE, Rounding.RUY, Rounding.SINGLE),
    (Rounding.AWAY, Rounding.FLOAT32),
)
"""The roundings of each panel: three fit a narrow screen."""

_ROWS = (
    ("sum", "sum", 0, "The int32 sum of products."),
    ("+ bias", "biased", 0, "Sum plus bias, int32."),
    ("multiplicand", "operand", 1, "The biased sum; FLOAT32 rounds it to 24 significant bits."),
    ("multiplier", "multiplier", 2, "The scale as an integer; for FLOAT32 a 24-bit mantissa."),
    ("product", "product", 3, "Multiplicand × multiplier."),
    ("+ 2³⁰", "halved", 3, "TFLITE and RUY round the product first: add 2³⁰, then cut 31 bits."),
    ("first rounding", "first", 3, "What the first rounding leaves, in units of the result."),
    ("shift right by", "places", 4, "How many binary places of the product are the fraction."),
    ("rounded down", "floor", 4, "The product shifted right: its floor, so −1.5 gives −2."),
    ("round up?", "up", 4, "1 if the fraction, and how this rounding treats ties, ask for it."),
    ("+ zero point", "rounded", 5, "Integer part, plus the rounding, plus the zero point."),
    ("int8", "result", 6, "Clamped to the bounds of the record."),
)  # fmt: skip
"""Name, key, stage of the lane, and meaning."""

_HEAD, _CELL, _ROW, _TOP = 92, 100, 26, 62


def requantizer_scenes() -> list[Scene]:
    """Return the scenes of the page."""
    return [_scene(case) for case in CASES]


def lane_values(case: Case) -> dict[Rounding, dict]:
    """Return what the stages of the RTL's lane hold of a case, for each rounding."""
    return _simulated()[CASES.index(case)]


@cache
def _simulated() -> list[dict[Rounding, dict]]:
    """Hold each case at the inputs of a lane until it has passed all stages."""
    seen: list[dict[Rounding, dict]] = []
    lane = RequantizerLane(tuple(Rounding))
    probe = Probe(lane)

    async def bench(context) -> None:
        context.set(lane.valid, (1 << STAGES - 1) - 1)
        for case in CASES:
            found = {}
            for rounding in Rounding:
                record = case.record(rounding)
                context.set(lane.sum, case.total)
                for name, value in record.items():
                    context.set(getattr(lane, name), value)
                await context.tick().repeat(STAGES)
                values = {name: context.get(probe[path]) for name, path in _SIGNALS.items()}
                values |= {"sum": case.total, "multiplier": record["multiplier"]}
                values |= {"floor": values["doubled"] >> 1, "places": values["right"] - _LEFT}
                found[rounding] = values | _first_rounding(rounding, values)
            seen.append(found)

    probe.simulate(bench)
    return seen


_LEFT = 9
"""Places by which the lane's shifter begins further left: see `requantizer_lane`."""


def _first_rounding(rounding: Rounding, values: dict[str, int]) -> dict[str, Value]:
    """Return the product, and the first of two roundings that the RTL's register has in it."""
    if rounding not in (Rounding.TFLITE, Rounding.RUY):
        return {"halved": "–", "first": "–"}
    halved, half = values["product"], 1 << _HIGH - 1
    first = Fraction(halved >> _HIGH) / 2 ** (values["places"] - _HIGH)
    return {"product": halved - half, "halved": halved, "first": f"{float(first):.10g}"}


_HIGH = 31
"""Bits that the first of two roundings cuts."""


def _scene(case: Case) -> Scene:
    values: dict[str, list[Value]] = {}
    frames = range(STAGES)
    for rounding, found in lane_values(case).items():
        for _, key, stage, _ in _ROWS:
            name = f"{key}_{rounding.name}"
            values[name] = [found[key] if stage <= frame else "" for frame in frames]
    for index, (_, _, stage, _) in enumerate(_ROWS):
        values[f"row{index}"] = ["v1" if stage == frame else "" for frame in frames]
    texts = texts_of("requantization")
    captions = [(frame, texts[f"stage{frame}"]) for frame in frames]
    captions[-1] = (STAGES - 1, f"{captions[-1][1]} {texts[case.lesson]}")
    return Scene(
        label=case.label,
        panels=[*map(_table, _TABLES), _number_line(case)],
        values=values,
        captions=captions,
        shown=STAGES - 1,
        unit="stage",
        names=[str(frame) for frame in frames],
    )


def _table(roundings: tuple[Rounding, ...]) -> Drawing:
    drawing = Drawing(
        "Stages of the requantizer",
        _HEAD + len(roundings) * _CELL + 4,
        _TOP + len(_ROWS) * _ROW + 4,
    )
    for column, rounding in enumerate(roundings):
        x = _HEAD + column * _CELL + _CELL / 2
        drawing.text(x, 16, rounding.name, cls="bold")
        words = _LIBRARIES[rounding].replace(", ", ",\n").replace(" (", "\n(")
        for line, part in enumerate(words.split("\n")):
            drawing.text(x, 32 + 12 * line, part, cls="tiny faint")
    for index, (name, key, _, meaning) in enumerate(_ROWS):
        y = _TOP + index * _ROW
        drawing.text(_HEAD - 6, y + 17, name, cls="right small faint")
        for column, rounding in enumerate(roundings):
            value = f"{key}_{rounding.name}"
            with drawing.group(
                data_c=f"row{index}", data_d=f"{meaning} {rounding.name}: {{{value}}}."
            ):
                drawing.box(_HEAD + column * _CELL, y, _CELL - 2, _ROW - 2)
                drawing.text(_HEAD + (column + 0.5) * _CELL, y + 16, data_t=value, cls="narrow")
    return drawing


def _number_line(case: Case) -> Drawing:
    """Draw the exact value and what each rounding makes of it, before the zero point is added."""
    found = lane_values(case)
    chosen = {rounding: values["rounded"] - case.zero_point for rounding, values in found.items()}
    exact = case.exact
    first = min(floor(exact), *chosen.values()) - 1
    unit, left, width = 80, 40, 360
    drawing = Drawing("Which integer", width, 230)
    drawing.text(4, 14, "Before the zero point", cls="left bold")
    sign = "-" if case.bias < 0 else "+"
    text = f"({case.total} {sign} {abs(case.bias)}) × {case.scale:.10g} = {float(exact):.10g}"
    drawing.text(4, 32, text.replace("-", "−"), cls="left")
    drawing.line(f"M10 100H{width - 10}")
    for step in range(4):
        x = left + step * unit
        drawing.line(f"M{x} 94V106")
        drawing.text(x, 122, str(first + step).replace("-", "−"))
        if step < 3:
            drawing.line(f"M{x + unit / 2:g} 97V103")
    x = left + float(exact - first) * unit
    drawing.line(f"M{x:.1f} 52V98", cls="strong")
    drawing.line(f"M{x - 4:.1f} 92L{x:.1f} 99L{x + 4:.1f} 92", cls="strong")
    drawing.text(x, 48, "exact", cls="small bold")
    rows: dict[int, list[str]] = {}
    for rounding, value in chosen.items():
        rows.setdefault(value, []).append(rounding.name)
    for value, names in rows.items():
        x = left + (value - first) * unit
        for line, name in enumerate(names):
            drawing.box(x - 32, 130 + 19 * line, 64, 17, cls="v2")
            drawing.text(x, 143 + 19 * line, name, cls="small")
    return drawing
