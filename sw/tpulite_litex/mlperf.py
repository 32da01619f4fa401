"""``python -m tpulite_litex.mlperf``: MLPerf Tiny's runner, and a LiteX system with the chip."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

from tpulite.configs import named_config
from tpulite.export.c_text import identifier
from tpulite.models import CLASSES, MLP_DIGITS, DigitsTest
from tpulite.parts import SIZES
from tpulite.runtime.model import Model
from tpulite.zoo import find_network
from tpulite_litex.device import parsed_address
from tpulite_litex.exports import DIGITS, description, export
from tpulite_litex.runner import Inferred, Runner
from tpulite_litex.samples import BENCHMARKS, Benchmark, Sample, Tensors, accuracy, area_under_curve
from tpulite_litex.steps import check_machine
from tpulite_litex.system import BuiltSystem
from tpulite_rtl.verilog import file_stem
from tpulite_verilated.toolchain import build_root

__all__ = ["board_line", "main"]

_SEED = 2024


@click.command()
@click.argument("network")
@click.option("--config", default="4x4", show_default=True, help="Configuration of the chip.")
@click.option("--iterations", default=2, show_default=True, help="Inferences that are timed.")
@click.option("--warmups", default=1, show_default=True, help="Inferences before these.")
@click.option("--samples", default=2, show_default=True, help="Inputs whose results are checked.")
@click.option("--dataset", type=Path, help="Folder with y_labels.csv and files; else random ones.")
@click.option("--line", help="uart:/dev/ttyUSB0 of a board with this firmware; else a simulator.")
def main(
    network: str,
    config: str,
    iterations: int,
    warmups: int,
    samples: int,
    dataset: Path | None,
    line: str | None,
) -> None:
    """Play MLPerf Tiny's runner: performance and accuracy mode for NETWORK.

    It is `mlp`, the digits, or what `tpulite export` takes; `ad`, `kws`, `resnet8` and `vww` of
    the zoo are the closed benchmarks'. The exit code is 1 if a result is not the golden machine's.
    """
    try:
        right = _play(network, config, line, dataset, (iterations, warmups, samples))
    except (OSError, RuntimeError, ValueError) as error:
        print(f"tpulite: {error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(not right)


def _play(
    network: str, config: str, line: str | None, dataset: Path | None, counts: tuple[int, int, int]
) -> bool:
    iterations, warmups, wanted = counts
    name = identifier(Path(network).stem)
    benchmark = BENCHMARKS.get(network, Benchmark(name))
    folder = build_root() / "soc" / file_stem(config)
    exported = folder / "export" / name
    export(network, name, config, exported)
    tensors = Tensors.of(description(exported), benchmark)
    samples = _samples(network, dataset, tensors, wanted)
    with board_line(line) if line else _simulator(folder, config, exported, benchmark) as runner:
        model = runner.model()
        if model != benchmark.model:
            raise ValueError(f"the device has the network {model}, not {benchmark.model}")
        print(f"{model} on {runner.name()}", flush=True)
        runner.load(samples[0].data)
        print(_performance(runner.infer(iterations, warmups), config, bool(line)), flush=True)
        path = MLP_DIGITS if network == DIGITS else find_network(network)
        return _check(runner, Model.load(path, config=named_config(config)), tensors, samples)


@contextmanager
def _simulator(folder: Path, config: str, exported: Path, benchmark: Benchmark) -> Iterator[Runner]:
    check_machine()
    system = BuiltSystem(folder, config)
    flags = f"-DPIXELS={benchmark.pixels:d} -DRECONSTRUCTS={benchmark.reconstructs:d}"
    system.build({exported.name: exported}, "mlperf", {"MODEL": benchmark.model, "FLAGS": flags})
    with system.console() as console:
        runner = Runner(console.lines, console.send)
        runner.wait()
        yield runner


@contextmanager
def board_line(line: str) -> Iterator[Runner]:
    """Yield a device at the other end of a line, as ``uart:/dev/ttyUSB0``; OSError if it breaks."""
    from serial import serial_for_url  # of an extra

    port, baud = parsed_address(line)
    with serial_for_url(port, baud, timeout=60) as serial:
        lines = (each.decode(errors="replace").strip() for each in iter(serial.readline, b""))
        runner = Runner(filter(None, lines), lambda text: serial.write(text.encode()))
        runner.synchronize()
        yield runner


def _samples(network: str, dataset: Path | None, tensors: Tensors, count: int) -> list[Sample]:
    if dataset:
        return Sample.read(dataset, count)
    if network != DIGITS:
        return [Sample("", data) for data in tensors.random(count, _SEED)]
    test = DigitsTest.load()
    pairs = zip(test.images[:count], test.labels, strict=False)
    return [
        Sample(str(i), image.tobytes(), int(label), CLASSES)
        for i, (image, label) in enumerate(pairs)
    ]


def _performance(inferred: Inferred, config: str, real: bool) -> str:
    each = inferred.microseconds / inferred.iterations
    if real:
        return f"performance: {1e6 / each:,.1f} inferences/s"
    # The simulated clock has a megahertz.
    said = f"performance: {each:,.0f} cycles per inference, {inferred.chip_cycles:,} of the chip"
    size = SIZES.get(config)
    if size is None or size.fmax_mhz is None:
        return said
    return f"{said}; {1e6 * size.fmax_mhz / each:,.1f} inferences/s at {size.speed}"


def _check(runner: Runner, model: Model, tensors: Tensors, samples: list[Sample]) -> bool:
    """Accuracy mode: tell how many results are right, by the golden machine and by their labels."""
    scores: dict[str, list[list[float]]] = {}
    same = 0
    for sample in samples:
        due = tensors.written(sample.data, model.run(tensors.value(sample.data)).output)
        runner.load(sample.data)
        results = runner.infer(1, 0).results
        same += results == due
        if results != due:
            print(f"{sample.file or 'an input'}: {results}, not {due}", flush=True)
        if sample.label >= 0:
            values = list(map(float, results))[: sample.classes]
            scores.setdefault(sample.file, []).append(values)
    print(f"accuracy: {same} of {len(samples)} results are the golden machine's", flush=True)
    labels = {sample.file: sample.label for sample in samples}
    if scores:
        print(_score(scores, labels, tensors.benchmark))
    return same == len(samples)


def _score(
    scores: Mapping[str, list[list[float]]], labels: Mapping[str, int], benchmark: Benchmark
) -> str:
    if benchmark.reconstructs:
        return f"AUC of {len(scores)} files: {area_under_curve(scores, labels):.3f}"
    return f"{accuracy(scores, labels):.1%} of {len(scores)} files are of their class"


if __name__ == "__main__":
    main()
