"""Commands and options whose help begins with what a user needs first.

An option says in which group it belongs, a command which options come first. ``--help`` shows
these, ``--help-all`` the others, too, by group. A command of few options names none first, and
``--help`` shows all.
"""

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any, TypeVar

import click

from tpulite.near import did_you_mean

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class Topic(StrEnum):
    """Groups of options, in the order of ``--help-all``, by their titles."""

    INPUT = "Input"
    NETWORK = "Network"
    NUMERICS = "Numerics"
    MACHINE = "Machine"
    COMPILER = "Compiler"
    SEARCH = "Search"
    LAYOUT = "Weight layout"
    WORK = "Workers and results"
    OUTPUT = "Output"


_TERM = 28
"""Most columns of an option's name before its text begins on the next line."""

_SHORT = 24
"""Most characters of the choices of an option beside its name; longer ones are in its text."""


def wrap(text: str, width: int, indent: str = "", hanging: str = "") -> str:
    """Break a text into lines at its spaces; a word that is longer than a line stays whole.

    Lines are indented, all but the first one also by what is hanging.
    """
    return textwrap.fill(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


class _Formatter(click.HelpFormatter):
    """Help whose lines end at spaces: neither words nor ``--options`` are broken."""

    def write_text(self, text: str) -> None:
        indent = " " * self.current_indent
        paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
        self.write("\n\n".join(wrap(part, self.width, indent) for part in paragraphs) + "\n")

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        self.write(
            wrap(f"{'Usage: ' if prefix is None else prefix}{prog} {args}", self.width) + "\n"
        )

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = _TERM, col_spacing: int = 2
    ) -> None:
        rows = list(rows)
        first = max((len(term) for term, _ in rows if len(term) <= col_max), default=0)
        column = self.current_indent + first + col_spacing
        for term, text in rows:
            wrapped = wrap(text, max(self.width - column, 10)).splitlines() or [""]
            if len(term) > first:
                wrapped.insert(0, "")
            for number, line in enumerate(wrapped):
                head = " " * self.current_indent + term if number == 0 else ""
                self.write(f"{head:{column}}{line}".rstrip() + "\n")


class _Context(click.Context):
    formatter_class = _Formatter


class Choice(click.Choice):
    """One of several words; of a wrong one the error says what it was perhaps meant to be."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the word; BadParameter if it is another one."""
        if value not in self.choices:
            hint = did_you_mean(str(value), self.choices)
            self.fail(f"{value} is not one of {', '.join(self.choices)}{hint}", param, ctx)
        return value


class Parsed(click.ParamType):
    """A value of a kind that click has not.

    Parameters
    ----------
    name : str
        Its form, in lower case.
    parse : callable
        Returns the value of a text; ValueError says what is wrong.
    """

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name, self._parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value; BadParameter if the text has another form."""
        try:
            return self._parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Option(click.Option):
    """An option that belongs to a group of ``--help-all``.

    Parameters
    ----------
    group : Topic, optional
        Where it is listed; None in commands of which ``--help`` shows every option.
    **named
        As of :class:`click.Option`, but a default is shown.
    """

    def __init__(self, *args: Any, group: Topic | None = None, **named: Any) -> None:
        super().__init__(*args, **{"show_default": named.get("default") is not None} | named)
        self.group = group

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option with what it takes, and its text; None if it is hidden."""
        if self.hidden:
            return None
        long = isinstance(self.type, click.Choice) and len(self._value()) > _SHORT
        notes = [f"one of {', '.join(self.type.choices)}"] if long else []  # type: ignore[attr-defined]
        if self.show_default:
            notes.append(f"default: {self.default}")
        if self.required:
            notes.append("required")
        names = ", ".join(self.opts)
        term = names if self.is_flag else f"{names} {'NAME' if long else self._value()}"
        return term, "  ".join([self.help or "", *(f"[{note}]" for note in notes)])

    def _value(self) -> str:
        """Return what stands for the value of the option."""
        if self.metavar is not None:
            return self.metavar
        if isinstance(self.type, click.Choice):
            return "|".join(map(str, self.type.choices))
        kinds = ((click.types.IntParamType, "N"), (click.types.FloatParamType, "NUMBER"))
        found = (text for kind, text in kinds if isinstance(self.type, kind))
        return next(found, self.type.name.upper())


class _Hints:
    """A command that says of an unknown option what it was perhaps meant to be."""

    context_class = _Context

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)  # type: ignore[misc]
        except click.NoSuchOption as error:
            params = ctx.command.get_params(ctx)
            known = [o for x in params if not getattr(x, "hidden", False) for o in x.opts]
            hint = did_you_mean(error.option_name, known)
            raise click.UsageError(f"{error.option_name}: no such option{hint}", ctx) from error


class Command(_Hints, click.Command):
    """A command of which ``--help`` shows the options that come first.

    Parameters
    ----------
    first : sequence of str
        These options, as they are typed; none if ``--help`` shows all.
    """

    def __init__(self, *args: Any, first: Sequence[str] = (), **named: Any) -> None:
        super().__init__(*args, **named)
        self.first = tuple(first)
        if self.first:
            self.params.append(_help_all())

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options that come first, or all if there are no such."""
        options = [x for x in self.get_params(ctx) if isinstance(x, click.Option)]
        if self.first:
            helps = [x for x in options if x.name == _ALL or not isinstance(x, Option)]
            options = [x for name in self.first for x in options if name in x.opts] + helps
        _write(ctx, formatter, "Options", options)

    def groups(self) -> Iterator[tuple[Topic, list[Option]]]:
        """Yield the groups of the options that do not come first."""
        options = [x for x in self.params if isinstance(x, Option) and not x.hidden]
        rest = [x for x in options if not set(x.opts) & set(self.first)]
        for group in Topic:
            if found := [x for x in rest if x.group == group]:
                yield group, found


class Group(_Hints, click.Group):
    """Commands by name; of an unknown one the error says which was perhaps meant."""

    command_class = Command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is named; UsageError if there is none."""
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            hint = did_you_mean(args[0], self.list_commands(ctx))
            raise click.UsageError(f"{args[0]}: no such command{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their order, each with the first sentence of its help."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(x, each.get_short_help_str(200)) for x, each in found if each])


def command(
    name: str | None = None, *, first: Sequence[str] = ()
) -> Callable[[Callable[..., Any]], Command]:
    """Make a command; see :class:`Command`."""
    return click.command(name, cls=Command, first=first)


def option(*words: str, **named: Any) -> Callable[[Decorated], Decorated]:
    """Add an option; see :class:`Option`."""
    return click.option(*words, cls=Option, **named)


_ALL = "help_all"


def _help_all() -> Option:
    """Return the option that shows the help of all options."""

    def show(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
        if not asked or ctx.resilient_parsing:
            return
        assert isinstance(ctx.command, Command)
        formatter = ctx.make_formatter()
        ctx.command.format_help(ctx, formatter)
        for group, options in ctx.command.groups():
            _write(ctx, formatter, group, options)
        click.echo(formatter.getvalue().rstrip("\n"))
        ctx.exit()

    return Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Show all options, by group, and exit.",
    )


def _write(
    ctx: click.Context, formatter: click.HelpFormatter, title: str, options: Sequence[click.Option]
) -> None:
    records = [record for each in options if (record := each.get_help_record(ctx)) is not None]
    with formatter.section(title):
        formatter.write_dl(records)
