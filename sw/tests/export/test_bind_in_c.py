"""C binds layers to shapes as Python does, byte for byte."""

import ctypes
import shutil
import subprocess
from dataclasses import astuple, replace
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

SHIM = """
#include "{name}.h"
static uint8_t image[{upper}_IMAGE_BYTES];
static tpulite_bind_item work[{upper}_COMMANDS];
const uint8_t *{name}_try(const tpulite_shape *shape, uint32_t *numbers)
{{
    tpulite_bound bound = {{0}};
    bound.image = image;
    bound.image_bytes = sizeof image;
    bound.work = work;
    bound.work_items = {upper}_COMMANDS;
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
    (folder / "main.c").unlink()
    strict = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    library = folder / "bind.so"
    sources = sorted(folder.glob("*.c"))
    subprocess.run(["gcc", *strict, "-shared", "-fPIC", *sources, "-o", library], check=True)
    return programs, exported, ctypes.CDLL(str(library))


def bind(library, name: str, shape: Shape) -> tuple[list[int], int]:
    """Return what C says of a shape: numbers, and where the image is."""
    extents = (ctypes.c_int32 * 4)(*astuple(shape))
    numbers = (ctypes.c_uint32 * 5)()
    function = library[f"{name}_try"]
    function.restype = ctypes.c_void_p
    image = function(extents, numbers)
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
