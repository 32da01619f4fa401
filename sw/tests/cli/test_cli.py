import json
from dataclasses import fields

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.bench import run_workloads
from tpulite.compiler.options import Options
from tpulite.configs import CONFIG_PARTS
from tpulite.golden.timing import predict_cycles
from tpulite.models import MLP_DIGITS as MLP
from tpulite.parts import SIZES
from tpulite.runtime.golden_device import GoldenDevice
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import load_model_file

pytest_plugins = ("tpulite_testing.command_line",)


def values(batch=16):
    return np.random.default_rng(3).integers(0, 128, (batch, 256), dtype=np.int8)


def save_program(name):
    """Write the bare program of a batch, as ``bind`` makes some."""
    (program,) = Model.load(MLP, options=Options(batch=16, effort=0)).programs
    program.save(name)
    return program


def test_our_own_files_are_compiled_and_run_like_others(tpulite, tmp_path):
    words = ("-o", "mlp.tpulite", "--batch", 16, "--config", "8x8", "--order", "document")
    assert tpulite("compile", MLP, *words, "--no-cache")[0] == 0
    np.save("x.npy", values())
    assert tpulite("run", "mlp.tpulite", "--input", "x.npy", "--output", "y.npy")[0] == 0
    np.testing.assert_array_equal(np.load("y.npy"), Model.load(MLP).reference(values())["output"])
    assert load_model_file(tmp_path / "mlp.tpulite").config == Config(array_size=8)
    code, out, _ = tpulite("inspect", MLP)
    assert code == 0 and "dense1" in out


def test_programs_run_and_are_disassembled(tpulite, tmp_path):
    program = save_program("mlp.tpl")
    x = values().reshape(program.inputs[0].shape)
    np.save("x.npy", x)
    code, out, _ = tpulite("run", "mlp.tpl", "--input", "x.npy", "--output", "y.npy")
    cycles = predict_cycles(program.commands, program.config)
    assert code == 0
    assert out.splitlines()[-1] == f"cycle model: {cycles:,} cycles per batch of 16"
    assert "\ninput input: int8 [16, 1, 1, 256], NHWC\noutput output: int8 [16, " in out
    due = Model.load(MLP).reference(values())["output"]
    np.testing.assert_array_equal(np.load("y.npy").reshape(due.shape), due)

    code, out, _ = tpulite("disasm", "mlp.tpl")
    assert code == 0
    assert len(out.splitlines()) == len(program.commands)
    assert out.splitlines()[-1].split() == [str(len(program.commands) - 1), "END"]

    code, out, _ = tpulite("info", "mlp.tpl")
    assert code == 0 and "layer dense1: m 16, k 256, n 55" in out
    assert {path.name for path in tmp_path.iterdir()} == {"mlp.tpl", "x.npy", "y.npy"}


def test_info_names_configurations_and_devices(tpulite):
    code, out, _ = tpulite("info")
    assert code == 0
    assert (
        f"config 16x16: 16x16 multipliers, 256 KiB unified buffer, hash {Config().hash:#010x}"
        in out
    )
    assert "golden" in out.splitlines()[-1]
    for name in CONFIG_PARTS:
        assert f"  {SIZES[name].line}" in out.splitlines()


