"""MLPerf Tiny's protocol: firmware on the Verilated chip, and the host that plays the runner."""

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tpulite.arch.config import Config
from tpulite.configs import named_config
from tpulite.export import export_files, export_network, reference_runs
from tpulite.graph.graph import Graph, Node
from tpulite.models import CLASSES, MLP_DIGITS, DigitsTest
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite_litex.exports import description
from tpulite_litex.firmware import MAKEFILE
from tpulite_litex.mlperf import board_line
from tpulite_litex.runner import Runner
from tpulite_litex.samples import Benchmark, Sample, Tensors, accuracy, area_under_curve
from tpulite_testing.exported import sources_of
from tpulite_testing.graphs.model_graphs import chain, tensor
from tpulite_verilated.library import HARNESS_DIR, build_library, cached_verilog

NAME = "net"
CHIP = Path(__file__).with_name("mlperf_chip.c")

BOARD = """
#pragma once
#include <stdint.h>
#define CONFIG_CLOCK_FREQUENCY 1000000
#define TPULITE_LITEX_REGISTERS 0
#define network net_network
void uart_write(char c);
char uart_read(void);
uint64_t timer0_uptime_cycles_read(void);
static inline void timer0_uptime_latch_write(int x) { (void)x; }
static inline void uart_init(void) {}
static inline void irq_setmask(int x) { (void)x; }
static inline void irq_setie(int x) { (void)x; }
static inline void flush_cpu_dcache(void) {}
static inline void flush_l2_cache(void) {}
"""
HEADERS = ("generated/csr.h", "generated/soc.h", "generated/mem.h", "irq.h", "system.h")
"""LiteX's, of which :data:`BOARD` has everything."""


def mirror() -> Graph:
    """Make a network of floats at its ends, whose output has the shape of its input."""
    weight = np.random.default_rng(1).integers(-127, 128, (12, 12), np.int8)
    tensors = [
        tensor("x", (1, 12)),
        tensor("xq", (1, 12), "int8", (0.05, 3)),
        tensor("w", (12, 12), "int8", (0.01, 0), weight),
        tensor("y", (1, 12), "int8", (0.1, -12)),
        tensor("out", (1, 12)),
    ]
    nodes = [
        Node("q", "quantize", ("x",), ("xq",), source="QUANTIZE"),
        Node("d", "dense", ("xq", "w"), ("y",), {"activation": "none"}, "FULLY_CONNECTED"),
        Node("f", "dequantize", ("y",), ("out",), source="DEQUANTIZE"),
    ]
    return chain(nodes, tensors)


