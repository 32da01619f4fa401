"""The command ``bench``: modes, tables and figures; on devices that need no simulator."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.memory import Window
from tpulite.bench import (
    ABLATED,
    EVERY,
    LARGE,
    MECHANISMS,
    WORKLOADS,
    ModelDevice,
    find_workload,
    run_ablation,
    run_compilations,
    run_workloads,
)
from tpulite.bench.goals import COMPILE_BYTES, COMPILE_SECONDS, GOALS, standing
from tpulite.bench.layers import LayersWorkload
from tpulite.cli.bench_tables import peer_table
from tpulite.compiler.options import Options
from tpulite.golden.timing import predict_cycles, program_cycles
from tpulite.report.traffic import dram_traffic

pytest_plugins = ("tpulite_testing.command_line",)

CONV = "conv3x3_12x12x3_to_16"


def test_all_that_has_a_target_runs_by_default():
    assert set(GOALS) == set(EVERY)
    assert set(COMPILE_SECONDS) <= set(GOALS)
    assert set(EVERY) - set(WORKLOADS) == set(LARGE)
    assert set(ABLATED) <= set(EVERY)


def test_the_model_has_the_golden_bits_and_the_predicted_clock(tpulite, tmp_path):
    code, out, err = tpulite("bench", CONV, "mlp_b16_warm", "--device", "model", "--json", "o")
    assert (code, err) == (0, "")
    conv, warm = json.loads((tmp_path / "o").read_text())
    (program,) = find_workload(CONV)(Config()).compile()
    traffic = dram_traffic(program)
    assert conv["bit_exact"] and conv["device"] == "model"
    assert conv["cycles"] == predict_cycles(program.commands, Config())
    assert conv["dram_read_bytes"] == traffic.read_bytes == conv["counters"]["read_beats"] * 16
    assert conv["dram_written_bytes"] == traffic.written_bytes == 12 * 12 * 16
    row = next(line for line in out.splitlines() if line.strip().startswith(CONV))
    assert f"{conv['cycles']:,}" in row and f"{traffic.read_bytes:,}" in row

    # The target, and the best of the peers with its conditions.
    goal = next(line for line in out.splitlines() if "1,391" in line).split()
    assert goal[:6] == ["mlp_b16_warm", "1,000", f"{warm['cycles']:,}", "1,445", "yes", "1,391"]
    assert "SCALE-Sim OS 16x16: no DRAM stalls" in out


def test_warm_programs_of_any_workload_load_no_constants():
    device = ModelDevice(Config())
    for name in (CONV, "mlp_b16_cold"):
        (cold,) = run_workloads([name], device, device_name="model")
        (warm,) = run_workloads([name], device, device_name="model", resident=True)
        assert warm.workload == f"{name}_warm" and warm.bit_exact
        (known, resident) = find_workload(name)(Config()).warmed().compile()
        assert warm.cycles == predict_cycles(resident.commands, Config())
        assert cold.cycles and warm.cycles
        assert warm.cycles < predict_cycles(known.commands, Config())
        assert cold.dram_read_bytes and warm.dram_read_bytes
        saved = cold.dram_read_bytes - warm.dram_read_bytes
        assert saved >= len(known.constants) // 2


def test_warm_programs_are_measured_alone(tpulite):
    code, _, err = tpulite("bench", CONV, "--resident", "--compile")
    assert code and "--compile cannot be used with --resident" in err


def test_programs_are_made_for_the_memory_that_they_run_beside(tpulite, tmp_path):
    options = ("--device", "model", "--memory", "sdram16", "--json", "o")
    code, out, err = tpulite("bench", CONV, *options)
    assert (code, err) == (0, "")
    (found,) = json.loads((tmp_path / "o").read_text())
    (program,) = find_workload(CONV)(Config()).compile(Options(memory="sdram16"))
    assert found["memory"] == "sdram16" and found["bit_exact"]
    assert found["cycles"] == program_cycles(program)
    # Reads and writes share 2 bytes a cycle.
    read, written = (program.window_bytes[each] for each in (Window.INPUT, Window.OUTPUT))
    assert found["dram_cycles"] == (read + written + len(program.constants)) // 16 * 8
    assert "memory: sdram16" in out and "1,391" not in out


@pytest.mark.parametrize("mode", ["--compile", "--operators", "--published"])
def test_bounds_are_those_of_the_reference_memory(tpulite, mode):
    code, _, err = tpulite("bench", mode, "--memory", "ddr3")
    assert code == 2 and f"--memory cannot be used with {mode}" in err
    code, _, err = tpulite("bench", CONV, "--memory", "ddr4")
    assert code == 2 and "ddr4: no such memory (did you mean lpddr4?)" in err


def test_targets_are_for_machines_with_a_clock_and_256_multipliers():
    (record,) = run_workloads(["mlp_b16_stream"], ModelDevice(Config()), device_name="model")
    ours = standing(record)
    assert ours is not None and ours.met and ours.limit == 999  # dead channels removed
    assert record.cycles is not None and ours.cycles == record.cycles / 16
    late = standing(replace(record, cycles=16 * 1203, cycles_per_batch=1203.0))
    assert late is not None and not late.met
    assert standing(replace(record, cycles=None)) is None
    small = replace(record, array_size=8)
    assert standing(small) is None
    assert peer_table([record]).row_count and not peer_table([small]).row_count
    assert standing(replace(record, workload="mlp")) is None


def test_ablation_turns_off_one_mechanism_at_a_time():
    names = [CONV, "dwconv3x3_12x12x16_x1"]
    results = list(run_ablation(names, ModelDevice(Config()), device_name="model"))
    assert [(result.workload, result.off) for result in results] == [
        (name, off) for name in names for off in (None, *MECHANISMS)
    ]
    assert all(result.bit_exact for result in results)
    conv, depthwise = ({r.off: r for r in results if r.workload == name} for name in names)
    for result in results:
        whole = {CONV: conv, names[1]: depthwise}[result.workload][None]
        assert whole.cycles is not None and result.cycles is not None
        if result.same:
            assert result == replace(whole, off=result.off, same=True)
        (program,) = find_workload(result.workload)(Config()).compile(
            replace(
                Options(without=("choose-bound",)),
                **({MECHANISMS[result.off]: False} if result.off else {}),
            )
        )
        assert result.commands == len(program.commands)
        assert result.cycles == predict_cycles(program.commands, Config())
        assert result.dram_read_bytes == dram_traffic(program).read_bytes
    assert conv["interleaved depthwise"].same and depthwise["dense mode"].same
    cycles = [conv[off].cycles or 0 for off in ("dense mode", None)]
    assert cycles[0] > 1.5 * cycles[1] > 0
    assert depthwise["interleaved depthwise"].commands > depthwise[None].commands


def test_ablation_prints_what_differs(tpulite, tmp_path):
    code, out, err = tpulite("bench", "--ablation", CONV, "--device", "model", "--json", "o.json")
    assert (code, err) == (0, "")
    whole, *others = json.loads((tmp_path / "o.json").read_text())
    assert len(others) == len(MECHANISMS) and whole["off"] is None
    for other in others:
        shown = [line.split() for line in out.splitlines() if f"without {other['off']}" in line]
        assert len(shown) == (not other["same"])
        for row in shown:
            change = other["cycles"] / whole["cycles"] - 1
            count = 1 + len(other["off"].split())
            assert row[count : count + 2] == [f"{other['cycles']:,}", f"{change:+.1%}"]


def test_wrong_bits_of_an_ablated_program_are_told(tpulite, monkeypatch):
    right = LayersWorkload.run

    def wrong(self, programs, device):
        outcome = right(self, programs, device)
        return replace(outcome, exact=outcome.counters["read_beats"] < 200)

    monkeypatch.setattr(LayersWorkload, "run", wrong)
    code, out, err = tpulite("bench", "--ablation", CONV, "--device", "model")
    assert code == 2 and "NO" in out and "yes" in out
    assert err == f"tpulite: {CONV}: results differ from the reference\n"


def test_a_failure_leaves_what_was_measured_before(tpulite, tmp_path, monkeypatch):
    right = LayersWorkload.compile

    def fail(self, options):
        if not options.dense_mode:
            raise ValueError("It does not fit")
        return right(self, options)

    monkeypatch.setattr(LayersWorkload, "compile", fail)
    code, out, err = tpulite("bench", "--ablation", CONV, "--device", "model", "--json", "o.json")
    assert (code, err) == (2, "tpulite: It does not fit\n")
    assert CONV in out and "dense mode" not in out
    assert not (tmp_path / "o.json").exists()


def test_compiling_is_measured_in_a_process_of_its_own(tpulite, tmp_path):
    code, out, err = tpulite("bench", "--compile", CONV, "--json", "o.json")
    assert (code, err) == (0, "")
    (record,) = json.loads((tmp_path / "o.json").read_text())
    (program,) = find_workload(CONV)(Config()).compile()
    assert (record["workload"], record["layers"]) == (CONV, 1)
    assert record["commands"] == len(program.commands)
    assert 0 < record["seconds"] < 30
    if record["peak_bytes"] is not None:
        assert 10e6 < record["peak_bytes"] < COMPILE_BYTES
    assert f"{record['seconds']:.2f}" in out


def test_a_failing_process_is_told(monkeypatch):
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(RuntimeError, match=rf"^Compiling {CONV} ended with exit code 1$"):
        list(run_compilations([CONV], Config()))


@pytest.mark.parametrize(
    "words, message",
    [
        (("--ablation", "gemm_4x4"), "gemm_4x4: no such workload (did you mean "),
        (("--compile", "mlp_b16"), "mlp_b16: no such workload"),
        (("--ablation", "--compile"), "--compile cannot be used with --ablation"),
        (("--quick", "resnet8"), "--quick cannot be used with names of workloads"),
        (("--compile", CONV, "--device", "golden"), "--device cannot be used with --compile"),
        ((CONV, "--device", "abacus"), "abacus: no such device"),
    ],
)
def test_bad_choices_are_one_line(tpulite, tmp_path, words, message):
    code, out, err = tpulite("bench", *words, "--json", "o.json")
    assert code == 2 and out == ""
    assert len(err.splitlines()) == 1 and message in err, err
    assert not (tmp_path / "o.json").exists()


def test_layers_know_what_is_right(monkeypatch):
    workload, device = find_workload(CONV)(Config()), ModelDevice(Config())
    assert workload.run(workload.compile(), device).exact
    again = find_workload(CONV)(Config())
    wrong = {"x1": np.zeros((12, 12, 16), np.int8)}
    monkeypatch.setattr("tpulite.bench.layers.run_layers", lambda layers, inputs: wrong)
    assert not again.run(again.compile(), device).exact


def test_beats_are_bytes():
    (record,) = run_workloads(["gemm_16x16x16"], ModelDevice(Config()), device_name="model")
    assert record.dram_written_bytes == 256 == record.counters["write_beats"] * BEAT_BYTES


def test_single_operators_are_measured_beside_their_bounds(tpulite, tmp_path):
    pytest.importorskip("ai_edge_litert", reason="LiteRT is missing")
    pattern = "^MEAN alone 8x8x10 axes 1,2$"
    code, out, err = tpulite("bench", "--operators", pattern, "--json", "o")
    assert (code, err) == (0, "")
    (record,) = json.loads((tmp_path / "o").read_text())
    assert record["bound"] == 150 + 8 * 8 * 10 // 16 and record["host"] == ""
    assert record["cycles"] >= record["bound"]
    row = next(line for line in out.splitlines() if "MEAN alone 8x8x10" in line)
    assert row.split()[5:8] == [f"{record['cycles']}", "190", f"{record['ratio']:.2f}"]


def test_the_smallest_shape_of_an_operator_is_quick(tpulite, tmp_path):
    pytest.importorskip("ai_edge_litert", reason="LiteRT is missing")
    code, _, err = tpulite("bench", "--operators", "^MEAN alone", "--quick", "--json", "o")
    assert (code, err) == (0, "")
    assert len(json.loads((tmp_path / "o").read_text())) == 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("(",), "not a regular expression"),
        (("NOTHING",), "no operator and shape of the sweep matches"),
        (("--compile",), "--compile cannot be used with --operators"),
        (("--device", "model"), "--device cannot be used with --operators"),
    ],
)
def test_wrong_patterns_of_operators_are_refused(tpulite, words, reason):
    code, _, err = tpulite("bench", "--operators", *words)
    assert code and reason in err


def test_published_networks_are_measured_beside_their_layers(tpulite, tmp_path):
    pytest.importorskip("ai_edge_litert", reason="LiteRT is missing")
    code, out, err = tpulite("bench", "--published", "^ds_tcn$", "--json", "n")
    assert (code, err) == (0, "")
    (record,) = json.loads((tmp_path / "n").read_text())
    assert record["network"] == "ds_tcn" and not record["host"]
    assert record["ratio"] == record["cycles"] / record["layers"]
    assert f"{record['cycles']:,}" in out and f"{record['layers']:,}" in out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("[",), "not a regular expression"),
        (("resnext",), "no published network matches; there are: efficientnet_lite0"),
        (("--operators",), "--published cannot be used with --operators"),
        (("--device", "rtl"), "--device cannot be used with --published"),
    ],
)
def test_wrong_patterns_of_networks_are_refused(tpulite, words, reason):
    code, out, err = tpulite("bench", "--published", *words)
    assert code == 2 and reason in err and not out
