"""Train the small language model of stories and write it, quantized, as a TFLite file.

It learns stories that tpulite_testing.stories draws, with numpy alone. With OMP_NUM_THREADS=1 sums
round the same every time.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from story.calibrate import calibrate
from story.network import Network, Sizes
from story.step_file import step_file
from tpulite.models import MODELS
from tpulite_testing.oracles.litert_story import litert_logits
from tpulite_testing.stories import encode, held_out, perplexity, story, vocabulary

BATCH = 32
STEPS = 1600
WARM = 100
"""Steps in which the rate rises."""
RATE = 4e-3
DECAY = 0.02
CALIBRATION = 64
"""Stories whose ranges integers have."""
MOST_GRADIENT = 1.0


class Adam:
    """Steps with decay of the weights (Loshchilov and Hutter, 2019) and a clipped gradient."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        self._moments = {name: np.zeros((2, *w.shape), np.float32) for name, w in weights.items()}
        self._step = 0

    def step(self, weights: dict[str, np.ndarray], gradients: dict, rate: float) -> None:
        """Change weights in place."""
        self._step += 1
        norm = np.sqrt(sum(float(np.square(g).sum()) for g in gradients.values()))
        clip = min(1.0, MOST_GRADIENT / norm)
        for name, weight in weights.items():
            moment, gradient = self._moments[name], (gradients[name] * clip).astype(np.float32)
            moment[0] += 0.1 * (gradient - moment[0])
            moment[1] += 0.01 * (gradient**2 - moment[1])
            mean, square = moment[0] / (1 - 0.9**self._step), moment[1] / (1 - 0.99**self._step)
            decay = DECAY if weight.ndim == 2 and "distance" not in name else 0.0
            weight -= (rate * (mean / (np.sqrt(square) + 1e-8) + decay * weight)).astype(np.float32)


def batches(rng: np.random.Generator, words: list[str], size: int) -> np.ndarray:
    """Return stories as tokens [size, longest], -1 behind their ends."""
    stories = [encode(story(rng), words) for _ in range(size)]
    made = np.full((size, max(map(len, stories))), -1)
    for row, tokens in zip(made, stories, strict=True):
        row[: len(tokens)] = tokens
    return made


def loss(logits: np.ndarray, targets: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the mean cross entropy in nats, and its gradient; targets of -1 do not count."""
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    counted = targets >= 0
    rows = np.nonzero(counted)
    found = shares[(*rows, targets[rows])]
    shares[(*rows, targets[rows])] -= 1
    return float(-np.log(found).mean()), shares * counted[..., None] / counted.sum()


def train(network: Network, words: list[str], steps: int, rng: np.random.Generator) -> None:
    """Minimize the cross entropy of the next word."""
    adam, begin = Adam(network.weights), time.time()
    for step in range(steps):
        tokens = batches(rng, words, BATCH)
        y = network.forward(np.maximum(tokens[:, :-1], 0))
        value, gradient = loss(y["logits"], tokens[:, 1:])
        rate = RATE * min(1, (step + 1) / WARM) * (1 + np.cos(np.pi * step / steps)) / 2
        adam.step(network.weights, network.backward(y, gradient), rate)
        if step % 50 == 0:
            print(f"step {step}: {value:.4f} nats a word, {time.time() - begin:.0f} s", flush=True)


def score(network: Network, data: bytes, stories: list[list[int]]) -> None:
    """Print how well floats and LiteRT's integers know the next word of each story."""
    reals = [network.forward(np.array(tokens[:-1])[None])["logits"][0] for tokens in stories]
    floats = np.concatenate(reals)
    integers = np.concatenate([litert_logits(data, tokens[:-1]) for tokens in stories])
    targets = np.concatenate([tokens[1:] for tokens in stories])
    same = (floats.argmax(1) == integers.argmax(1)).mean()
    print(f"{len(targets):,} words of {len(stories)} stories that are put aside: perplexity")
    print(
        f"{perplexity(floats, targets):.3f} float, {perplexity(integers, targets):.3f} int8; ",
        end="",
    )
    print(f"the most likely word is the same in {same:.1%}")


def main() -> None:
    """Train, quantize, score, write."""
    parser = argparse.ArgumentParser(description="Train the small language model of stories.")
    parser.add_argument("--seed", type=int, default=2026, help="seed of weights and stories")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"batches of {BATCH} stories")
    parser.add_argument("--output", type=Path, default=MODELS, help="folder to write to")
    options = parser.parse_args()
    rng, words = np.random.default_rng(options.seed), vocabulary()
    network = Network(Sizes(len(words)), rng)
    train(network, words, options.steps, rng)
    drawn = [encode(story(rng), words) for _ in range(CALIBRATION)]
    data = step_file(network.sizes, network.weights, calibrate(network, drawn))
    (options.output / "story.tflite").write_bytes(data)
    (options.output / "story.txt").write_text("".join(f"{word}\n" for word in words))
    print(f"story.tflite: {len(data):,} bytes")
    score(network, data, held_out(words))


if __name__ == "__main__":
    main()
