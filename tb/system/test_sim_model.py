"""A network of a file on the whole chip, under a simulator."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import cocotb
import numpy as np
import pytest
from rich.console import Console
from rich.progress import track

from tpulite.configs import named_config
from tpulite.runtime.model import Model
from tpulite.runtime.model_run import Runner, join_runs
from tpulite_tb.chip import ChipBench
from tpulite_tb.model_report import ModelRun, as_json, print_model_report, show_image

ROOT = Path(__file__).resolve().parents[2]
CONFIG = "4x4"
"""Of which the simulator is built sooner than of what `make sim` takes."""


def run_images(device, model: Model, images: np.ndarray, console: Console):
    """Run the images one after the other; return results and seconds."""
    runner = Runner(model, device)
    (name,) = model.graph.inputs
    start = time.monotonic()
    results = [
        runner.run({name: image[None].reshape(model.graph.tensors[name].shape)})
        for image in track(images, "images", console=console)
    ]
    return join_runs(results), time.monotonic() - start


@cocotb.test()
async def runs_a_network(dut) -> None:
    """Run the inputs that ``$TPULITE_MODEL`` asks for, report, and compare every bit."""
    options = json.loads(os.environ["TPULITE_MODEL"])
    config = named_config(options["config"])
    model = Model.load(options["model"], config=config)
    with np.load(options["inputs"]) as archive:
        images, expected = archive["images"], archive["expected"]
        labels = archive.get("labels")
    bench = ChipBench(dut, config, trace=True, monitor=False)
    await bench.start()
    console = Console()
    if images.ndim == 4 and images.shape[3] in (1, 3):
        show_image(images[0], console)
    results, seconds = await bench.call(run_images, bench.device, model, images, console)
    differences = int((results.output.reshape(expected.shape) != expected).sum())
    run = ModelRun(options["name"], model, images, results, differences, seconds, labels)
    Path(options["json"]).write_text(
        json.dumps(as_json(run, options["simulator"]), indent=1) + "\n"
    )
    print_model_report(run, options["simulator"], console)
    assert not differences, f"{differences} elements differ"


def make_sim(tmp_path: Path, *args: str, **environment: str) -> dict:
    command = [sys.executable, ROOT / "scripts/sim.py", "--folder", tmp_path, "--config", CONFIG]
    command += args
    result = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "bit-exact" in result.stdout
    return json.loads((tmp_path / "cnn.json").read_text())


def test_the_digits_network_is_exact_and_right(tmp_path):
    record = make_sim(tmp_path, "--model", "cnn", "--images", "3", SIM="verilator")
    assert record["bit_exact"] is True
    assert record["accuracy"] > 0.6
    assert len(set(record["cycles"])) == 1


@pytest.mark.regress("a minute: smaller chips run on Icarus in all benches of both simulators")
@pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus is missing (Debian: iverilog)")
def test_icarus_takes_the_same_cycles(tmp_path):
    verilator = make_sim(tmp_path, "--model", "cnn", "--images", "1", SIM="verilator")
    icarus = make_sim(tmp_path, "--model", "cnn", "--images", "1", SIM="icarus")
    assert icarus["cycles"] == verilator["cycles"]
    assert icarus["counters"] == verilator["counters"]


def test_a_wrong_name_is_one_clear_line(tmp_path):
    command = [sys.executable, ROOT / "scripts/sim.py", "--folder", tmp_path, "--model", "nonsense"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "nonsense" in result.stderr and "Traceback" not in result.stderr
