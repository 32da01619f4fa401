import hashlib
import os
import subprocess
import sys
import zipfile
from dataclasses import fields, replace

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.graph.layers import Activation, Conv, LayerGraph, Requantization
from tpulite.models import CNN_DIGITS
from tpulite.runtime import compile_cache
from tpulite.runtime.compile_cache import COMPILER, ProgramCache, program_key
from tpulite.runtime.model import Model
from tpulite_testing.timing import time_ratio

OTHERS = {
    "memory": "ddr3",
    "optimize": "memory",
    "batch": 2,
    "groups": "document",
    "allocator": "longest",
    "moves": 5,
    "seed": 1,
    "effort": 7,
    "order": "document",
    "without": ("order-layers",),
}
"""Another value of each option that is no switch."""


def network(**changes):
    """Return a network of one convolution."""
    rng = np.random.default_rng(7)
    values = {
        "name": "conv",
        "inputs": ("x",),
        "output": "y",
        "weight": rng.integers(-128, 128, (3, 3, 5, 9)).astype(np.int8),
        "requantization": Requantization(
            multiplier=np.full(9, 1 << 30), shift=np.full(9, -9), bias=np.arange(9, dtype=np.int32)
        ),
    }
    images = {"x": Activation((8, 8, 5)), "y": Activation((6, 6, 9))}
    return LayerGraph("net", (Conv(**values | changes),), images, ("x",), ("y",))


def key(layers=None, config=None, options=None):
    return program_key(layers or network(), config or Config(), options or Options())


class Calls:
    """Compile, and count how often."""

    def __init__(self):
        self.made = 0

    def __call__(self, layers, config):
        def make():
            self.made += 1
            return compile_layers(layers, config)

        return make


@pytest.fixture
def calls():
    return Calls()


def test_a_program_is_compiled_once(tmp_path, calls):
    cache, config, options = ProgramCache(tmp_path / "new" / "programs"), Config(), Options()
    programs = [cache.get(x, config, options, calls(x, config)) for x in (network(), network())]
    assert calls.made == 1
    assert programs[0] == programs[1] == compile_layers(network(), config)
    cache.get(network(), config, options, calls(network(), config), fresh=True)
    assert calls.made == 2
    assert len(cache.entries()) == 1


def test_equal_content_has_one_key():
    assert key() == key()
    assert key(config=Config(array_size=8)) == key(config=Config(array_size=8, vector_lanes=8))


def test_every_change_of_content_changes_the_key():
    base = network()
    layer, rq = base.layers[0], base.layers[0].requantization
    weight = layer.weight.copy()
    weight[2, 2, 4, 8] ^= 1
    bias = rq.bias.copy()
    bias[3] += 1
    keys = [
        key(),
        key(network(weight=weight)),
        key(network(weight=np.asfortranarray(layer.weight)[::-1])),
        key(network(requantization=replace(rq, bias=bias))),
        key(network(requantization=replace(rq, zero_point=1 - rq.zero_point))),
        key(network(name="other")),
        key(network(input_zero_point=3)),
        key(replace(base, name="other")),
        key(replace(base, unsigned=frozenset({"x"}))),
        key(replace(base, activations=dict(sorted(base.activations.items(), reverse=True)))),
        key(replace(base, activations={**base.activations, "z": Activation((1, 1, 1))})),
    ]
    assert len(set(keys)) == len(keys)


