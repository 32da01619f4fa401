"""The main job: a network on the whole chip, simulated by $SIM.

Without a model, or with ``mlp``, the perceptron classifies handwritten digits: Verilator runs all
448 test images, Icarus the first two batches of 16. ``cnn`` is a small convolutional network for
the same digits; other models are names of the zoo or paths of TFLite and ONNX files. The figures
go to build/sim/NAME.json. With WAVES=1 a short run leaves a waveform of the chip's ports, with
WAVES=all of everything; WAVES_FROM=1000 WAVES_TO=2000 keep these cycles only.
"""

import argparse
import json
import os
import sys
from pathlib import Path

import numpy as np

from tpulite.configs import named_chip, named_config
from tpulite.frontend.files import network_name
from tpulite.models import CNN_DIGITS, DigitsTest
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.zoo import ENTRIES, fetch
from tpulite_rtl.verilog import TOP, file_stem
from tpulite_tb.digits import BATCH
from tpulite_tb.harness import simulate_verilog
from tpulite_tb.waves import Waves
from tpulite_verilated.library import cached_verilog

ROOT = Path(__file__).resolve().parents[1]
SHORT = 2
QUIET = {
    "COCOTB_LOG_LEVEL": "ERROR",
    "GPI_LOG_LEVEL": "ERROR",
    "PYTHONWARNINGS": "ignore::DeprecationWarning",  # of cocotbext-axi
}


def main() -> int:
    """Build, simulate, report; 1 if a bit differs or the simulation breaks off, 2 if refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="mlp", help="network: mlp, cnn, a zoo name, or a file")
    parser.add_argument("--images", type=int, default=1, help="inputs to simulate (not for mlp)")
    parser.add_argument("--config", default="16x16", help="configuration, like 8x8,ub_rows=4096")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/sim", help="for the figures")
    parser.add_argument("--short", action="store_true", help="simulate only two batches")
    parser.add_argument("--flip-weight-bit", action="store_true", help="inject an error")
    options = parser.parse_args()

    simulator = os.environ.get("SIM") or "verilator"
    options.folder = options.folder.resolve()
    options.folder.mkdir(parents=True, exist_ok=True)
    try:
        chip = named_chip(options.config)
        waves = Waves.of().on
        if options.model == "mlp":
            short = options.short or waves or simulator == "icarus"
            name, bench, environment = prepare_digits(options, simulator, short=short)
        else:
            name, bench, environment = prepare_model(options, simulator)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2

    path = options.folder / f"{name}.json"
    path.unlink(missing_ok=True)
    print(
        f"Building the {options.config} chip for {simulator}, unless it is already built …",
        flush=True,
    )
    try:
        folder = simulate_verilog(
            cached_verilog(*chip),
            str(ROOT / "tb/system" / bench),
            top=TOP,
            name=f"{name}_{file_stem(options.config)}",
            opt="-O0" if options.short else "-O1",  # a network runs for longer than it compiles
            live=True,
            extra_env=environment | QUIET,
        )
    except (AssertionError, RuntimeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    if waves:
        print_waves_help(folder / "waves.fst")
    if path.exists():
        print(f"Figures: {os.path.relpath(path)}")
    return 0


def prepare_digits(
    options: argparse.Namespace, simulator: str, *, short: bool
) -> tuple[str, str, dict[str, str]]:
    """Return name, bench and environment of the perceptron's run."""
    job = {
        "simulator": simulator,
        "config": options.config,
        "batches": SHORT if short else len(DigitsTest.load()) // BATCH,
        "stream": not short,
        "flip_weight_bit": options.flip_weight_bit,
        "json": str(options.folder / "mlp.json"),
    }
    return "mlp", "test_mlp.py", {"TPULITE_DIGITS": json.dumps(job)}


def prepare_model(options: argparse.Namespace, simulator: str) -> tuple[str, str, dict[str, str]]:
    """Compile a network, ask the golden model what is right; return name, bench, environment."""
    name, path, arrays = options.model, Path(options.model), {}
    if options.images < 1:
        raise ValueError(f"there must be at least 1 image, not {options.images}")
    if name == "cnn":
        path = CNN_DIGITS
    elif name in {entry.name for entry in ENTRIES}:
        path = fetch(name)
    elif not path.exists():
        known = ", ".join(["mlp", "cnn", *(entry.name for entry in ENTRIES)])
        raise ValueError(f"{name}: no such network or file; networks are {known}")
    else:
        name = network_name(path)
    model = Model.load(path, config=named_config(options.config))
    if len(model.graph.inputs) != 1 or len(model.graph.outputs) != 1:
        raise ValueError(f"Model {name!r} must have one input and one output to be simulated here")
    if name == "cnn":
        test = DigitsTest.load()
        shape = model.graph.tensors[model.graph.inputs[0]].shape[1:]
        arrays["images"] = test.images[: options.images].reshape(-1, *shape)
        arrays["labels"] = test.labels[: options.images]
    else:
        (arrays["images"],) = random_inputs(model.graph, options.images, seed=1).values()
    arrays["expected"] = model.run(arrays["images"], device="golden").output
    inputs = options.folder / f"{name}_inputs.npz"
    np.savez_compressed(inputs, **arrays)
    job = {
        "name": name,
        "config": options.config,
        "model": str(path),
        "inputs": str(inputs),
        "simulator": simulator,
        "json": str(options.folder / f"{name}.json"),
    }
    return name, "test_sim_model.py", {"TPULITE_MODEL": json.dumps(job)}


def print_waves_help(path: Path) -> None:
    """Say how to look at a waveform."""
    name = os.path.relpath(path)
    layout = Path(name).with_suffix("")
    how = f"gtkwave {name}    or    surfer {name}"
    if path.with_suffix(".gtkw").exists():
        how = f"gtkwave {layout}.gtkw    or    surfer -c {layout}.sucl {name}"
    print(
        f"Waveform: {name}\n"
        f"  {how}    (https://surfer-project.org)\n"
        f"  Look at {TOP}.trace_*_state and trace_*_index, the state and command of each\n"
        f"  engine; then at the DRAM port {TOP}.m_axi_* and at irq, which ends a run."
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
