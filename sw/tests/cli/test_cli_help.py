"""Help begins with what a user needs first, has everything, and breaks no word."""

import io

import click
import pytest
from rich import box
from rich.console import Console
from rich.table import Table

from tpulite.cli.common import say, show
from tpulite.cli.help import Command, Topic
from tpulite.cli.main import COMMANDS, commands

pytest_plugins = ("tpulite_testing.command_line",)

MANY = 9
"""Options that are too many to be shown at once."""


def loaded(name):
    command = commands.get_command(click.Context(commands), name)
    assert isinstance(command, Command | click.Group)
    return command


def shown(command):
    return [x for x in command.params if isinstance(x, click.Option) and not x.hidden]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_few_options_and_all_of_them_on_demand(tpulite, name):
    command = loaded(name)
    options = [x for x in shown(command) if x.name != "help_all"]
    if not isinstance(command, Command) or not command.first:
        assert len(options) < MANY
        return
    assert len(command.first) == 6
    _, short, _ = tpulite(name, "--help")
    brief = short.split("Options:\n")[1]
    code, text, err = tpulite(name, "--help-all")
    assert (code, err) == (0, "") and text.startswith(short)
    listed = text.split("Options:\n")[1].splitlines()
    for option in options:
        begin = f"  {', '.join(option.opts)} "
        lines = [f"{line} " for line in listed]
        assert sum(line.startswith(begin) for line in lines) == 1, option
        assert (begin in brief) == bool({*option.opts} & {*command.first}), option


def test_groups_have_titles_in_their_order(tpulite):
    _, text, _ = tpulite("run", "--help-all")
    titles = [line[:-1] for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles == [
        "Options",
        *(x for x in Topic if x not in (Topic.LAYOUT, Topic.SEARCH, Topic.WORK)),
    ]


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("name", COMMANDS)
def test_lines_end_at_spaces_within_the_terminal(tpulite, monkeypatch, name, columns):
    monkeypatch.setenv("COLUMNS", "200")
    command = loaded(name)
    words = (name, "--help-all" if isinstance(command, Command) and command.first else "--help")
    _, wide, _ = tpulite(*words)
    monkeypatch.setenv("COLUMNS", str(columns))
    _, narrow, _ = tpulite(*words)
    assert narrow.split() == wide.split()
    for line in narrow.splitlines():
        assert len(line) <= columns or len(line.split()) == 1


def test_a_terminal_breaks_lines_at_spaces_and_a_file_has_them_whole():
    text = (
        "DRAM: 27,136 bytes read;\n  a-name-that-is-longer-than-the-whole-terminal and more words"
    )
    for terminal in (True, False):
        file = io.StringIO()
        say(Console(file=file, force_terminal=terminal, width=20), text)
        assert file.getvalue().split() == text.split()
        if not terminal:
            assert file.getvalue() == f"{text}\n"
            continue
        lines = file.getvalue().splitlines()
        assert all(len(line) <= 20 or len(line.split()) == 1 for line in lines)
        assert lines[-1] == "  and more words"


@pytest.mark.parametrize("width", [60, 80])
def test_a_table_is_tighter_in_a_narrow_terminal(width):
    file, cells = io.StringIO(), [f"1{i:02}.0%" for i in range(7)]
    table = Table(*cells, box=box.SIMPLE)
    table.add_row(*cells)
    for column in table.columns:
        column.no_wrap = True
    show(Console(file=file, width=width), table)
    rows = [line.split() for line in file.getvalue().splitlines() if "%" in line]
    assert rows == [cells, cells]


def test_unknown_words_are_answered_with_the_nearest(tpulite):
    for words, message in (
        (("rnu",), "rnu: no such command (did you mean run?)"),
        (("zoo", "lsit"), "lsit: no such command (did you mean list?)"),
        (("run", "--lables", "x"), "--lables: no such option (did you mean --labels?)"),
        (("--hlep",), "--hlep: no such option (did you mean --help?)"),
        (
            ("compile", "x", "--optimize", "latncy"),
            "--optimize: latncy is not one of latency, memory (did you mean latency?)",
        ),
        (("zoo", "fetch"), "NAMES is missing: see tpulite zoo fetch --help"),
    ):
        assert tpulite(*words) == (2, "", f"tpulite: {message}\n")