def test_every_field_of_machine_and_options_changes_the_key():
    others = {"array_size": 8, "roundings": ("ruy",), "axi_slices": True, "delay_lines": False}
    others |= {"ram_registers": True, "int16": True, "int4": True}
    keys = [key()]
    for field in fields(Config):
        value = getattr(Config(), field.name)
        other = others.get(field.name, value // 2 if isinstance(value, int) else value)
        keys.append(key(config=Config(**{field.name: other})))
    for field in fields(Options):
        value = getattr(Options(), field.name)
        other = not value if isinstance(value, bool) else OTHERS[field.name]
        with_it = {"allocator": "longest"} if field.name == "groups" else {}
        keys.append(key(options=replace(Options(), **{field.name: other}, **with_it)))
    assert len(set(keys)) == len(keys)


def test_another_compiler_changes_the_key(monkeypatch):
    before = key()
    monkeypatch.setattr(compile_cache, "compiler_key", lambda: "another one")
    assert key() != before


def test_the_key_knows_every_module_that_compiles():
    """Import the compiler in a new interpreter, and see which modules of the package that needs."""
    code = (
        "import sys, tpulite.compiler.pipeline as p;"
        "print(*[m.__file__ for n, m in sys.modules.items() if n.startswith('tpulite.')])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    root = compile_cache.__file__.rsplit("/", 2)[0]
    names = {path.removeprefix(root + "/").split("/")[0] for path in result.stdout.split()}
    assert names <= set(COMPILER), names


@pytest.mark.parametrize("damage", ["cut", "empty", "garbage", "bit", "other machine", "folder"])
def test_damaged_entries_are_compiled_again(tmp_path, calls, damage):
    cache, config, options = ProgramCache(tmp_path), Config(), Options()
    program = cache.get(network(), config, options, calls(network(), config))
    (path,) = cache.entries()
    whole = path.read_bytes()
    if damage == "bit":
        with zipfile.ZipFile(path) as archive:  # which ignores bits of headers
            largest = max(archive.infolist(), key=lambda member: member.compress_size)
        middle = whole.index(largest.filename.encode()) + largest.compress_size // 2
        path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 4]) + whole[middle + 1 :])
    elif damage == "other machine":
        compile_layers(network(), Config(array_size=8)).save(path)
    elif damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes({"cut": whole[:-40], "empty": b"", "garbage": b"abc" * 99}[damage])
    assert cache.get(network(), config, options, calls(network(), config)) == program
    assert calls.made == 2
    if damage != "folder":  # which nobody replaces by a file
        assert path.read_bytes() == whole
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path, calls):
    (tmp_path / "file").write_text("in the way")
    cache = ProgramCache(tmp_path / "file" / "programs")
    program = cache.get(network(), Config(), Options(), calls(network(), Config()))
    assert program == compile_layers(network(), Config())


def test_what_was_not_used_for_long_goes_first(tmp_path, calls):
    config, options = Config(), Options()
    networks = [network(input_zero_point=i) for i in range(3)]
    cache = ProgramCache(tmp_path)
    for each in networks[:2]:
        cache.get(each, config, options, calls(each, config))
    size = sum(path.stat().st_size for path in cache.entries())
    for path in cache.entries():
        os.utime(path, (1e9, 1e9))
    cache.get(networks[0], config, options, calls(networks[0], config))  # used again
    small = ProgramCache(tmp_path, limit_bytes=size + size // 4)
    small.get(networks[2], config, options, calls(networks[2], config))
    kept = [program_key(networks[i], config, options) + ".tpl" for i in (2, 0)]
    assert [path.name for path in cache.entries()] == kept


def test_a_cache_without_a_limit_keeps_all_and_measures_nothing(tmp_path, calls, monkeypatch):
    cache, config, options = ProgramCache(tmp_path, limit_bytes=None), Config(), Options()
    monkeypatch.setattr(ProgramCache, "entries", None)
    for each in (network(input_zero_point=i) for i in range(2)):
        cache.get(each, config, options, calls(each, config))
    assert len(list(tmp_path.glob("*.tpl"))) == calls.made == 2


def test_models_use_the_cache_if_they_are_asked_to(tmp_path, monkeypatch):
    monkeypatch.setenv("TPULITE_CACHE", str(tmp_path))
    model = Model.load(CNN_DIGITS).compile()
    assert not (tmp_path / "programs").exists()
    assert Model.load(CNN_DIGITS).compile(cache=True).programs == model.programs
    assert len(ProgramCache.default().entries()) == len(model.programs)

    def never(*args, **kwargs):
        raise AssertionError("compiled again")

    monkeypatch.setattr("tpulite.runtime.model_compile.compile_layers", never)
    assert Model.load(CNN_DIGITS).compile(cache=True).programs == model.programs
    with pytest.raises(AssertionError, match="compiled again"):
        Model.load(CNN_DIGITS, options=Options(seed=5)).compile(cache=True)


def test_a_model_of_other_options_is_another_model():
    model = Model.load(CNN_DIGITS).compile()
    other = model.with_options(Options(seed=5))
    assert (other.options.seed, model.options.seed) == (5, 0)
    assert other.segments is model.segments
    assert not other.compiled
    stages = []
    compiled = other.compile(dump=lambda index, stage, value: stages.append((index, stage)))
    assert compiled.programs == compiled.compiled != model.programs
    assert compiled.compile() is compiled
    assert {(0, "mark-views"), (0, "encode")} <= set(stages)


def test_big_arrays_are_hashed_at_memory_speed():
    rng = np.random.default_rng(1)
    weight = rng.integers(-128, 128, (1, 1, 5000, 5000)).astype(np.int8)
    images = {"x": Activation((1, 1, 5000)), "y": Activation((1, 1, 5000), "int32")}
    layer = replace(network().layers[0], weight=weight, requantization=None)
    layers = LayerGraph("net", (layer,), images, ("x",), ("y",))
    ratio = time_ratio(lambda: key(layers), lambda: hashlib.blake2b(weight).digest())
    print(f"{ratio:.2f} times the hash of the bytes alone")
    assert ratio < 3
