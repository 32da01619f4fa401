"""C binds layers to shapes as Python does, byte for byte."""

import ctypes
import shutil
import subprocess
import zlib
from dataclasses import astuple, fields, replace
from itertools import product

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler.bind import Shape, ShapeRange, compile_range
from tpulite.export.ranges import export_range
from tpulite_testing.drawn.range_cases import config_name, draw_case

SEED = 20
CASES, SHAPES = 4, 25
KINDS = ("affine", "elementwise", "lut")
CONFIGS = (Config(), Config(ub_rows=1024), Config(array_size=4, ub_rows=256))

STRICT = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror")

SHIM = """
#include "{name}.h"
static uint8_t image[{upper}_IMAGE_BYTES];
static tpulite_bind_item work[{upper}_COMMANDS];
const uint8_t *{name}_try(const tpulite_shape *shape, uint32_t *numbers, uint32_t less)
{{
    tpulite_bound bound = {{0}};
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
"""

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="gcc is missing (Debian: apt install gcc)"
)


def drawn():
    """Return programs for ranges of shapes, by name."""
    rng = np.random.default_rng(SEED)
    programs = {}
    for config, kind, number in product(CONFIGS, KINDS, range(CASES)):
        case = draw_case(rng, kind)
        shapes = case.range(int(rng.integers(1, 5)), *map(int, rng.integers(1, 90, 2)))
        if kind == "affine":
            shapes = replace(shapes, channels=(1, case.channels))
        name = f"{kind}_{config_name(config)}_{number}"
        programs[name] = compile_range(case.graph(7, 5), shapes, config)
    return programs


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return all programs, what was exported of each, and their C as one library."""
    folder = tmp_path_factory.mktemp("bind")
    programs = drawn()
    exported = {name: export_range(program) for name, program in programs.items()}
    for name, each in exported.items():
        each.files(name, folder)
        (folder / f"{name}_try.c").write_text(SHIM.format(name=name, upper=name.upper()))
    library = folder / "bind.so"
    sources = sorted(path for path in folder.glob("*.c") if path.name != "main.c")
    command = ["gcc", *STRICT, "-shared", "-fPIC", *sources, "-o", library]
    subprocess.run(command, check=True)
    return programs, exported, ctypes.CDLL(str(library))


def bind(library, name: str, shape: Shape, room: int = 0, less: int = 0) -> tuple[list[int], int]:
    """Return what C says of a shape: numbers, and where the image is.

    With 1 for ``less`` the image has ``room`` bytes, with 2 there are so many items of work.
    """
    extents = (ctypes.c_int32 * 4)(*astuple(shape))
    numbers = (ctypes.c_uint32 * 5)(room)
    function = library[f"{name}_try"]
    function.restype = ctypes.c_void_p
    image = function(extents, numbers, less)
    return [*numbers], image


def draw_shape(rng, shapes: ShapeRange) -> Shape:
    limits = (shapes.batch, shapes.height, shapes.width, shapes.channels or (1, 1))
    # The ends of a range as often as all that is between.
    ends = ((low, high, int(rng.integers(low, high + 1))) for low, high in limits)
    return Shape(*(int(rng.choice(each)) for each in ends))


def test_commands_and_constants_are_pythons(built):
    programs, exported, library = built
    rng = np.random.default_rng(SEED)
    chosen = set()
    for name, program in programs.items():
        for _ in range(SHAPES):
            shape = draw_shape(rng, program.shapes)
            (status, at, count, size, memory), image = bind(library, name, shape)
            assert status == 0, (name, shape)
            bound = program.bind(
                shape.height, shape.width, batch=shape.batch, channels=shape.channels
            )
            words = ctypes.string_at(image + at, 32 * count)
            assert words == bound.encode(), (name, shape)
            assert ctypes.string_at(image, size) == bound.constants, (name, shape)
            assert count <= exported[name].commands
            assert memory <= exported[name].memory_bytes
            chosen.add(program.strategy(shape).name)
    assert chosen == {"planes", "slabs"}, "both strategies are compared"


def test_shapes_beyond_the_range_are_told_by_axis(built):
    programs, _, library = built
    name, program = next(iter(programs.items()))
    shapes = program.shapes
    least = Shape(*(getattr(shapes, axis.name)[0] for axis in fields(Shape)))
    for status, axis in enumerate(fields(Shape), 1):
        low, high = getattr(shapes, axis.name)
        for extent in (low - 1, high + 1, -1, (1 << 31) - 1):
            (got, *_), _ = bind(library, name, replace(least, **{axis.name: extent}))
            assert got == status


def test_buffers_that_are_too_small_are_told_and_kept(built):
    programs, _, library = built
    for name, program in programs.items():
        shape = draw_shape(np.random.default_rng(SEED), program.shapes)
        (_, at, count, _, _), image = bind(library, name, shape)
        ctypes.memset(image + at + 32 * (count - 1), 0xA5, 32)
        for less, room in ((1, at + 32 * (count - 1)), (2, count - 2)):
            (status, *_), image = bind(library, name, shape, room, less)
            assert status == 5 + less
            assert ctypes.string_at(image + at + 32 * (count - 1), 32) == b"\xa5" * 32


def test_the_example_prints_what_it_bound(tmp_path):
    case = draw_case(np.random.default_rng(SEED), "affine")
    shapes = case.range(2, 30, 30)
    program = compile_range(case.graph(7, 5), shapes, Config())
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
