"""Page "what limits what": the roofline of measured programs, and the limits of one layer."""

from math import atan2, degrees, hypot, log2, log10
from pathlib import Path
from typing import NamedTuple

from learn.captions import texts_of
from learn.drawing import Drawing, Scene, Value
from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import Command, Drain, Opcode, dense
from tpulite.arch.timing import conv_cycles, drain_interval, tile_cycles

_BENCH = Path(__file__).resolve().parents[2] / "docs/bench.md"
_COLUMNS = ("workload", "MACs", "cycles", "bytes read", "bytes written")

_CONFIG = Config()
_PEAK = _CONFIG.array_size**2
_RIDGE = _PEAK / BEAT_BYTES


class Measured(NamedTuple):
    """A program that the chip has run."""

    name: str  #: Its name in docs/bench.md.
    #: Multiply-accumulates, and cycles by the chip's counters.
    macs: int
    cycles: int
    #: Bytes from DRAM and to it.
    read: int
    written: int

    @property
    def intensity(self) -> float:
        """MAC/byte, of the bytes on the busier of the two channels to DRAM."""
        return self.macs / max(self.read, self.written)

    @property
    def rate(self) -> float:
        """MAC/cycle."""
        return self.macs / self.cycles


_SHOWN = texts_of("limits")
"""The programs that the page points at, and what each teaches."""

_LEFT, _TOP, _WIDTH, _HEIGHT = 34, 24, 350, 330
_X, _Y = (0.5, 128), (6, 340)
"""Ends of the axes: MAC/byte and MAC/cycle."""


def limit_scenes() -> list[Scene]:
    """Return the scenes of the page."""
    few = Config(requant_lanes=2)
    return [
        _roofline(),
        _layer("a layer: K = 256, 256 channels", _Layer(256, 256, _CONFIG)),
        _layer(
            "the same layer, with its weights in the buffer already",
            _Layer(256, 256, _CONFIG, resident=True),
        ),
        _layer("a layer: K = 16, 256 channels, 2 requantizer lanes", _Layer(16, 256, few)),
    ]


def measured() -> dict[str, Measured]:
    """Return what docs/bench.md says of each program that was run on the RTL.

    ValueError if the page has no such table.
    """
    lines = _BENCH.read_text(encoding="utf-8").splitlines()
    tables = [i for i, line in enumerate(lines) if set(_COLUMNS) <= set(_cells(line))]
    if len(tables) != 1:
        raise ValueError(f"{_BENCH.name}: one table must have the columns {', '.join(_COLUMNS)}")
    places = [_cells(lines[tables[0]]).index(name) for name in _COLUMNS]
    found = {}
    for line in lines[tables[0] + 2 :]:
        if not line.startswith("|"):
            break
        cells = _cells(line)
        name, *numbers = (cells[place].strip("`").replace(",", "") for place in places)
        found[name] = Measured(name, *map(int, numbers))
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def _place(intensity: float, rate: float) -> tuple[float, float]:
    """Return where a program lies in the picture."""
    x = log10(intensity / _X[0]) / log10(_X[1] / _X[0])
    y = log10(rate / _Y[0]) / log10(_Y[1] / _Y[0])
    return round(_LEFT + x * _WIDTH, 1), round(_TOP + (1 - y) * _HEIGHT, 1)


def _roofline() -> Scene:
    programs = measured()
    shown = [programs[name] for name in _SHOWN]
    values: dict[str, list[Value]] = {}
    frames = range(len(shown))
    for index in frames:
        values[f"dot{index}"] = ["chosen" if index == frame else "" for frame in frames]
    for key, texts in _facts(shown).items():
        values[key] = texts
    captions = [(i, f"{x.name}: {_SHOWN[x.name]}") for i, x in enumerate(shown)]
    return Scene(
        label="roofline of measured programs",
        panels=[_roofline_panel(shown), _facts_panel()],
        values=values,
        captions=captions,
        shown=len(shown) - 2,
        unit="program",
        names=[f"{i + 1} of {len(shown)}" for i in frames],
    )


