"""Programs of networks that tests compile, kept from one run to the next.

They are kept by what they are made of and by the compiler's sources, of which any change compiles
everything anew. Tests that change the compiler call it themselves, or in :func:`compiling_anew`.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tpulite_testing.quick_options import REGRESS

if TYPE_CHECKING:
    import pytest

    from tpulite.arch.config import Config
    from tpulite.compiler.options import Options
    from tpulite.graph.layers import LayerGraph
    from tpulite.program import Program

__all__ = ["compiling_anew", "kept_program"]

_MUTANT = "MUTANT_UNDER_TEST"
"""Set by mutmut, whose mutants share one source."""

_folders: list[Path] = []
"""Where programs are kept: one folder under pytest, none elsewhere."""


def pytest_configure(config: "pytest.Config") -> None:
    """Keep programs in ``build/kept``; ``make regress`` keeps none."""
    if not REGRESS:
        _folders[:] = [config.rootpath / "build" / "kept"]


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
    layers: "LayerGraph", config: "Config", options: "Options | None" = None
) -> "Program":
    """Return what :func:`compile_layers` makes, or made earlier; without options, by its defaults.

    Raises
    ------
    ValueError
        If the compiler refuses the network.
    """
    # Late, because pytest reads this file for benches, too.
    from tpulite.compiler.options import Options
    from tpulite.compiler.pipeline import compile_layers
    from tpulite.runtime.compile_cache import ProgramCache, compiler_key

    options = options or Options()
    if not _folders or os.environ.get(_MUTANT):
        return compile_layers(layers, config, options)
    folder = _folders[0] / compiler_key()
    if not folder.exists():
        for other in _folders[0].glob("*"):
            shutil.rmtree(other, ignore_errors=True)
    return ProgramCache(folder).get(
        layers, config, options, lambda: compile_layers(layers, config, options)
    )
