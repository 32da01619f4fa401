"""Weights of 4 bits beside those of 8: cycles on 16x16, and what they lose.

``python scripts/int4.py ad`` rounds the weights of the zoo's autoencoder, ``story`` those of the
storyteller, ``llama`` those of a language model of TinyStories-15M's extents with random weights.
Programs of the first two are compared with LiteRT, bit for bit.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tpulite.arch.config import Config
from tpulite.frontend.tflite.file import load_tflite
from tpulite.golden.timing import predict_cycles
from tpulite.language.model import load_language_model
from tpulite.models import STORY
from tpulite.quant.exactness import Exactness
from tpulite.quant.int4_tflite import int4_tflite
from tpulite.runtime.host.libraries import open_library
from tpulite.runtime.inputs import random_inputs
from tpulite.runtime.model import Model
from tpulite.runtime.model_compare import Comparing, compare_model
from tpulite.runtime.oracles import open_oracle
from tpulite.zoo import fetch
from tpulite_testing.files.llama_files import LlamaFile
from tpulite_testing.oracles.litert_story import litert_logits
from tpulite_testing.stories import encode, held_out, perplexity, story, vocabulary

CALIBRATION, JUDGED = 256, 128
"""Spectrograms that decide how weights are rounded, and others that judge."""

STORIES = 32
"""Stories that decide."""

TINY_STORIES = LlamaFile(
    layers=6, width=288, hidden=768, heads=6, key_heads=6, vocabulary=32000, positions=256
)
"""Extents of TinyStories-15M."""


def report(name: str, data: bytes, config: Config) -> None:
    """Print the cycles of a file, and that its program gives LiteRT's bits."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "network.tflite")
        path.write_bytes(data)
        model = Model.load(path, config=config).compile()
        inputs = [random_inputs(model.graph, 1, seed) for seed in range(2)]
        compared = compare_model(
            model, open_oracle("litert-ref", path, model.graph), inputs, Comparing()
        )
    cycles = sum(predict_cycles(each.commands, config) for each in model.programs)
    same = "LiteRT's bits" if compared.same else "NOT LiteRT's bits"
    print(f"{name}: {cycles:,} cycles, file of {len(data):,} bytes, {same}", flush=True)
    if not compared.same:
        raise SystemExit(1)


def spectrograms(rng: np.random.Generator, count: int) -> np.ndarray:
    """Draw inputs of the autoencoder, of several means and spreads."""
    kinds = ((0, 1), (-30, 10), (0, 30), (-10, 15))
    drawn = [rng.normal(mean, spread, (count // 4, 1, 5, 128, 1)) for mean, spread in kinds]
    return np.concatenate(drawn).astype(np.float32)


def autoencoder() -> None:
    """Print what the autoencoder takes and loses."""
    data, rng = fetch("ad").read_bytes(), np.random.default_rng(0)
    (name,) = load_tflite(data).inputs
    samples, judged = (spectrograms(rng, count) for count in (CALIBRATION, JUDGED))

    def outputs(file: bytes) -> np.ndarray:
        run = open_library(file, "tflite", Exactness.LITERT_REF)
        return np.array([np.ravel(run([x])[0]) for x in judged], np.float64)

    report("int8", data, Config())
    before = outputs(data)
    for scales in ("channel", "tensor"):
        file = int4_tflite(data, ({name: x} for x in samples), per_channel=scales == "channel")
        report(f"int4, a scale for each {scales}", file, Config(int4=True))
        after = outputs(file)
        norms = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
        cosines = (before * after).sum(axis=1) / norms
        error = np.sqrt(((before - after) ** 2).mean()) / before.std()
        print(f"    cosine to int8 {cosines.min():.5f} at least, error {error:.2%} of the spread")


def storyteller() -> None:
    """Print what a word takes, and how well the next one is known."""
    data, words, rng = STORY.read_bytes(), vocabulary(), np.random.default_rng(1)
    stories = held_out(words)
    targets = np.concatenate([tokens[1:] for tokens in stories])

    def samples() -> Iterator[dict[str, np.ndarray]]:
        for _ in range(STORIES):
            for token in encode(story(rng), words):
                yield {"word": np.eye(1, len(words), token, dtype=np.int8)}

    narrow = int4_tflite(data, samples())
    for name, file, config in (("int8", data, Config()), ("int4", narrow, Config(int4=True))):
        report(name, file, config)
        logits = np.concatenate([litert_logits(file, tokens[:-1]) for tokens in stories])
        print(f"    perplexity {perplexity(logits, targets):.3f}", flush=True)


def llama() -> None:
    """Print what a token takes."""
    with tempfile.TemporaryDirectory() as folder:
        TINY_STORIES.save_safetensors(Path(folder))
        for int4 in (False, True):
            model = load_language_model(Path(folder), int4=int4, config=Config(int4=int4))
            name = "int4" if int4 else "int8"
            print(f"{name}: {model.cycles:,} cycles, {model.weight_bytes:,} bytes", flush=True)
            if (prompt := model.prefill) is not None:
                cycles = f"{prompt.kept_cycles:,} cycles, {prompt.cycles:,} with logits"
                print(f"    {prompt.tokens} tokens of a prompt: {cycles}", flush=True)


def main() -> None:
    """Print the figures of a network."""
    networks = {"ad": autoencoder, "story": storyteller, "llama": llama}
    parser = argparse.ArgumentParser(description="Compare weights of 4 bits with those of 8.")
    parser.add_argument("network", choices=networks)
    networks[parser.parse_args().network]()


if __name__ == "__main__":
    main()
