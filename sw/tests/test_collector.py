import gc
import subprocess
import sys

import pytest

from tpulite.arch.config import Config
from tpulite.collector import collector_paused
from tpulite.compiler.pipeline import compile_layers
from tpulite_testing.drawn.plain_graphs import GraphBuilder


@pytest.fixture(autouse=True)
def collector():
    running = gc.isenabled()
    yield
    (gc.enable if running else gc.disable)()


@pytest.mark.parametrize("running", [True, False])
def test_a_compilation_leaves_the_collector_as_it_was(running):
    builder = GraphBuilder((4, 4, 16))
    builder.conv("x", 16, 1)
    (gc.enable if running else gc.disable)()
    compile_layers(builder.graph(), Config())
    assert gc.isenabled() == running


def test_it_is_paused_only_until_an_error():
    gc.enable()
    with pytest.raises(ValueError, match="no"), collector_paused():
        assert not gc.isenabled()
        raise ValueError("no")
    assert gc.isenabled()


def test_what_was_made_meanwhile_is_old():
    """So the collector does not go through all of it when it runs again."""
    gc.enable()
    gc.unfreeze()  # what a command in this process has frozen
    with collector_paused():
        made = [[] for _ in range(10_000)]
    old = {id(each) for each in gc.get_objects(generation=2)}
    assert all(id(each) in old for each in made)


def test_what_others_have_frozen_stays_so():
    gc.enable()
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        with collector_paused():
            pass
        assert gc.get_freeze_count() == count
    finally:
        gc.unfreeze()


def test_a_command_ends_without_a_last_look_for_cycles():
    """What is frozen when the process ends is not looked at."""
    program = """
import atexit, gc
from tpulite.cli import main
atexit.register(lambda: print("collected:", len(gc.get_objects())))
main()
"""
    command = [sys.executable, "-c", program, "--version"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    left = int(output.rpartition("collected:")[2])
    assert left < 1000, output
