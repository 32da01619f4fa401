"""The chip as modules in Yosys's RTLIL; equal ones have one name, whatever they were called."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from amaranth.back import rtlil
from amaranth.lib import wiring

from tpulite.arch.build import Build
from tpulite.arch.config import Config
from tpulite.collector import collector_paused
from tpulite_rtl.top import Chip

__all__ = ["Design", "Module", "chip_design", "elaborated", "joint_name", "plain_name"]

_MODULE = re.compile(r"^module \\(\S+)\n(.*?)^end\n", re.MULTILINE | re.DOTALL)
_CHILD = re.compile(r"^  cell \\(\S+) \\(\S+)\n((?:    .*\n)*)", re.MULTILINE)
_CONNECTION = re.compile(r"^    connect (\S+) (.*)$", re.MULTILINE)
_NUMBERED = re.compile(r"((?:\\[^\s$\\]+)?)(?:\$\d+)+(?![^\s\"])")
_PORT = re.compile(r"^  wire width (\d+) (input|output) \d+ +(?:signed )?\\(\S+)\n", re.MULTILINE)

_INLINE = ("memory", "queue")
"""Submodules of these names are the memories of FIFOs, and part of the block that they serve."""


@dataclass(frozen=True)
class Module:
    """A module whose name says its contents."""

    name: str  #: Digest of the text, which says the digests of the modules below, too.
    text: str  #: RTLIL of the body.
    children: dict[str, str]  #: Name of the module of each instance that is a block of its own.
    inlined: tuple["Module", ...]  #: Modules of the other instances.

    @cached_property
    def rtlil(self) -> str:
        """RTLIL of the module and of the inlined ones."""
        return f"module \\{self.name}\n{self.text}end\n" + "".join(m.rtlil for m in self.inlined)

    @cached_property
    def ports(self) -> list[tuple[str, str, int]]:
        """Name, direction (``input`` or ``output``) and width of each port."""
        return [(name, way, int(width)) for width, way, name in _PORT.findall(self.text)]

    @cached_property
    def stub(self) -> str:
        """RTLIL of the ports alone: a black box for those who instantiate the module."""
        ports = "".join(match[0] for match in _PORT.finditer(self.text))
        return f"attribute \\blackbox 1\nmodule \\{self.name}\n{ports}end\n"


@dataclass(frozen=True)
class Design:
    """Modules by name, and the one that is the whole."""

    modules: dict[str, Module]
    top: str

    @classmethod
    def parse(cls, text: str, top: str) -> "Design":
        """Return the design of what Amaranth has written; ``top`` is the name in the text."""
        bodies = dict(_MODULE.findall(text))
        parsed: dict[str, tuple[Module, dict[str, str]]] = {}

        def add(original: str) -> tuple[Module, dict[str, str]]:
            if original in parsed:
                return parsed[original]
            names: dict[str, str] = {}  # of this module: new by old
            children, inlined, text = {}, [], []

            def renamed(text: str) -> str:
                return _NUMBERED.sub(lambda match: _numbered(match, names), text)

            end = 0
            for match in _CHILD.finditer(bodies[original]):
                if match[1] not in bodies:  # a cell of the target
                    continue
                child, ports = add(match[1])
                if match[2] in _INLINE:
                    inlined.append(child)
                else:
                    children[match[2]] = child.name
                text.append(renamed(bodies[original][end : match.start()]))
                text.append(f"  cell \\{child.name} \\{match[2]}\n")
                for port, net in _CONNECTION.findall(match[3]):
                    text.append(f"    connect {ports.get(port, port)} {renamed(net)}\n")
                end = match.end()
            text.append(renamed(bodies[original][end:]))
            body = "".join(text)
            digest = "m" + hashlib.sha256(body.encode()).hexdigest()[:16]
            parsed[original] = Module(digest, body, children, tuple(inlined)), names
            return parsed[original]

        whole, _ = add(top)
        return cls({module.name: module for module, _ in parsed.values()}, whole.name)

    def blocks(self) -> Iterator[Module]:
        """Yield each module that is a block, once."""
        seen = {self.top}
        waiting = [self.top]
        while waiting:
            module = self.modules[waiting.pop()]
            yield module
            new = set(module.children.values()) - seen
            seen |= new
            waiting += sorted(new)

    def instances(self) -> Iterator[tuple[str, Module]]:
        """Yield each instance of a block with its name from the top, which itself has none."""
        waiting = [("", self.modules[self.top])]
        while waiting:
            path, module = waiting.pop()
            yield path, module
            waiting += [
                (f"{path}.{name}".lstrip("."), self.modules[child])
                for name, child in module.children.items()
            ]

    def flat(self) -> "Design":
        """Return the same design as a single block."""
        top = self.modules[self.top]
        others = tuple(replace(m, inlined=()) for m in self.modules.values() if m is not top)
        whole = Module(top.name, top.text, {}, others)
        return replace(self, modules={whole.name: whole}, top=whole.name)

    def stubs(self, module: Module) -> str:
        """Return the black boxes that a block instantiates."""
        return "".join(self.modules[name].stub for name in sorted(set(module.children.values())))


def joint_name(instance: str) -> str:
    """Return the name that an instance has together with those like it.

    Examples
    --------
    >>> joint_name("mxu.array.pe_3_12")
    'mxu.array.pe_*'
    >>> joint_name("processor.counters$59")
    'processor.counters'
    """
    return re.sub(r"(?:_\d+)+(?=\.|$)", "_*", plain_name(instance)) or "chip"


def plain_name(instance: str) -> str:
    """Return an instance's name without what Amaranth appends to tell it from a signal."""
    return re.sub(r"\$\d+", "", instance)


def _numbered(match: re.Match[str], names: dict[str, str]) -> str:
    """Return a name with its place among those that occur: equal modules have equal names."""
    return names.setdefault(match[0], f"{match[1]}${len(names)}")


def chip_design(config: Config, build: Build) -> Design:
    """Return the design of the chip as synthesis gets it, which chooses SRAM macros by itself."""
    if build.memories == "macro" or build.target == "gates":
        build = replace(build, memories="generic")
    return elaborated(Chip(config), build)


@collector_paused()
def elaborated(
    component: wiring.Component, build: Build | None = None, ports: list | None = None
) -> Design:
    """Return the design of a component, as it is elaborated for a build.

    Its ports are those of its signature, or those given, as Amaranth's back ends take them.
    """
    name = "tpulite"
    text = rtlil.convert(component, name=name, platform=build, ports=ports, emit_src=False)
    return Design.parse(_without_promise(text), name)


def _without_promise(text: str) -> str:
    """Say in RTLIL what Amaranth cannot: a row that is read while it is written is unknown."""
    return _MODULE.sub(
        lambda match: (
            match[0].replace("COLLISION_X_MASK 1'0", "COLLISION_X_MASK 1'1")
            if 'attribute \\no_rw_check "1"' in match[0]
            else match[0]
        ),
        text,
    )
