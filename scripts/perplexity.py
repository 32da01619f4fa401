"""Measure what int8 and int4 cost a language model: its perplexity on a text beside the floats'.

python scripts/perplexity.py [--model PATH] [TEXT]

ONNX Runtime runs the file of one token that `tpulite chat` compiles, token by token: its logits
are the machine's, bit for bit. None of the text calibrates weights of 4 bits.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from tpulite.cli.chat import SMOLLM2
from tpulite.frontend.onnx.library import open_session
from tpulite.language.int4_llama import Rows, int4_weights, kept_int4_weights, run_llama
from tpulite.language.llama import Llama
from tpulite.language.step import state_names, step_file
from tpulite.language.tokenizer import read_tokenizer
from tpulite.language.weights import read_llama

_TEXT = Path(__file__).with_name("prose.txt")


def perplexity(logits: np.ndarray, tokens: Sequence[int]) -> float:
    """Return e to the mean negative log likelihood of each token behind those before it.

    Parameters
    ----------
    logits : ndarray of float, [tokens, vocabulary]
        Behind each token.
    """
    scores = logits[:-1].astype(np.float64)
    scores -= scores.max(axis=1, keepdims=True)
    likely = scores[np.arange(len(scores)), tokens[1:]] - np.log(np.exp(scores).sum(axis=1))
    return float(np.exp(-likely.mean()))


def step_logits(
    model: Llama, tokens: Sequence[int], int4: Mapping[str, Rows] | None, console: Console
) -> np.ndarray:
    """Return the logits of the file behind each token, float32 [tokens, vocabulary]."""
    session = open_session(step_file(model, len(tokens), int4=int4), "ENABLE_ALL")
    names, found = [each.name for each in session.get_outputs()], []
    after = state_names(model.sizes.layers)
    shapes = {each.name: each.shape for each in session.get_inputs()}
    states = {name: np.zeros(shapes[name], np.float32) for name in after.values()}
    with console.status("") as status:
        for position, token in enumerate(tokens):
            status.update(f"token {position + 1} of {len(tokens)}")
            given = {"token": np.array([token]), "position": np.array([position]), **states}
            results = dict(zip(names, session.run(None, given), strict=True))
            states = {before: np.asarray(results[name]) for name, before in after.items()}
            found.append(np.asarray(results["logits"])[0])
    return np.stack(found)


def main() -> int:
    """Measure a model and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path(SMOLLM2.name), help="(smollm2)")
    parser.add_argument("text", type=Path, nargs="?", default=_TEXT, help="(scripts/prose.txt)")
    options = parser.parse_args()
    path, console = SMOLLM2.find(options.model), Console(width=80)
    model, tokenizer = read_llama(path), read_tokenizer(path)
    tokens = tokenizer.encode(options.text.read_text(encoding="utf-8"))
    if not 2 <= len(tokens) <= model.sizes.positions:
        raise ValueError(
            f"{options.text} has {len(tokens)} tokens: {path} takes 2 to {model.sizes.positions}"
        )
    floats = run_llama(model, [tokens]) @ model.weights["head"].T
    table = Table(box=box.SIMPLE)
    for name in (f"{len(tokens)} tokens", "perplexity", "most likely token agrees"):
        table.add_column(name, justify="right" if table.columns else "left")
    table.add_row("floats", f"{perplexity(floats, tokens):.2f}", "")
    with console.status("int4"):
        texts = kept_int4_weights(model, tokenizer.calibration(), cache=True)
        alone = int4_weights(model, ())
    weights = {"int8": None, "int4, GPTQ": texts, "int4, nearest": alone}
    for name, rounded in weights.items():
        logits = step_logits(model, tokens, rounded, console)
        agree = (logits.argmax(axis=1) == floats.argmax(axis=1)).mean()
        table.add_row(name, f"{perplexity(logits, tokens):.2f}", f"{agree:.1%}")
    console.print(table)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ValueError, OSError) as error:
        sys.exit(f"perplexity.py: {error}")