def _roofline_panel(shown: list[Measured]) -> Drawing:
    drawing = Drawing("Roofline", _LEFT + _WIDTH + 14, _TOP + _HEIGHT + 42)
    drawing.text(4, 14, "MAC/cycle", cls="left small faint")
    drawing.text(
        _LEFT + _WIDTH, _TOP + _HEIGHT + 36, "MAC/byte of DRAM traffic", cls="right small faint"
    )
    for exponent in range(-1, 8):
        x, _ = _place(2.0**exponent, 1)
        drawing.line(f"M{x} {_TOP}V{_TOP + _HEIGHT}", cls="grid")
        label = f"{2**exponent}" if exponent >= 0 else f"1/{2**-exponent}"
        drawing.text(x, _TOP + _HEIGHT + 16, label, cls="small faint")
    for rate in (8, 16, 32, 64, 128, 256):
        _, y = _place(1, rate)
        drawing.line(f"M{_LEFT} {y}H{_LEFT + _WIDTH}", cls="grid")
        drawing.text(_LEFT - 6, y + 4, str(rate), cls="right small faint")
    start, ridge, end = (
        _place(_X[0], _X[0] * BEAT_BYTES),
        _place(_RIDGE, _PEAK),
        _place(_X[1], _PEAK),
    )
    path = "".join(f"{'L' if i else 'M'}{x} {y}" for i, (x, y) in enumerate((start, ridge, end)))
    drawing.line(path, cls="strong")
    x, y = _place(1.9, 44)
    turn = f"rotate(-{_slope():.0f} {x} {y})"
    drawing.text(x, y, f"DRAM: {BEAT_BYTES} bytes/cycle", cls="bold", transform=turn)
    drawing.text(end[0] + 8, ridge[1] - 12, f"multipliers: {_PEAK} MAC/cycle", cls="right bold")
    places = [_place(program.intensity, program.rate) for program in shown]
    for index, (program, (x, y)) in enumerate(zip(shown, places, strict=True)):
        sentence = (
            f"{program.name}: {program.rate:.1f} MAC/cycle at {program.intensity:.1f} MAC/byte."
        )
        with drawing.group(data_c=f"dot{index}", data_d=sentence, cls="dot"):
            crowded = any(hypot(x - other[0], y - other[1]) < 16 for other in places[:index])
            drawing.add("circle", cx=x, cy=y, r=5)
            drawing.text(x + (-9 if crowded else 9), y + 13, str(index + 1), cls="bold")
        listed = _TOP + _HEIGHT - 16 * (len(shown) - index) - 4
        with drawing.group(data_c=f"dot{index}", cls="dot"):
            drawing.text(_LEFT + 176, listed + 10, f"{index + 1}", cls="right label")
            drawing.text(_LEFT + 184, listed + 10, program.name, cls="left label")
    return drawing


def _slope() -> float:
    """Return the angle of the DRAM roof in degrees."""
    (x0, y0), (x1, y1) = _place(1, BEAT_BYTES), _place(_RIDGE, _PEAK)
    return degrees(atan2(y0 - y1, x1 - x0))


_FACTS = (
    *("program", "MACs", "cycles", "DRAM bytes, busier channel", "MAC/byte", "MAC/cycle"),
    *("cycles of all multipliers", "cycles of DRAM", "limit", "share of that limit"),
)


def _facts_panel() -> Drawing:
    drawing = Drawing("Numbers of the program", 330, 24 + len(_FACTS) * 26)
    drawing.text(4, 14, "Measured on the RTL", cls="left bold")
    for index, name in enumerate(_FACTS):
        y = 22 + index * 26
        drawing.box(4, y, 322, 24)
        drawing.text(12, y + 16, name, cls="left faint")
        drawing.text(318, y + 16, data_t=f"fact{index}", cls="right bold")
    return drawing


