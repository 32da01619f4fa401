"""Outcomes on disk, each in a file named by all that it depends on."""

import hashlib
import json
from dataclasses import asdict, dataclass

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.executors.kept import Records
from tpulite.explore.measure import Outcome, Run
from tpulite.graph.layers import LayerGraph
from tpulite.runtime.compile_cache import program_key

_FORMAT = 2
"""Another number makes all outcomes that were kept before count as missing."""


@dataclass(frozen=True)
class Store:
    """Outcomes among records."""

    records: Records  #: Where they are.

    def get(self, key: str) -> Outcome | None:
        """Return an outcome, None if it is not there or not whole."""
        try:
            return Outcome.from_dict(self.records.get(key) or {})
        except (KeyError, TypeError):
            return None

    def put(self, key: str, outcome: Outcome) -> None:
        """Keep an outcome; OSError if that is not possible."""
        self.records.put(key, asdict(outcome))


def digest_of(parts: tuple[LayerGraph, ...]) -> str:
    """Return a name for the content of a network, and for the compiler that it is read by."""
    keys = [program_key(part, Config(), Options()) for part in parts]
    return hashlib.blake2b("".join(keys).encode(), digest_size=16).hexdigest()


def run_key(digest: str, run: Run) -> str:
    """Return a name for all that an outcome depends on; machines that time alike share one."""
    record = [_FORMAT, digest, run.config.as_dict(), asdict(run.options), asdict(run.memory)]
    text = json.dumps(record, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
