"""C binds layers to shapes as Python does, byte for byte."""

import ctypes
import shutil
import subprocess
import zlib
from contextlib import suppress
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.arch.memory import Window, WindowBinding
from tpulite.arch.registers import Permission, offset_of
from tpulite.compiler.bind import Shape, ShapeRange, compile_range
from tpulite.export.ranges import export_range
from tpulite.graph.layers import Depthwise
from tpulite.runtime.device import Job
from tpulite.runtime.golden_device import GoldenDevice
from tpulite_testing.drawn.narrow import narrow
from tpulite_testing.drawn.range_cases import (
    Case,
    config_name,
    draw_case,
    draw_inputs,
    expected,
    int8,
    requantization,
)

SEED = 29
SHAPES = 15
KINDS = {"affine": 1, "elementwise": 2, "lut": 1, "pool": 1, "conv": 1, "depthwise": 1}
"""How many layers of each kind are drawn for each machine."""

INT4 = Config(int4=True)
CONFIGS = (Config(), Config(ub_rows=1024), Config(array_size=4, ub_rows=2048))

MEMORY = 1 << 21
"""Where the memory is for the golden machine."""

READ = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32)
WRITE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)

STRICT = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror")

SHIM = """
#include "{name}.h"
static uint8_t image[{upper}_IMAGE_BYTES];
static tpulite_bind_item work[{upper}_COMMANDS];
static tpulite_bound bound;
const uint8_t *{name}_try(const tpulite_shape *shape, uint32_t *numbers, uint32_t less)
{{
    bound.image = image;
    bound.image_bytes = less == 1 ? numbers[0] : sizeof image;
    bound.work = work;
    bound.work_items = less == 2 ? numbers[0] : {upper}_COMMANDS;
    numbers[0] = {name}_bind(shape, &bound);
    numbers[1] = bound.program.commands;
    numbers[2] = bound.program.command_count;
    numbers[3] = bound.program.constants_bytes;
    numbers[4] = bound.network.memory_bytes;
    return image;
}}
int {name}_run(const tpulite_chip *chip, uint8_t *memory, const void *const *inputs,
    void *const *outputs)
{{
    tpulite_account account;
    tpulite_placement placement = {{0}};
    placement.chip = *chip;
    placement.memory = memory;
    placement.memory_address = {memory}u;
    placement.polls = 1;
    return tpulite_network_run(&bound.network, &placement, inputs, outputs, &account);
}}
"""

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="gcc is missing (Debian: apt install gcc)"
)


def draw_depthwise(rng) -> Case:
    channels = int(rng.choice([3, 16, 40]))
    kernel, stride = (tuple(int(v) for v in rng.integers(1, high, 2)) for high in (6, 4))
    padding = tuple(int(v) for v in rng.integers(0, 4, 4))
    dilation = (1, 1) if rng.random() < 0.7 else (2, 1)
    layer = Depthwise(
        name="layer",
        inputs=("x",),
        output="y",
        weight=int8(rng, *kernel, channels),
        requantization=requantization(rng, channels, 100),
        input_zero_point=int(rng.integers(-9, 9)),
        weight_zero_point=0,
        stride=stride,
        dilation=dilation,
        padding=padding,
    )
    smallest = tuple(
        max(1, (kernel[i] - 1) * dilation[i] + 1 - padding[i] - padding[i + 2]) for i in (0, 1)
    )
    return Case(layer, channels, channels, smallest)


def drawn():
    """Return programs for ranges of shapes, and their layers, by name."""
    rng = np.random.default_rng(SEED)
    programs = {}
    cases = [(kind, number) for kind, count in KINDS.items() for number in range(count)]
    for config, (kind, number) in product(CONFIGS, cases):
        case = draw_depthwise(rng) if kind == "depthwise" else draw_case(rng, kind)
        shapes = case.range(int(rng.integers(1, 4)), *map(int, rng.integers(1, 60, 2)))
        if kind == "affine":
            shapes = replace(shapes, channels=(0, case.channels), batch=(0, shapes.batch[1]))
        name = f"{kind}_{config_name(config)}_{number}"
        graph = case.graph(shapes.height[1], shapes.width[1])
        with suppress(ValueError):  # the buffer is too small
            programs[name] = compile_range(graph, shapes, config).plain, case
    # A buffer that holds two tiles; every second tap of a kernel; three lines of five taps, in
    # passes that share a line.
    programs["depthwise_paired"] = ranged_depthwise(
        rng, (3, 2), ShapeRange((1, 1), (40, 60), (36, 44)),
        ub_rows=512, stride=(3, 2), padding=(0, 2, 1, 1),
    )  # fmt: skip
    programs["depthwise_phases"] = ranged_depthwise(
        rng, (6, 6), ShapeRange((1, 2), (6, 40), (7, 44)), stride=(2, 2), padding=(2, 1, 3, 0)
    )
    programs["depthwise_wide"] = ranged_depthwise(
        rng, (5, 5), ShapeRange((1, 2), (3, 30), (3, 40)), padding=(2, 2, 2, 2)
    )
    for number in range(3):
        case = draw_case(rng, "conv")
        case = replace(case, layer=narrow(case.layer, rng))
        shapes = case.range(2, 20, 30)
        graph = case.graph(shapes.height[1], shapes.width[1])
        programs[f"conv_int4_{number}"] = compile_range(graph, shapes, INT4).plain, case
    return programs


