"""The head of the page: what was run on what, and how fast it was."""

from collections.abc import Mapping
from dataclasses import asdict
from html import escape
from importlib.metadata import version

from bokeh.models import Div

from tpulite.arch.config import Config
from tpulite.report.advice import advise_slowest
from tpulite.report.profile import Profile
from tpulite.report.speed import Speed

__all__ = ["make_head", "table_of_facts"]


def make_head(profile: Profile, speed: Speed, facts: Mapping[str, str]) -> Div:
    """Return network, speed, machine, options and versions, and what would help the slowest."""
    rows = {
        "speed": f"{speed.line()} ({profile.device})",
        "multipliers": f"{profile.macs:,} multiplications, {profile.utilization:.1%} of those "
        f"possible in these cycles",
        "machine": _machine(profile.config),
        **facts,
    }
    for number, sentence in enumerate(advise_slowest(profile), start=1):
        rows[f"slowest {number}"] = sentence
    return table_of_facts(profile.network, rows)


def table_of_facts(title: str, facts: Mapping[str, str]) -> Div:
    """Return a heading, and what is to be known of all that follows; versions are added."""
    versions = {"versions": f"tpulite {version('tpulite')}, Bokeh {version('bokeh')}"}
    cells = "".join(
        f"<tr><th style='text-align: left; padding-right: 16px; vertical-align: top; "
        f"white-space: nowrap'>{escape(name)}</th>"
        f"<td style='overflow-wrap: anywhere'>{escape(text)}</td></tr>"
        for name, text in {**facts, **versions}.items()
    )
    text = f"<h1 style='margin: 8px 0'>{escape(title)}</h1><table>{cells}</table>"
    return Div(text=text, name="head", sizing_mode="stretch_width")


def _machine(config: Config) -> str:
    """Return the size of array and buffer, and what else is not as it is by default."""
    size = config.array_size
    default = asdict(Config(array_size=size, ub_rows=config.ub_rows))
    others = [f"{k}={v}" for k, v in asdict(config).items() if v != default[k]]
    return ", ".join(
        [f"{size} x {size} multipliers", f"a buffer of {config.ub_rows:,} rows", *others]
    )
