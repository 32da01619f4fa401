"""Refuse phrases that readers stumble over, by the list in phrases.toml.

Prints ``file:line: 'phrase': write ...`` for each, and fails if there is one.
"""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_suffix(".toml")

# The part of the list that holds in a file, by its path; other files are not read.
SCOPES = {
    "docs": re.compile(r"(README|CONTRIBUTING|docs/.+)\.md$|.+\.ipynb$"),
    "printed": re.compile(r"(sw/tpulite|sw/tpulite_litex|scripts|rtl/tpulite_verilated)/.+\.py$"),
    "firmware": re.compile(r"sw/tpulite(_litex)?/firmware/.+\.(c|h|in|md)$"),
}
EVERYWHERE = tuple(SCOPES)
C_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)

# Text and the line of its file where it begins.
Passage = tuple[str, int]


@dataclass(frozen=True)
class Phrase:
    """An entry of the list."""

    refused: re.Pattern[str]
    write: str
    where: tuple[str, ...]
    example: str


def read_list() -> tuple[list[Phrase], set[str]]:
    """Read all phrases, and the files that are still to be rewritten."""
    data = tomllib.loads(LIST.read_text())
    phrases = [
        Phrase(
            re.compile(entry["refused"].replace(" ", r"\s+"), re.IGNORECASE),
            entry["write"],
            tuple(entry.get("where", EVERYWHERE)),
            entry["example"],
        )
        for entry in data["phrase"]
    ]
    return phrases, set(data["unfinished"])


def prose(text: str) -> str:
    """Blank out code and addresses of links in Markdown; lines stay where they are."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group())

    text = re.sub(r"^```.*?^```", blank, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->", blank, text, flags=re.DOTALL)
    text = re.sub(r"(?<=\n\n) {4}.*(\n( {4}.*)?(?=\n))*", blank, text)
    return re.sub(r"`[^`]+`|\]\([^)\s]*\)", blank, text)


def literals(text: str) -> Iterator[Passage]:
    """Find strings of more than one word in a Python file, and docstrings of its commands."""
    unread: set[int] = set()  # docstrings, and the constants inside f-strings, which are read whole
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and _is_command(node):
            yield ast.get_docstring(node, clean=False) or "", node.body[0].lineno
        elif isinstance(node, ast.Expr):
            unread.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            unread |= {id(value) for value in node.values}
            words = [v.value if isinstance(v, ast.Constant) else "{}" for v in node.values]
            yield "".join(map(str, words)), node.lineno
        elif isinstance(node, ast.Constant) and id(node) not in unread and " " in str(node.value):
            yield str(node.value), node.lineno


def _is_command(function: ast.FunctionDef) -> bool:
    """Whether click shows the docstring of this function as help."""
    calls = [d.func for d in function.decorator_list if isinstance(d, ast.Call)]
    return any(isinstance(c, ast.Attribute) and c.attr in ("command", "group") for c in calls)


def passages(path: str, text: str) -> Iterator[Passage]:
    """Find the texts of a file that people read."""
    if path.endswith(".py"):
        yield from literals(text)
    elif path.endswith(".ipynb"):
        cells = json.loads(text)["cells"]
        yield from ((prose("".join(c["source"])), 1) for c in cells if c["cell_type"] == "markdown")
    elif path.endswith(".md"):
        yield prose(text), 1
    else:
        for match in C_TEXT.finditer(text):
            yield match.group(), text.count("\n", 0, match.start()) + 1


def findings(path: str, text: str, phrases: list[Phrase]) -> list[tuple[int, str, str]]:
    """List line, phrase and replacement of all that is refused in a file."""
    found = []
    for scope in (name for name, pattern in SCOPES.items() if pattern.match(path)):
        for passage, start in passages(path, text):
            for phrase in (p for p in phrases if scope in p.where):
                for match in phrase.refused.finditer(passage):
                    line = start + passage.count("\n", 0, match.start())
                    found.append((line, " ".join(match.group().split()), phrase.write))
    return sorted(set(found))


def main() -> int:
    """Check all files that Git knows; 1 if one has a refused phrase."""
    phrases, unfinished = read_list()
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    wrong = 0
    for path in filter(None, listed.stdout.split("\0")):
        if not any(p.match(path) for p in SCOPES.values()) or not (ROOT / path).is_file():
            continue
        found = findings(path, (ROOT / path).read_text(), phrases)
        if path in unfinished:
            if not found:
                print(f"{path}: is finished: remove it from {LIST.relative_to(ROOT)}")
                wrong += 1
            continue
        for line, phrase, write in found:
            print(f"{path}:{line}: {phrase!r}: write: {write}")
        wrong += len(found)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
