"""Why operators are refused: the messages that the code can raise, found in its source.

Functions are read as source; what they call is followed by name, in modules of one package.
Branches that compare the operator with another are left out.
"""

import ast
import builtins
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import cache, partial
from types import FunctionType, SimpleNamespace
from typing import Any, TypeGuard

__all__ = ["Reader", "matches"]

_HOLE = "…"
"""What stands for a part of a message that is known only when it is raised."""


_EXACTNESS = "EXACT"
"""What stands for the exactness that was asked for."""


_NAMES = ("op", "node.op", "pair.op")
"""How functions call the operator."""


class Reader:
    """Reads the messages that functions of a package can give.

    Parameters
    ----------
    package : str
        Functions and classes of other packages are not followed.
    error : str
        Name of the exception whose messages, and those of exceptions derived from it, count.
    methods : mapping of str to type
        Classes of objects, by the name under which functions know them.
    """

    def __init__(
        self,
        package: str,
        error: str,
        methods: Mapping[str, type] | None = None,
    ) -> None:
        self.package, self.error = package, error
        self.methods = methods or {}

    def messages(self, function: Callable[..., Any], op: str) -> tuple[str, ...]:
        """Return the messages that a function can give for an operator, each once."""
        found: dict[str, None] = {}
        todo: list[Any] = [function]
        seen = set()
        while todo:
            value = todo.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            for text, reached in self._read(value, op):
                if text:
                    found[text] = None
                todo += reached
        return tuple(found)

    def _read(self, value: Any, op: str) -> Iterator[tuple[str, list[Any]]]:
        """Yield messages of one value, and what it leads to."""
        value = getattr(value, "__wrapped__", value)  # of functions whose results are kept
        if isinstance(value, partial):
            yield "", [value.func, *value.args]
        elif isinstance(value, FunctionType):
            if value.__module__.startswith(self.package) and value.__name__ != "<lambda>":
                yield from self._read_function(value, op)
        elif isinstance(value, type):
            if value.__module__.startswith(self.package) and not is_dataclass(value):
                yield "", [item for item in vars(value).values() if isinstance(item, FunctionType)]
        elif is_dataclass(value) and type(value).__module__.startswith(self.package):
            yield "", list(vars(value).values())
        elif isinstance(value, Mapping) and op in value:
            yield "", [value[op]]

    def _read_function(self, function: Any, op: str) -> Iterator[tuple[str, list[Any]]]:
        tree = _tree(function)
        closure = inspect.getclosurevars(function).nonlocals
        names = {**vars(builtins), **function.__globals__, **closure}
        known = {**names, "op": op, **dict.fromkeys(("node", "pair"), SimpleNamespace(op=op))}
        for statement in _possible(tree.body, known):
            nodes = list(ast.walk(statement))
            others = {id(node.func) for node in nodes if _is_of_another(node, op, names)}
            for node in nodes:
                if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                    if self._counts(names.get(ast.unparse(node.exc.func))):
                        yield _text(node.exc.args[0], known), []
                elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "reason":
                    yield from ((_text(each, known), []) for each in _branches(node.value))
                elif isinstance(node, ast.Name) and node.id in names and id(node) not in others:
                    yield "", [names[node.id]]
                elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    yield "", self._method(node)

    def _counts(self, raised: Any) -> bool:
        """Tell whether messages of a class of exceptions count."""
        return isinstance(raised, type) and self.error in (each.__name__ for each in raised.__mro__)

    def _method(self, node: ast.Attribute) -> list[Any]:
        assert isinstance(node.value, ast.Name)
        of = self.methods.get(node.value.id)
        return [getattr(of, node.attr)] if of and hasattr(of, node.attr) else []


@cache
def _tree(function: FunctionType) -> ast.FunctionDef:
    """Return the source of a function."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(tree, ast.FunctionDef)
    return tree


def matches(reason: str, message: str) -> bool:
    """Tell whether a reason is a message whose unknown parts are known.

    >>> matches("it has 2 outputs", "it has … outputs")
    True
    """
    parts = (re.escape(part) for part in re.split(f"{_HOLE}|{_EXACTNESS}", message))
    return re.fullmatch(".*".join(parts), reason, re.DOTALL) is not None


def _possible(body: list[ast.stmt], known: dict[str, Any]) -> Iterator[ast.stmt]:
    """Yield the statements that an operator can reach; of conditions that are open, everything."""
    for statement in body:
        if isinstance(statement, ast.If):
            truth = _truth(statement.test, known)
            if truth is None:
                yield statement
                continue
            chosen = statement.body if truth else statement.orelse
            yield from _possible(chosen, known)
            if chosen and isinstance(chosen[-1], ast.Return | ast.Raise):
                return
        else:
            yield statement


def _truth(test: ast.expr, known: dict[str, Any]) -> bool | None:
    """Return what a condition is that only the operator decides; None if it is open."""
    if isinstance(test, ast.BoolOp):
        truths = [_truth(value, known) for value in test.values]
        decisive = isinstance(test.op, ast.Or)
        if decisive in truths:
            return decisive
        return None if None in truths else not decisive
    if not isinstance(test, ast.Compare) or ast.unparse(test.left) not in _NAMES:
        return None
    try:
        return bool(eval(compile(ast.Expression(test), "condition", "eval"), known))
    except (NameError, AttributeError, TypeError):
        return None


def _is_of_another(node: ast.AST, op: str, names: Mapping[str, Any]) -> TypeGuard[ast.Call]:
    """Tell whether a call names another operator: what that has to say is its own."""
    if (
        not isinstance(node, ast.Call)
        or not node.args
        or not isinstance(node.args[0], ast.Constant)
    ):
        return False
    function = names.get(ast.unparse(node.func))
    known = isinstance(function, FunctionType)
    parameters = inspect.signature(function).parameters if known else ()
    return next(iter(parameters), "") == "op" and node.args[0].value != op


def _branches(value: ast.expr) -> list[ast.expr]:
    if isinstance(value, ast.IfExp):
        return [*_branches(value.body), *_branches(value.orelse)]
    return [value]


def _text(value: ast.expr, known: dict[str, Any]) -> str:
    """Return a message with a hole for each part that is open; nothing if all of it is."""
    if isinstance(value, ast.JoinedStr):
        return "".join(_text(part, known) or _HOLE for part in value.values)
    if isinstance(value, ast.FormattedValue):
        return _text(value.value, known)
    if isinstance(value, ast.Constant):
        return str(value.value) if isinstance(value.value, str) else ""
    name = ast.unparse(value)
    if name in _NAMES:
        return str(known["node"].op)
    if name.endswith("exactness"):
        return _EXACTNESS
    constant = known.get(name)
    return str(constant) if isinstance(constant, str | int) and name.isupper() else ""
