"""What the main job prints and writes."""

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tpulite.models import CLASSES, DigitsTest
from tpulite.report.profile import Profile, profile_program
from tpulite.report.traced_run import TracedRun
from tpulite_tb.digits import BATCH, STREAM_BATCHES, DigitsRun
from tpulite_tb.model_report import told_classes

__all__ = ["as_json", "print_report"]


def as_json(run: DigitsRun, simulator: str) -> dict:
    """Return the figures of a run; those that it was too short for are None."""
    test = DigitsTest.load()
    cold, warm, stream = (
        account and dict(account.results.counters) for account in (run.cold, run.warm, run.stream)
    )
    assert cold and warm
    whole = run.images == len(test)
    return {
        "simulator": simulator,
        "images": run.images,
        "bit_exact": not run.differences,
        "accuracy": test.accuracy(run.outputs) if whole else None,
        "float_accuracy": test.float_accuracy if whole else None,
        "macs": run.cold.program.macs,
        "cycles_cold": cold["cycles"],
        "cycles_warm": warm["cycles"],
        "cycles_per_batch": stream["cycles"] / STREAM_BATCHES if stream else None,
        "cycles_per_second": run.cycles / run.seconds,
        "counters": cold,
        "counters_warm": warm,
        "counters_stream": stream,
        "layers": [layer.as_dict() for layer in _profile(run, simulator).layers],
    }


def print_report(run: DigitsRun, simulator: str, console: Console) -> None:
    """Print the account of the cold batch layer by layer, and the figures of the run."""
    figures = as_json(run, simulator)
    console.print(_profile(run, simulator))

    limit = run.cold.program.macs // run.cold.program.config.array_size**2
    table = Table(
        title=f"{run.images} held-out images on {simulator}", show_header=False, box=SIMPLE_HEAD
    )
    table.add_row("bit-exact with the golden model", "yes" if figures["bit_exact"] else "NO")
    table.add_row("accuracy, int8", _percent(figures["accuracy"]))
    seen = run.outputs[:, :CLASSES].argmax(axis=1)
    table.add_row("digits of the first", told_classes(seen, DigitsTest.load().labels))
    table.add_row("accuracy of the float network", _percent(figures["float_accuracy"]))
    table.add_row(f"cycles per batch (lower bound {limit:,})")
    table.add_row("  cold", f"{figures['cycles_cold']:,}")
    table.add_row("  weights resident", f"{figures['cycles_warm']:,}")
    streamed = figures["cycles_per_batch"]
    table.add_row(f"  in a program of {STREAM_BATCHES}", f"{streamed:,.1f}" if streamed else "-")
    table.add_row("simulated cycles", f"{run.cycles:,} in {run.seconds:.1f} s")
    table.add_row("cycles per second", f"{figures['cycles_per_second']:,.0f}")
    console.print(table)
    for name in run.differences[:5]:
        console.print(f"Bits differ: {name}", style="bold red")


def _profile(run: DigitsRun, simulator: str) -> Profile:
    traced = TracedRun.of(run.cold.program, run.cold.results, simulator)
    name, layers = f"One cold batch of {BATCH}", tuple(profile_program(traced))
    return Profile(name, simulator, traced.program.config, BATCH, layers, (traced,))


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.2%}"