def test_info_of_a_configuration_names_its_part_and_its_fields(tpulite):
    code, out, _ = tpulite("info", "ecp5-25")
    assert code == 0
    assert "\n  LFE5U-25: " in out and "% of its LUT\n" in out
    assert "\n  roundings: tflite, ruy, single, float32, away\n" in out
    code, out, _ = tpulite("info", "4x4,ub_rows=64")
    assert code == 0
    assert "\n  ub_rows: 64\n" in out and "LUT" not in out
    names = [line.split(":")[0].strip() for line in out.splitlines()]
    assert {field.name for field in fields(Config)} <= set(names)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("compile", "none.npz", "-o", "out"), "none.npz: no such file or zoo network"),
        (("compile", "bad.npz", "-o", "out"), "bad.npz: this is not an .npz archive"),
        (
            ("compile", MLP, "-o", "out", "--config", "5x5"),
            "5x5: no such configuration; choose from 4x4, ",
        ),
        (("compile", MLP, "-o", "out", "--batch", "0"), "batch must be at least 1, not 0"),
        (("compile", MLP, "-o", "out", "--batch", "x"), "'x' is not a valid integer"),
        (("compile", MLP, "-o", "out", "--order", "any"), "--order: any is not one of fast, "),
        (("compile", MLP, "-o", "none/out"), "No such file or directory"),
        (("run", "cut.npz", "--input", "x.npy", "--output", "out"), "the archive cannot be read"),
        (("run", "cut.tpl", "--input", "x.npy", "--output", "out"), "not a tpulite program file"),
        (("run", "mlp.tpl", "--input", "bad.npz", "--output", "out"), "bad.npz is not a .npy file"),
        (("run", "mlp.tpl", "--input", MLP, "--output", "out"), "Inputs must be ['input'], not ["),
        (("run", "mlp.tpl", "--labels", "bad.npz"), "--labels needs a network, and mlp.tpl is a"),
        (("profile", "mlp.tpl", "--host-ms", "3"), "--host-ms needs a network, and mlp.tpl is a"),
        (("profile", "mlp.tpl", "--config", "8x8"), "mlp.tpl is compiled for another"),
        (("inspect", "mlp.tpl"), "mlp.tpl: this is a compiled program: only run, prof"),
        (
            ("run", "mlp.tpl", "--input", "x.npy", "--output", "out"),
            "x.npy: Input 'input' must have shape [n * 16, 1, 1, 256], not [15",
        ),
        (
            ("run", "mlp.tpl", "--input", "x.npy", "--output", "out", "--device", "abacus"),
            "abacus: no such device",
        ),
        (("disasm", "bad.npz"), "bad.npz is not a compiled network"),
        (
            ("bench", "gemm_0x1x1", "--device", "golden", "--json", "out"),
            "gemm_0x1x1: no such work",
        ),
        (("bench", "mlp", "--device", "golden", "--json", "out"), "mlp: no such workload"),
        (("frobnicate",), "frobnicate: no such command"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(tpulite, tmp_path, words, message):
    (tmp_path / "bad.npz").write_bytes(b"garbage")
    np.save("x.npy", values(15))
    (tmp_path / "cut.npz").write_bytes(MLP.read_bytes()[:1000])
    if "mlp.tpl" in words or "cut.tpl" in words:
        save_program("mlp.tpl")
        whole = (tmp_path / "mlp.tpl").read_bytes()
        (tmp_path / "cut.tpl").write_bytes(whole[: len(whole) // 2])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    code, _, err = tpulite(*words)
    assert code == 2
    assert len(err.splitlines()) == 1 and message in err, err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_existing_file_survives_a_failure(tpulite, tmp_path):
    (tmp_path / "out").write_text("precious")
    assert tpulite("compile", MLP, "-o", "out", "--batch", "-1")[0] == 2
    assert (tmp_path / "out").read_text() == "precious"


def test_bench_writes_records(tpulite, tmp_path):
    names = ("gemm_16x16x16", "gemm_5x33x20", "mlp_b16_cold", "mlp_b16_warm", "mlp_b16_stream")
    code, out, err = tpulite("bench", *names, "--device", "golden", "--json", "out.json")
    assert (code, err) == (0, "")
    records = json.loads((tmp_path / "out.json").read_text())
    assert [record["workload"] for record in records] == list(names)
    assert all(record["bit_exact"] and record["device"] == "golden" for record in records)
    assert [record["macs"] for record in records] == [4096, 3300, 255952, 255952, 16 * 255952]
    assert [record["limit_cycles"] for record in records] == [16, 13, 1000, 1000, 15997]
    assert all(record["cycles"] is None for record in records)
    assert {peer["peer"] for peer in records[2]["peers"]} >= {"Ethos-U55-256"}
    assert "mlp_b16_stream" in out


class Clock(GoldenDevice):
    """A golden device that pretends to take 2,000 cycles a run."""

    cycles, seconds = 0, 0.0

    def run(self, job):
        result = super().run(job)
        self.cycles += 2000
        self.seconds += 0.5
        return type(result)(result.fault, {"cycles": 2000})


def test_records_hold_figures_of_devices_with_a_clock():
    device = Clock(Config())
    names = ["mlp_b16_cold", "mlp_b16_stream", "gemm_64x64x64"]
    cold, stream, gemm = run_workloads(names, device, device_name="clock")
    assert cold.cycles == 2000 and cold.cycles_per_batch is None
    assert cold.utilization == 255952 / 256 / 2000
    # 256 input rows, 1184 of weights, 35 of records.
    assert cold.dram_cycles == 1475 and cold.limit_share == 1475 / 2000
    assert cold.cycles_per_second == 4000
    assert stream.cycles_per_batch == 125
    assert gemm.dram_cycles == 256 + 256 + 20 and gemm.limit_share == 1024 / 2000


def test_wrong_results_are_told(tpulite, monkeypatch):
    monkeypatch.setattr("tpulite.bench.layers.run_layers", lambda layers, x: {"x1": np.zeros(1)})
    code, out, err = tpulite("bench", "gemm_4x4x4", "--device", "golden")
    assert code == 2 and "NO" in out
    assert err == "tpulite: gemm_4x4x4: results differ from the reference\n"
