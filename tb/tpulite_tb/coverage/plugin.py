"""Plugin of pytest: all that is built has coverage points (``scripts/coverage.py`` loads it).

Benches of components and of the chip make Verilog by the same function of Amaranth's, and the chip
as a library of C++ is built by one of ours; models without points lie elsewhere, because
``$TPULITE_BUILD`` says so.
"""

import gc
import os
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from amaranth.back import verilog

from tpulite_tb.coverage.counts import keep, read_counts
from tpulite_tb.coverage.verilog import VERILATOR_OPTIONS, is_covered, with_points
from tpulite_verilated import library, rtl_device
from tpulite_verilated.toolchain import build_root

__all__ = ["pytest_configure", "pytest_sessionfinish"]

_CHIPS = pytest.StashKey[dict[Path, str]]()
"""Chips of C++ that were built, and their Verilog."""


def pytest_configure(config: pytest.Config) -> None:
    """Convert with points from now on."""
    build = library.build_library
    chips = config.stash[_CHIPS] = {}

    def build_covered(source: str, *, title: str) -> Path:
        if not is_covered(source):
            return build(source, title=title)
        # Counting points is an assertion to Verilator.
        path = build(source, title=title, options=[*VERILATOR_OPTIONS, "--assert"])
        chips[path] = source
        return path

    for patched in (
        patch.object(verilog, "convert", partial(with_points, verilog.convert)),
        patch.object(rtl_device, "build_library", build_covered),
    ):
        patched.start()
        config.add_cleanup(patched.stop)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep what chips of C++ have reached: a worker that does so later is killed, if it is slow."""
    gc.collect()  # chips count when they are freed
    for number, (path, source) in enumerate(session.config.stash[_CHIPS].items()):
        loaded = library.load_library(path)
        chip = loaded.chip_new(1 << 12, 2, 2, 0, 0.0, 0)
        with TemporaryDirectory() as folder:
            data = Path(folder) / "coverage.dat"
            loaded.chip_write_coverage(chip, str(data).encode())
            counts = read_counts(data.read_text(), source)
        loaded.chip_free(chip)
        keep(counts, build_root() / "counts" / f"chip_{os.getpid()}_{number}.json")
