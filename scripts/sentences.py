"""Measure what int8 costs a sentence encoder: its vectors beside those of the float network.

python scripts/sentences.py [--model PATH] [--tokenizer FILE] [--device NAME] [PAIRS]

PAIRS has two lines for each pair of sentences that mean the like, and a blank line between pairs.
None of them calibrates the encoder.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from tpulite.cli.search import MINILM
from tpulite.frontend.onnx.library import open_session
from tpulite.language.encoder import SentenceEncoder, load_encoder, mean_vector
from tpulite.language.encoder_files import open_encoder
from tpulite.language.sentences import Sentences

_PAIRS = Path(__file__).with_name("sentence_pairs.txt")


@dataclass(frozen=True, eq=False)
class Measured:
    """Vectors of both networks; the sentences of a pair follow each other."""

    #: Ndarray of float32, [sentences, width]. Vectors of length 1.
    floats: np.ndarray
    int8: np.ndarray

    @property
    def cosines(self) -> np.ndarray:
        """Cosine of each vector to that of the floats."""
        return (self.floats.astype(np.float64) * self.int8).sum(axis=1)

    @property
    def correlation(self) -> float:
        """How much the similarities of all two sentences agree."""
        places = np.triu_indices(len(self.floats), 1)
        scores = [(x @ x.T)[places] for x in (self.floats, self.int8)]
        return float(np.corrcoef(np.stack(scores))[0, 1])


def retrieval(vectors: np.ndarray) -> float:
    """Return the share of sentences whose closest other one is that of their pair."""
    scores = vectors @ vectors.T
    np.fill_diagonal(scores, -np.inf)
    return float(np.mean(scores.argmax(axis=1) == (np.arange(len(vectors)) ^ 1)))


def read_pairs(path: Path) -> list[str]:
    """Return the sentences of a file; ValueError if one has no other."""
    pairs = [part.splitlines() for part in path.read_text().strip().split("\n\n")]
    for pair in pairs:
        if len(pair) != 2:
            raise ValueError(f"{path}: a pair has two lines, not {len(pair)}: {pair}")
    return [sentence for pair in pairs for sentence in pair]


def float_vectors(path: Path, sentences: Sentences, texts: list[str]) -> Iterator[np.ndarray]:
    """Yield the vectors of the float network, as ONNX Runtime computes them.

    ValueError if it has integers already.
    """
    file = open_encoder(path, sentences.length)
    if file.quantized:
        raise ValueError(f"{path} is quantized: give the float network")
    session = open_session(file.onnx(), "ENABLE_ALL")
    names = [each.name for each in session.get_inputs()]
    for text in texts:
        feed = sentences.feed(text)
        (hidden,) = session.run(None, {name: feed[name] for name in names})
        yield mean_vector(np.asarray(hidden), feed)


def print_measured(console: Console, measured: Measured, encoder: SentenceEncoder) -> None:
    """Print the table."""
    cosines, network = measured.cosines, encoder.network
    shares = [f"{retrieval(x):.1%}" for x in (measured.floats, measured.int8)]
    table = Table(box=box.SIMPLE)
    table.add_column(f"{len(cosines) // 2} pairs of sentences")
    for name in ("float", "int8"):
        table.add_column(name, justify="right")
    table.add_row("closest is the other of the pair", *shares)
    table.add_row("cosine to float, mean", "", f"{cosines.mean():.4f}")
    table.add_row("cosine to float, least", "", f"{cosines.min():.4f}")
    table.add_row("correlation of all similarities", "", f"{measured.correlation:.4f}")
    table.add_row("cycles of a text", "", f"{encoder.cycles:,}")
    table.add_row("tensors that cross", "", f"{network.crossings}")
    share = 1 - network.host_macs / network.macs
    table.add_row("MACs on the machine", "", f"{share:.1%} of {network.macs:,}")
    console.print(table)


def main() -> int:
    """Measure an encoder and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path(MINILM.name), help="of floats (minilm)")
    parser.add_argument("--tokenizer", type=Path, help="tokenizer.json (the one beside it)")
    parser.add_argument("--device", default="golden", help="where int8 runs (golden)")
    parser.add_argument("pairs", type=Path, nargs="?", default=_PAIRS, help="sentences")
    options = parser.parse_args()
    texts = read_pairs(options.pairs)
    path = MINILM.find(options.model)
    encoder = load_encoder(path, options.tokenizer, cache=True)
    floats = np.stack(list(float_vectors(path, encoder.sentences, texts)))
    embedder = encoder.embedder(options.device)
    int8 = np.stack([embedder.embed(text) for text in texts])
    print_measured(Console(), Measured(floats, int8), encoder)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ValueError, OSError) as error:
        sys.exit(f"sentences.py: {error}")
