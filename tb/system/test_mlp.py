"""The main job: the whole chip classifies handwritten digits."""

import json
import os
import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path

import cocotb
import pytest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tpulite.arch.config import Config
from tpulite.arch.memory import Window
from tpulite.configs import named_config
from tpulite.models import MLP_DIGITS
from tpulite.runtime.model import Model
from tpulite.runtime.session import Session
from tpulite_tb.chip import ChipBench
from tpulite_tb.digits import STREAM_BATCHES, run_digits
from tpulite_tb.digits_report import as_json, print_report
from tpulite_verilated.rtl_device import RtlDevice

ROOT = Path(__file__).resolve().parents[2]
NO_ICARUS = pytest.mark.skipif(
    shutil.which("iverilog") is None, reason="Icarus is missing (Debian: iverilog)"
)
SMALLER = "4x4"
"""Of which the simulator is built sooner than of what `make sim` takes."""


def flip_weight_bit(session: Session) -> None:
    """Flip a bit of a weight in DRAM: of the first layer, at a pixel in the middle."""
    row = 8 * 16 + 8
    config = session.program.config
    (live,) = (each.layers for each in Model.load(MLP_DIGITS, config=config).simplified)
    weights = live.layers[0].weight[0, 0, row, : config.array_size]
    offset = session.program.constants.index(weights.tobytes())
    address = session.job.windows[Window.CONSTANTS].base + offset
    session.device.write(address, session.device.read(address, 1) ^ 0x40)


@cocotb.test()
async def classifies_digits(dut) -> None:
    """Classify the batches that ``$TPULITE_DIGITS`` asks for, report, and compare every bit."""
    options = json.loads(os.environ["TPULITE_DIGITS"])
    batches, stream = options["batches"], options["stream"]
    bench = ChipBench(dut, named_config(options["config"]), trace=True, monitor=False)
    await bench.start()

    console = Console()
    total = batches + 1 + STREAM_BATCHES * stream
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
               TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("batches of 16 images", total=total)
        run = await bench.call(
            run_digits,
            bench.device,
            batches=batches,
            stream=stream,
            prepare=flip_weight_bit if options["flip_weight_bit"] else lambda session: None,
            progress=lambda count: progress.advance(task, count),
        )
    Path(options["json"]).write_text(
        json.dumps(as_json(run, options["simulator"]), indent=1) + "\n"
    )
    print_report(run, options["simulator"], console)
    assert not run.differences, f"bits differ in: {', '.join(run.differences)}"


def make_sim(tmp_path: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "scripts/sim.py", "--folder", tmp_path, *args]
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def run():
    """Return a run of all images on the default machine, whose library is there."""
    return run_digits(RtlDevice(Config(), trace=True), batches=28, stream=True)


@pytest.fixture(scope="module")
def record(run) -> dict:
    return as_json(run, "verilator")


def test_the_recorded_report_is_todays(run):
    """README shows it; the lines from the simulated cycles on hold times."""
    with Console(record=True, width=80, file=StringIO()) as console:
        print_report(run, "verilator", console)
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    recorded = (ROOT / "docs/recorded/sim.txt").read_text()
    assert "\n".join(lines[: lines.index(next(x for x in lines if "simulated" in x))]) in recorded


def test_every_batch_is_exact_and_accurate(record):
    assert record["bit_exact"] is True
    assert record["images"] == 448
    assert record["accuracy"] == 438 / 448
    assert record["float_accuracy"] == 436 / 448
    assert record["macs"] == 255_952  # 303,104 less those of dead channels


def test_cycles_meet_the_targets(record):
    assert 1000 < record["cycles_cold"] <= 1811
    assert 1000 < record["cycles_warm"] <= 1445
    assert 1000 < record["cycles_per_batch"] <= 1202


def test_counters_sum_to_the_cycles(record):
    for name in ("counters", "counters_warm", "counters_stream"):
        counters = record[name]
        for engine in ("load", "store", "mxu", "vpu"):
            states = ("idle", "busy", "token", "buffer", "axi")
            assert sum(counters[f"{engine}_{state}"] for state in states) == counters["cycles"]


def test_two_batches_under_cocotb(tmp_path):
    result = make_sim(tmp_path, "--short", "--config", SMALLER, SIM="verilator")
    assert result.returncode == 0, result.stdout + result.stderr
    for words in ("dense1", "dense2", "dense3", "bit-exact", "yes"):
        assert words in result.stdout
    short = json.loads((tmp_path / "mlp.json").read_text())
    assert short["images"] == 32
    assert short["bit_exact"] is True
    assert short["accuracy"] is None
    assert short["cycles_per_batch"] is None
    assert short["cycles_per_second"] > 0


@pytest.mark.regress("a minute: smaller chips run on Icarus in all benches of both simulators")
@pytest.mark.parametrize("simulator", ["verilator", pytest.param("icarus", marks=NO_ICARUS)])
def test_every_simulator_takes_the_same_cycles(simulator, record, tmp_path):
    result = make_sim(tmp_path, *([] if simulator == "icarus" else ["--short"]), SIM=simulator)
    assert result.returncode == 0, result.stdout + result.stderr
    short = json.loads((tmp_path / "mlp.json").read_text())
    assert short["bit_exact"] is True
    for name in ("cycles_cold", "cycles_warm", "counters", "counters_warm", "layers"):
        assert short[name] == record[name]


def test_one_wrong_weight_bit_fails(tmp_path):
    result = make_sim(
        tmp_path, "--short", "--flip-weight-bit", "--config", SMALLER, SIM="verilator"
    )
    assert result.returncode == 1
    assert "bit-exact" in result.stdout
    assert json.loads((tmp_path / "mlp.json").read_text())["bit_exact"] is False
