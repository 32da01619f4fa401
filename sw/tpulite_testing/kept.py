"""Programs of networks that tests compile, kept from one run to the next.

They are kept by what they are made of and by the compiler's sources, of which any change compiles
everything anew. Tests that change the compiler call it themselves, or in :func:`compiling_anew`.
Models and workloads of tests keep theirs without being asked.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tpulite_testing.quick_options import REGRESS

if TYPE_CHECKING:
    import pytest

    from tpulite.arch.config import Config
    from tpulite.compiler.options import Options
    from tpulite.graph.layers import LayerGraph
    from tpulite.program import Program

__all__ = ["compiling_anew", "kept_pair", "kept_program"]

_T = TypeVar("_T")

_MUTANT = "MUTANT_UNDER_TEST"
"""Set by mutmut, whose mutants share one source."""

_CALLERS = {"tpulite.runtime.model": "tpulite.runtime.model_compile", "tpulite.bench.layers": ""}
"""Modules whose networks are kept, and those that compile for them if they do not themselves."""

_folders: list[Path] = []
"""Where programs are kept: one folder under pytest, none elsewhere."""


def pytest_configure(config: "pytest.Config") -> None:
    """Keep programs in ``build/kept``; ``make regress`` keeps none."""
    if not REGRESS:
        _folders[:] = [config.rootpath / "build" / "kept"]


def pytest_collection_finish() -> None:
    """Let models and workloads of the tests that have been read keep their programs."""
    if not _folders or os.environ.get(_MUTANT):
        return
    for name, compiling in _CALLERS.items():
        if name in sys.modules:
            module = import_module(compiling or name)
            module.compile_layers = partial(_compile_or_keep, kept_program)
            module.compile_pair = partial(_compile_or_keep, kept_pair)


def _compile_or_keep(keep: Callable[..., _T], *values: Any, **others: Any) -> _T:
    """Stand in for the compiler; who watches its stages sees it compile."""
    watched = others.get("progress") or others.get("dump")
    with compiling_anew() if watched else nullcontext():
        return keep(*values, **others)


@contextmanager
def compiling_anew() -> Iterator[None]:
    """Keep nothing, and read nothing that was kept: the compiler is another one here."""
    folders = _folders[:]
    _folders.clear()
    try:
        yield
    finally:
        _folders[:] = folders


def kept_program(
    layers: "LayerGraph", config: "Config", options: "Options | None" = None, **others: Any
) -> "Program":
    """Return what :func:`compile_layers` makes, or made earlier; without options, by its defaults.

    ``others`` are those of its arguments that change no program.

    Raises
    ------
    ValueError
        If the compiler refuses the network.
    """
    # Late, because pytest reads this file for benches, too.
    from tpulite.compiler.options import Options
    from tpulite.compiler.pipeline import compile_layers

    options = options or Options()

    def make() -> "tuple[Program, ...]":
        return (compile_layers(layers, config, options, **others),)

    return _kept(make, layers, config, options, ".")[0]


def kept_pair(
    layers: "LayerGraph", config: "Config", options: "Options", **others: Any
) -> "tuple[Program, ...]":
    """Return what :func:`compile_pair` makes, or made earlier: the cold and the warm program."""
    from tpulite.compiler.pipeline import compile_pair

    make = partial(compile_pair, layers, config, options, **others)
    return _kept(make, layers, config, options, "cold", "warm")


def _kept(
    make: "Callable[[], tuple[Program, ...]]",
    layers: "LayerGraph",
    config: "Config",
    options: "Options",
    *names: str,
) -> "tuple[Program, ...]":
    """Return programs that are made together, each from the folder of its name if it is there."""
    from tpulite.runtime.compile_cache import ProgramCache, compiler_key

    if not _folders or os.environ.get(_MUTANT):
        return make()
    folder = _folders[0] / compiler_key()
    if not folder.exists():
        for other in _folders[0].glob("*"):
            shutil.rmtree(other, ignore_errors=True)
    made = cache(make)
    return tuple(
        ProgramCache(folder / name, limit_bytes=None).get(
            layers, config, options, lambda index=index: made()[index]
        )
        for index, name in enumerate(names)
    )
