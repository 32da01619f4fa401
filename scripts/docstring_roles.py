"""Docstrings on the site: roles of reStructuredText become code, its literal blocks Markdown's."""

import re

import griffe

_ROLE = re.compile(r":\w+:`~?([\w.]+)`|``(.+?)``")


class DocstringRoles(griffe.Extension):
    """Rewrite each docstring before it is rendered."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Rewrite the docstring of an object, if it has one."""
        if obj.docstring is not None:
            text = _ROLE.sub(lambda found: f"`{found[1] or found[2]}`", obj.docstring.value)
            obj.docstring.value = text.replace("::\n\n", ":\n\n")