def _facts(shown: list[Measured]) -> dict[str, list[Value]]:
    columns = []
    for x in shown:
        busier = max(x.read, x.written)
        work, dram = -(-x.macs // _PEAK), -(-busier // BEAT_BYTES)
        limit = "multipliers" if work >= dram else "DRAM"
        share = max(work, dram) / x.cycles
        numbers = [f"{x.macs:,}", f"{x.cycles:,}", f"{busier:,}"]
        numbers += [f"{x.intensity:.1f}", f"{x.rate:.1f}", f"{work:,}", f"{dram:,}"]
        columns.append([x.name, *numbers, limit, f"{share:.0%}"])
    return {f"fact{index}": list(texts) for index, texts in enumerate(zip(*columns, strict=True))}


_LIMITS = (
    ("multipliers", "M × K × channels / 256"),
    ("weight tiles", "N = 16 cycles for each tile"),
    ("DRAM", "what is loaded or stored, 16 bytes/cycle"),
    ("drain", "M vectors × N / lanes, for each 16 channels"),
)
_VECTORS = [2**i for i in range(11)]


class _Layer(NamedTuple):
    """A fully connected layer of k inputs on a machine; resident: its weights are not loaded."""

    k: int
    channels: int
    config: Config
    resident: bool = False


def _limits(m: int, layer: _Layer) -> list[int]:
    """Return the cycles that each resource needs for a layer of m vectors."""
    k, channels, config, resident = layer
    n = config.array_size
    blocks, tiles = channels // n, k // n
    moved = max((0 if resident else k * channels) + m * k, m * channels)
    return [
        blocks * tiles * m,
        blocks * tiles * tile_cycles(1, config),
        -(-moved // BEAT_BYTES),
        blocks * m * drain_interval(Drain.REQUANTIZE, config),
    ]


def _layer(label: str, layer: _Layer) -> Scene:
    k, channels, config, _ = layer
    rows = [_limits(m, layer) for m in _VECTORS]
    most = max(map(max, rows))
    values: dict[str, list[Value]] = {"m": [f"M = {m}" for m in _VECTORS]}
    captions = []
    for frame, (m, cycles) in enumerate(zip(_VECTORS, rows, strict=True)):
        blocks = channels // config.array_size
        fields = dense(m=m, k_tiles=k // config.array_size, drain=Drain.REQUANTIZE)
        command = Command.make(Opcode.CONV, **fields)
        matrix = blocks * conv_cycles(command.fields, config)
        limit = max(cycles)
        name = _LIMITS[cycles.index(limit)][0]
        share = cycles[0] / max(limit, matrix)
        for index, count in enumerate(cycles):
            wide = round(300 * log2(count + 1) / log2(most + 1), 1)
            values.setdefault(f"wide{index}", []).append(wide)
            values.setdefault(f"count{index}", []).append(f"{count:,}")
            values.setdefault(f"class{index}", []).append("v1" if count == limit else "v0")
        values.setdefault("matrix", []).append(f"{matrix:,}")
        told = f"M = {m}. The limit: {name}, {limit:,} cycles."
        captions.append((frame, f"{told} At best {share:.0%} of the multipliers work."))
    return Scene(
        label=label,
        panels=[_layer_panel(layer)],
        values=values,
        captions=captions,
        shown=3,
        unit="vectors",
        names=[str(m) for m in _VECTORS],
    )


def _layer_panel(layer: _Layer) -> Drawing:
    k, channels, config, _ = layer
    drawing = Drawing("Limits of a layer", 370, 290)
    drawing.text(4, 16, "Cycles that each resource needs, at least", cls="left bold")
    facts = f"K = {k}, {channels} channels, {config.lanes} requantizer lanes"
    drawing.text(4, 34, f"{facts}; bars are logarithmic", cls="left small faint")
    drawing.text(366, 16, data_t="m", cls="right bold")
    for index, (name, formula) in enumerate(_LIMITS):
        y = 62 + index * 52
        drawing.text(4, y, name, cls="left bold")
        drawing.text(366, y, formula, cls="right small faint")
        drawing.add(
            "rect",
            x=4,
            y=y + 6,
            height=22,
            width=1,
            data_a=f"width:wide{index}",
            data_c=f"class{index}",
        )
        drawing.text(366, y + 22, data_t=f"count{index}", cls="right bold")
    drawing.text(
        4, 274, "Matrix unit, by the cycle model (tiles and drain overlap):", cls="left small faint"
    )
    drawing.text(366, 274, data_t="matrix", cls="right bold")
    return drawing