def ranged_depthwise(rng, kernel, shapes, *, ub_rows=2048, **geometry):
    """Return a program for a range of shapes of a depthwise layer, and the layer."""
    layer = Depthwise(
        name="layer",
        inputs=("x",),
        output="y",
        weight=int8(rng, *kernel, 20),
        requantization=requantization(rng, 20, 100),
        **geometry,
    )
    case = Case(layer, 20, 20, (shapes.height[0], shapes.width[0]))
    graph = case.graph(shapes.height[1], shapes.width[1])
    return compile_range(graph, shapes, Config(ub_rows=ub_rows)).plain, case


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return all programs, what was exported of each, and their C as one library."""
    folder = tmp_path_factory.mktemp("bind")
    programs = drawn()
    exported = {name: export_range(program) for name, (program, _) in programs.items()}
    for name, each in exported.items():
        each.files(name, folder)
        (folder / f"{name}_try.c").write_text(
            SHIM.format(name=name, upper=name.upper(), memory=MEMORY)
        )
    library = folder / "bind.so"
    sources = sorted(path for path in folder.glob("*.c") if path.name != "main.c")
    command = ["gcc", *STRICT, "-shared", "-fPIC", *sources, "-o", library]
    subprocess.run(command, check=True)
    return programs, exported, ctypes.CDLL(str(library))


def bind(library, name: str, shape: Shape, room: int = 0, less: int = 0) -> tuple[list[int], int]:
    """Return what C says of a shape: numbers, and where the image is.

    With 1 for ``less`` the image has ``room`` bytes, with 2 there are so many items of work.
    """
    extents = (ctypes.c_int32 * 4)(*shape)
    numbers = (ctypes.c_uint32 * 5)(room)
    function = library[f"{name}_try"]
    function.restype = ctypes.c_void_p
    image = function(extents, numbers, less)
    return [*numbers], image


def bind_in_python(program, shape: Shape):
    extents = {"batch": shape.batch, "channels": shape.channels}
    return program.bind(shape.height, shape.width, **extents)


def pointer(values: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(values.ctypes.data)


def draw_shape(rng, shapes: ShapeRange) -> Shape:
    limits = (shapes.batch, shapes.height, shapes.width, shapes.channels or (1, 1))
    # The ends of a range as often as all that is between.
    ends = ((low, high, int(rng.integers(low, high + 1))) for low, high in limits)
    return Shape(*(int(rng.choice(each)) for each in ends))


def test_commands_and_constants_are_pythons(built):
    programs, exported, library = built
    rng = np.random.default_rng(SEED)
    chosen = set()
    for name, (program, _) in programs.items():
        for _ in range(SHAPES):
            shape = draw_shape(rng, program.shapes)
            (status, at, count, size, memory), image = bind(library, name, shape)
            assert status == 0, (name, shape)
            bound = bind_in_python(program, shape)
            words = ctypes.string_at(image + at, 32 * count)
            assert words == bound.encode(), (name, shape)
            assert ctypes.string_at(image, size) == bound.constants, (name, shape)
            assert count <= exported[name].commands
            assert memory <= exported[name].memory_bytes
            chosen.add(program.strategy(shape).name.partition("/")[0])
    assert len(chosen) >= 10, "most kinds of strategies are compared"
    assert any(name.startswith("paired") for name in chosen)


class _Chip:
    """A golden machine behind registers, whose DRAM has the image at 0."""

    def __init__(self, program, image: int, image_bytes: int, memory: np.ndarray) -> None:
        self._device = GoldenDevice(program.config, dram_bytes=2 * MEMORY)
        self._image, self._memory, self._registers = (image, image_bytes), memory, {}
        self.functions = READ(self._read), WRITE(self._write)

    def _read(self, _context, offset: int) -> int:
        return int(offset == offset_of("IRQ_STATUS"))

    def _write(self, _context, offset: int, value: int) -> None:
        self._registers[offset] = value
        if offset == offset_of("CONTROL"):
            self._start()

    def _start(self) -> None:
        values = self._registers
        stride = offset_of("WINDOW1_LOW") - offset_of("WINDOW0_LOW")

        def window(number: int) -> WindowBinding:
            names = "WINDOW0_LOW", "WINDOW0_SIZE", "WINDOW0_PERMISSION"
            base, size, permission = (values[offset_of(x) + number * stride] for x in names)
            return WindowBinding(
                base, size, *(bool(permission & x) for x in (Permission.READ, Permission.WRITE))
            )

        self._device.write(0, ctypes.string_at(*self._image))
        self._device.write(MEMORY, self._memory)
        windows = tuple(map(window, range(len(Window))))
        first, count = (values[offset_of(f"PROGRAM_{x}")] for x in ("LOW", "LENGTH"))
        assert self._device.run(Job(first, count, windows)).fault is None
        self._memory[:] = self._device.read(MEMORY, len(self._memory))


def test_bound_networks_run_on_the_golden_machine(built):
    programs, exported, library = built
    rng = np.random.default_rng(SEED)
    for name, (program, case) in programs.items():
        filled = program.shapes.filled
        height, width = (min(limits[1], limits[0] + 8) for limits in (filled.height, filled.width))
        shape = Shape(filled.batch[1], height, width, filled.channels[1])
        (*_, size), image = bind(library, name, shape)
        bound = bind_in_python(program, shape)
        inputs = draw_inputs(rng, bound)
        due = expected(case, inputs)
        memory, y = np.zeros(size, np.uint8), np.zeros_like(due)
        chip = _Chip(program, image, exported[name].image_bytes, memory)
        functions = (ctypes.c_void_p * 3)(
            *(ctypes.cast(x, ctypes.c_void_p).value for x in chip.functions)
        )
        sources = (ctypes.c_void_p * 2)(*(x.ctypes.data for x in inputs.values()))
        targets = (ctypes.c_void_p * 1)(y.ctypes.data)
        assert library[f"{name}_run"](functions, pointer(memory), sources, targets) == 0
        np.testing.assert_array_equal(y, due, err_msg=f"{name} {shape}")


def test_shapes_beyond_the_range_are_told_by_axis(built):
    programs, _, library = built
    name, (program, _) = next(iter(programs.items()))
    shapes = program.shapes
    least = Shape(*(getattr(shapes, axis)[0] for axis in Shape._fields))
    for status, axis in enumerate(Shape._fields, 1):
        low, high = getattr(shapes, axis)
        for extent in (low - 1, high + 1, -1, (1 << 31) - 1):
            (got, *_), _ = bind(library, name, least._replace(**{axis: extent}))
            assert got == status


def test_buffers_that_are_too_small_are_told_and_kept(built):
    programs, _, library = built
    for name, (program, _) in programs.items():
        shape = draw_shape(np.random.default_rng(SEED), program.shapes.filled)
        (_, at, count, _, _), image = bind(library, name, shape)
        ctypes.memset(image + at + 32 * (count - 1), 0xA5, 32)
        for less, room in ((1, at + 32 * (count - 1)), (2, count - 2)):
            (status, *_), image = bind(library, name, shape, room, less)
            assert status == 5 + less
            assert ctypes.string_at(image + at + 32 * (count - 1), 32) == b"\xa5" * 32


def test_the_example_prints_what_it_bound(tmp_path):
    case = draw_case(np.random.default_rng(SEED), "affine")
    shapes = case.range(2, 30, 30)
    program = compile_range(case.graph(7, 5), shapes, Config()).plain
    files = export_range(program).files("norm", tmp_path)
    sources = [path for path in files if path.suffix == ".c"]
    subprocess.run(["gcc", *STRICT, *sources, "-o", tmp_path / "bind"], check=True)

    def run(shape: str) -> subprocess.CompletedProcess[str]:
        command = [tmp_path / "bind", shape]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    bound, chosen = program.bind(21, 9, batch=2), program.strategy(Shape(2, 21, 9, case.channels))
    words = bound.encode()
    said = run("2x21x9").stdout
    assert f"strategy   {chosen.name}\ncycles     {chosen.cycles}\n" in said
    assert f"commands   {len(words) // 32}, CRC-32 {zlib.crc32(words):08x}\n" in said
    assert run("2x31x9").stderr == "2x31x9: height is outside of the range\n"
    assert run("31").returncode == 2
