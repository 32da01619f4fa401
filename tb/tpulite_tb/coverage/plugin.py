"""Plugin of pytest: all that is built has coverage points (``scripts/coverage.py`` loads it).

Benches of components and of the chip make Verilog by the same function of Amaranth's; models
without points lie elsewhere, because ``$TPULITE_BUILD`` says so.
"""

from functools import partial

import pytest
from amaranth.back import verilog

from tpulite_tb.coverage.verilog import with_points

__all__ = ["pytest_configure"]


def pytest_configure(config: pytest.Config) -> None:
    """Convert with points from now on."""
    convert = verilog.convert
    verilog.convert = partial(with_points, convert)
    config.add_cleanup(lambda: setattr(verilog, "convert", convert))
