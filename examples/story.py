"""A story that the machine tells word by word: every layer of a small decoder runs on it, in int8.

Run it with ``python examples/story.py``; ``--device rtl --tokens 1`` takes the Verilated chip.
"""

import argparse

import numpy as np

import tpulite
from tpulite.language.sampling import Sampling
from tpulite.language.story import load_storyteller
from tpulite.models import STORY
from tpulite.needs import require_package
from tpulite.runtime.device import require_device

parser = argparse.ArgumentParser(description="Tell a story.")
parser.add_argument("begin", nargs="?", default="", help='first words: "Once there was a shy fox"')
parser.add_argument("--device", default="golden", help="golden, or rtl: the Verilated chip")
parser.add_argument("--tokens", type=int, default=120, help="words and marks at most")
parser.add_argument("--temperature", type=float, default=0.8, help="0: the most likely words")
parser.add_argument("--seed", type=int, default=4, help="another one, another story")
parser.add_argument("--mhz", type=float, default=100.0, help="clock of the machine")
parser.add_argument("--check", action="store_true", help="compare all with LiteRT, bit for bit")
given = parser.parse_args()
if given.tokens < 1 or not given.mhz > 0:
    parser.error("--tokens and --mhz must be positive")

COLUMNS = 78


def tell(text: str, column: int) -> int:
    """Print a word at once, on a new line where it does not fit; return the column behind it."""
    if text.startswith(" ") and column + len(text) > COLUMNS:
        text = f"\n{text[1:]}"
    print(text, end="", flush=True)
    return len(text) - 1 if text.startswith("\n") else column + len(text)


try:
    require_device(given.device)
    if given.check:
        require_package("ai_edge_litert", "litert", "--check")
    teller = load_storyteller(cache=True)
    writer, words = teller.writer(given.device), teller.words
    read = [0, *words.encode(given.begin)]
    sampling = Sampling(given.temperature, seed=given.seed)
    told = writer.generate(read, tokens=given.tokens, stops=[0], sampling=sampling)
except ValueError as error:
    parser.error(str(error))

column = tell(words.decode(read), 0)
for token in told:
    shown, read = len(words.decode(read)), [*read, token]
    column = tell(words.decode(read)[shown:], column)
print("\n")

network, counted = teller.network, "counted by the chip" if writer.cycles else "by the cycle model"
cycles = max(writer.cycles, default=teller.cycles)
ms = cycles / given.mhz / 1000
print(f"{cycles:,} cycles a token, {counted}")
print(f"{ms:.3f} ms at {given.mhz:g} MHz, {1000 / ms:,.0f} tokens/s")
print(f"{network.macs:,} MACs a token, {network.crossings} tensors cross to the CPU")

if given.check:
    rows = np.concatenate([teller.given(token, 0)["word"] for token in read[: writer.position]])
    print(str(tpulite.compare(STORY, inputs=rows, device=given.device)))
