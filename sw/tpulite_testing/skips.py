"""Green does not come from skipping.

A run whose tests were all skipped fails. So does ``make test`` if more than :data:`MOST` are
skipped on a machine that has all :data:`TOOLS`: what is optional is there, as in CI.
"""

import shutil

import pytest

from tpulite_testing.quick_options import REGRESS

__all__ = ["MOST", "TOOLS", "complaint"]

MOST = 14
"""Tests that may be skipped, whose packages `make test` does not install or whose case is void."""

TOOLS = ("g++", "iverilog", "riscv64-unknown-elf-gcc")


def complaint(passed: int, skipped: int, *, full: bool) -> str:
    """Return what is wrong with so many skipped tests, empty if nothing is.

    Parameters
    ----------
    passed, skipped : int
        Tests that ran, whatever came of them, and tests that did not.
    full : bool
        Whether all tests were to run, on a machine that has all tools.

    Examples
    --------
    >>> complaint(0, 3, full=False)
    'all 3 tests were skipped: nothing was tested'
    >>> complaint(9, MOST, full=True)
    ''
    """
    if skipped and not passed:
        return f"all {skipped} tests were skipped: nothing was tested"
    if full and skipped > MOST:
        return f"{skipped} tests were skipped, and {MOST} may be (tpulite_testing.skips.MOST)"
    return ""


def _complaint(config: pytest.Config) -> str:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    # Workers leave it to the controller; where files cannot be read, that is the complaint.
    if reporter is None or hasattr(config, "workerinput") or config.option.collectonly:
        return ""
    if reporter.stats.get("error"):
        return ""
    counts = {name: len(reporter.stats.get(name, ())) for name in ("skipped", "passed", "failed")}
    chosen = config.option.keyword or config.args_source is not config.ArgsSource.TESTPATHS
    full = not chosen and not REGRESS and all(map(shutil.which, TOOLS))
    return complaint(counts["passed"] + counts["failed"], counts["skipped"], full=full)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run that would be green."""
    if exitstatus == pytest.ExitCode.OK and _complaint(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(config: pytest.Config, terminalreporter: pytest.TerminalReporter):
    """Say why."""
    if text := _complaint(config):
        terminalreporter.write_line(f"ERROR: {text}", red=True)