def compiled(folder: Path, model: Model, asked: Benchmark) -> list[Path]:
    """Compile the firmware with a network; return the command that runs it."""
    inputs = {
        key: x.reshape(-1, *model.graph.tensors[key].shape)
        for key, x in random_inputs(model.graph, 1, seed=1).items()
    }
    exported = folder / NAME
    files = export_files(export_network(model), reference_runs(model, inputs), NAME, exported)
    for name in (*HEADERS, "libbase/uart.h"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("")
    (folder / "board.h").write_text(BOARD)
    library = build_library(cached_verilog(Config()), title="the 16x16 chip")
    firmware = MAKEFILE.parent
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-include", "board.h"]
    flags += ["-include", f"{NAME}.h", f"-DNETWORK={NAME}", f'-DMODEL="{asked.model}"']
    flags += [f"-DPIXELS={asked.pixels:d}", f"-DRECONSTRUCTS={asked.reconstructs:d}"]
    flags += ["-DINPUT_BYTES=NET_INPUT_0_BYTES", "-DOUTPUT_BYTES=NET_OUTPUT_0_BYTES"]
    flags += [f"-I{path}" for path in (folder, exported, HARNESS_DIR, firmware)]
    objects = []
    for path, more in {
        firmware / "mlperf.c": ["-Dmain=firmware"],
        firmware / "mlperf_model.c": [],
        firmware / "mlperf_text.c": [],
        firmware / "tpulite_litex.c": ["-Dtpulite_litex_placement=placement_of_a_board"],
    }.items():
        objects.append(folder / f"{path.stem}.o")
        subprocess.run(["gcc", *flags, *more, "-c", path, "-o", objects[-1]], check=True)
    sources = sources_of(files)
    flags += [f"-Wl,-rpath,{library.parent}", "-o", folder / "device"]
    subprocess.run(["gcc", *flags, CHIP, *objects, *sources, library], check=True)
    return [folder / "device", exported / f"{NAME}_image.bin"]


@contextmanager
def console(*command: str | Path) -> Iterator[Runner]:
    """Run the firmware."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        asked, said = process.stdin, process.stdout
        assert asked is not None and said is not None
        yield Runner(map(str.strip, said), lambda text: (asked.write(text), asked.flush()))
        asked.close()
        assert process.wait() == 0


@contextmanager
def device(folder: Path, source: Path | Graph, asked: Benchmark) -> Iterator[tuple]:
    """Run the firmware with a network: runner, model, tensors."""
    model = Model.load(source)
    with console(*compiled(folder, model, asked)) as runner:
        first, *_, last = runner.wait()
        assert (first, last) == ("m-timestamp-mode-performance", "m-init-done")
        yield runner, model, Tensors.of(description(folder / NAME), asked)


def test_digits_are_recognized_through_the_protocol(tmp_path):
    test = DigitsTest.load()
    with device(tmp_path, MLP_DIGITS, Benchmark("digits")) as (runner, model, tensors):
        assert (runner.name(), runner.model()) == ("tpulite", "digits")
        for image, label in zip(test.images[:2], test.labels, strict=False):
            runner.load(image.tobytes())
            results = runner.infer(1, 0).results
            assert results == tensors.written(image.tobytes(), model.run(image[None]).output)
            assert np.argmax(list(map(float, results[:CLASSES]))) == label

        one, four = runner.infer(1, 0), runner.infer(4, 1)
        assert four.results == one.results
        assert four.chip_cycles * 4 <= four.microseconds  # of a clock with a megahertz
        assert 2 * one.microseconds < four.microseconds < 5 * one.microseconds
        assert runner.command("results") == [f"m-results-[{','.join(one.results)}]"]
        (lap,) = runner.command("timestamp")
        assert lap.startswith("m-lap-us-")
        assert runner.command("db print")[0] == "m-buffer-" + test.images[1][:8].tobytes().hex("-")


@pytest.mark.parametrize("reconstructs", [False, True])
def test_floats_and_integers_are_the_same_input(reconstructs, tmp_path):
    asked = Benchmark("mirror", pixels=not reconstructs, reconstructs=reconstructs)
    with device(tmp_path, mirror(), asked) as (runner, model, tensors):
        results = []
        pixels = np.random.default_rng(1).bytes(12)
        for data in (tensors.value(pixels).astype("<f4").tobytes(), pixels):
            runner.load(data)
            results.append(runner.infer(1, 1).results)
            due = model.run(tensors.value(data)).output
            if not (reconstructs and data is pixels):
                assert results[-1] == tensors.written(data, due)
        assert len(results[0]) == (1 if reconstructs else 12)
        assert reconstructs or results[0] == results[1]


def test_wrong_commands_are_refused_and_the_next_one_is_obeyed(tmp_path):
    with device(tmp_path, MLP_DIGITS, Benchmark("digits")) as (runner, _, _):
        for command, said in {
            "": "Unknown command: ",
            "nonsense 1": "Unknown command: nonsense",
            "infer 1 0": "Input has 0 bytes, expected 0",
            "infer 0": "Inference iterations must be >0",
            "infer 1 -1": "Inference warmup must be >=0",
            "db": "Command 'db' requires a subcommand",
            "db load 255": "Input has 256 or 256 bytes, not 255",
            "db 0": "Insufficent number of hex digits",
            "x" * 200: f"Unknown command: {'x' * 80}",
        }.items():
            with pytest.raises(RuntimeError, match=f"the device says: {said}$"):
                runner.command(command)
            runner.wait()
        runner.command("db load 256")
        with pytest.raises(RuntimeError, match="Invalid hex digit '0g'"):
            runner.command("db 000g")
        runner.wait()
        assert runner.name() == "tpulite"


def test_what_is_wrong_is_one_line_and_the_device_goes_on(tmp_path):
    command = compiled(tmp_path, Model.load(MLP_DIGITS), Benchmark("digits"))
    for wrong, said in {
        "absent": "error 1, there is no tpulite at this address",
        "askew": "error 5, image or memory are not at a multiple of 16 bytes",
    }.items():
        with console(*command, wrong) as runner:
            with pytest.raises(RuntimeError, match=f"^the device says: {said}$"):
                runner.wait()
            runner.wait()
            assert runner.name() == "tpulite"
    stopped = "error 6, the chip has stopped: fault"
    for wrong, said in {
        "impatient": "error 3, no interrupt in time$",
        "mute": f"{stopped} 8, nothing moved, command",
        "unread": f"{stopped} 7, error of the bus at a command, command 0,",
        "unwritten": f"{stopped} 6, error of the bus at a write, command",
    }.items():
        with console(*command, wrong) as runner:
            runner.wait()
            runner.load(bytes(256))
            with pytest.raises(RuntimeError, match=f"^the device says: {said}"):
                runner.infer(1, 0)
            runner.wait()
            assert runner.name() == "tpulite"

    other = compiled(tmp_path, Model.load(MLP_DIGITS, config=named_config("8x8")), Benchmark("x"))
    with console(*other) as runner, pytest.raises(RuntimeError, match="error 2, compiled for ano"):
        runner.wait()


def test_a_device_is_reached_over_a_line(tmp_path):
    pytest.importorskip("serial", reason="LiteX is missing (pip install '.[litex]')")
    command = compiled(tmp_path, Model.load(MLP_DIGITS), Benchmark("digits"))
    listener = socket.create_server(("localhost", 0))

    def serve() -> None:
        with listener, listener.accept()[0] as line:
            subprocess.run(command, stdin=line.fileno(), stdout=line.fileno(), check=True)

    server = threading.Thread(target=serve)
    server.start()
    with board_line(f"tcp:localhost:{listener.getsockname()[1]}") as runner:
        assert runner.model() == "digits"
    server.join()


def test_a_device_that_ends_or_says_something_else_is_an_error():
    with pytest.raises(RuntimeError, match=r"has ended: m-name-dut-\[x\]"):
        Runner(["m-name-dut-[x]"], lambda _: None).name()
    with pytest.raises(RuntimeError, match="does not answer"):
        Runner(["m-ready"], lambda _: None).synchronize()
    with pytest.raises(RuntimeError, match="says no model but"):
        Runner(["m-ready"], lambda _: None).model()
    with pytest.raises(RuntimeError, match="has not got the 3 bytes"):
        Runner(["m-ready"] * 2, lambda _: None).load(b"123")
    with pytest.raises(RuntimeError, match="1 timestamps of an inference"):
        Runner(["m-lap-us-3", "m-ready"], lambda _: None).infer(1, 0)


def test_microseconds_may_wrap():
    said = ["m-lap-us-4294967290", "m-lap-us-10", "m-results-[0.500,-1.000]", "m-ready"]
    inferred = Runner(said, lambda _: None).infer(2, 0)
    assert (inferred.microseconds, inferred.results) == (16, ("0.500", "-1.000"))


def test_files_of_a_dataset_may_hold_several_inputs(tmp_path):
    (tmp_path / "y_labels.csv").write_text("a.bin, 2, 0, 4, 2\nb.bin, 2, 1\nc.bin, 2, 1\n")
    (tmp_path / "a.bin").write_bytes(bytes(range(9)))
    (tmp_path / "b.bin").write_bytes(b"bb")
    samples = Sample.read(tmp_path, 2)
    assert [(each.file, each.label, each.data) for each in samples] == [
        ("a.bin", 0, bytes(range(4))),
        ("a.bin", 0, bytes(range(2, 6))),
        ("a.bin", 0, bytes(range(4, 8))),
        ("b.bin", 1, b"bb"),
    ]


def test_files_are_scored_by_their_mean():
    results = {"a": [[0.6, 0.4], [0.0, 1.0]], "b": [[0.9, 0.1]]}
    assert accuracy(results, {"a": 1, "b": 1}) == 0.5
    scores = {"a": [[1.0]], "b": [[3.0], [1.0]], "c": [[2.0]], "d": [[0.0]]}
    assert area_under_curve(scores, {"a": 0, "d": 0, "b": 1, "c": 1}) == 1.0
    assert area_under_curve(scores, {"a": 0, "c": 0, "b": 1, "d": 1}) == 0.375
    with pytest.raises(ValueError, match="both classes"):
        area_under_curve(scores, dict.fromkeys(scores, 1))
