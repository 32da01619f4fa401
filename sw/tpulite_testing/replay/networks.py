"""Cases that are whole networks: the zoo, workloads of the benchmark, and users' files."""

from collections.abc import Callable, Iterator
from functools import cache, partial

from tpulite.arch.config import Config
from tpulite.bench.file_graphs import (
    add_graph,
    batch_norm_graph,
    dense_graph,
    function_graph,
    patches_graph,
)
from tpulite.bench.files import affine_layers
from tpulite.bench.workloads import EVERY, LARGE, WORKLOADS, find_workload
from tpulite.graph.graph import Graph
from tpulite.program import Program
from tpulite.runtime.model import Model
from tpulite.zoo import ENTRIES, fetch
from tpulite_testing.replay.case import VARIANTS, Case, Variant, from_layers

__all__ = ["network_cases"]

_FILES: dict[str, Callable[[str], Graph]] = {
    "dense_64_to_64_batch_64": lambda name: dense_graph(name, 64, (64, 64)),
    "dense_256_to_256_batch_256": lambda name: dense_graph(name, 256, (256, 256)),
    "dense_100_to_30_batch_7": lambda name: dense_graph(name, 7, (100, 30)),
    "mlp_256_64_32_16_batch_16": lambda name: dense_graph(name, 16, (256, 64, 32, 16)),
    "mlp_256_64_32_16": lambda name: dense_graph(name, 1, (256, 64, 32, 16)),
    "mlp_40_40_10_batch_3": lambda name: dense_graph(name, 3, (40, 40, 10)),
    "sigmoid_56x56x48": lambda name: function_graph(name, "sigmoid", (56, 56, 48)),
    "add_56x56x48": lambda name: add_graph(name, (56, 56, 48)),
    "batch_norm_56x40x64": lambda name: batch_norm_graph(name, (56, 40, 64)),
    "patches_16_of_224x224x3_to_192": lambda name: patches_graph(name, (224, 224, 3), 16, 192),
    "patches_4_of_64x64x3_to_48": lambda name: patches_graph(name, (64, 64, 3), 4, 48),
}

_QUICK_FILES = ("8x8", "ub_rows=1024")
"""Machines of which files take turns."""

_QUICK_DEFAULTS = (
    *("dense_100_to_30_batch_7", "mlp_256_64_32_16", "mlp_40_40_10_batch_3"),
    "patches_4_of_64x64x3_to_48",
)
"""Files that are not workloads of the benchmark as well."""

_QUICK_BATCHES = ("mlp_256_64_32_16", "mlp_40_40_10_batch_3", "dense_64_to_64_batch_64")
_QUICK_BENCH = (
    *("gemm_1x16x16", "gemm_1x256x256", "gemm_16x16x16", "gemm_32x32x32", "gemm_64x64x64"),
    *("mlp_b16_cold", "mlp_b16_warm"),
    *("mlp_b16_file", "mlp_b1_file_x16"),
    *(name for name in WORKLOADS if not name.startswith(("gemm", "mlp"))),
)
# Those that are workloads of the benchmark as well are compared there.
_QUICK_ZOO = ("resnet8", "kws", "vww", "ad", "fingerprint", "speech", "magic_wand", "rps")
_QUICK_ZOO_VARIANTS = {
    "kws": ("8x8", "memory", "batch=3", "no-grouping"),
    "resnet8": ("ub_rows=1024", "ub_rows=256", "no-prefetch"),
    "vww": ("ub_rows=256",),
}


def network_cases() -> Iterator[Case]:
    """Yield all of them."""
    for number, (name, make) in enumerate(_FILES.items()):
        for key, variant in VARIANTS.items():
            named = {"": _QUICK_DEFAULTS, "batch=16": _QUICK_BATCHES}.get(key, ())
            quick = key == _QUICK_FILES[number % 2] or name in named
            yield Case(_join("file", name, key), partial(_file, make, name, variant), quick)
    for key, variant in VARIANTS.items():
        affine = from_layers(lambda: affine_layers(56, 40, 64), variant.config, variant.options)
        yield Case(_join("file", "affine_56x40x64", key), affine, key in _QUICK_FILES)
    for entry in ENTRIES:
        for key, variant in VARIANTS.items():
            wanted = _QUICK_ZOO_VARIANTS.get(entry.name, () if entry.name in WORKLOADS else ("",))
            yield Case(
                _join("zoo", entry.name, key),
                partial(_zoo, entry.name, variant),
                key in wanted and entry.name in _QUICK_ZOO,
            )
    for name in EVERY:
        yield Case(f"bench/{name}", partial(_bench, name, Config()), name in _QUICK_BENCH)
        if name not in LARGE:
            for key in ("4x4", "8x8", "32x32", "ub_rows=1024"):
                yield Case(_join("bench", name, key), partial(_bench, name, VARIANTS[key].config))


def _join(family: str, name: str, variant: str) -> str:
    return f"{family}/{name} {variant}".rstrip()


def _file(make: Callable[[str], Graph], name: str, variant: Variant) -> tuple[Program, ...]:
    return _programs(Model.load(make(name), config=variant.config, options=variant.options))


def _zoo(name: str, variant: Variant) -> tuple[Program, ...]:
    return _programs(Model.load(_fetch(name), config=variant.config, options=variant.options))


@cache
def _fetch(name: str) -> str:
    return str(fetch(name))


def _programs(model: Model) -> tuple[Program, ...]:
    return model.programs


def _bench(name: str, config: Config) -> tuple[Program, ...]:
    programs = find_workload(name)(config).compile()
    return programs[-1:] if name.endswith("_warm") else programs  # the others are not measured
