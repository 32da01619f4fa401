"""What tpulite needs of a machine besides itself: packages by extra, and programs."""

import importlib.util
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

__all__ = ["BUILD_TOOLS", "Need", "machine_needs", "require_package"]

BUILD_TOOLS = {"make": "make", "g++": "g++", "perl": "perl"}
"""Programs that build the Verilated chip, with Debian's packages for them."""

_PURPOSES = {
    "": "compile, run, compare",
    "rtl": "the Verilated chip, Verilog",
    "onnx": "ONNX files, --calibrate",
    "litert": "TFLite operators of the host, --oracle",
    "quantize": "quantize of TFLite files",
    "trace": "--trace",
    "pictures": "pictures as inputs",
    "report": "--html",
    "explore": "explore --search",
    "cluster": "explore --scheduler",
    "cpsat": "--allocator cpsat",
}
"""What the extras are for; others are shown without."""


@dataclass(frozen=True)
class Need:
    """Something that a part of tpulite needs.

    Parameters
    ----------
    name : str
        ``tpulite[EXTRA]``, or a program.
    purpose : str
        What needs it.
    found : str
        What is there.
    missing : tuple of str
        What is not there, or not in a version that will do.
    remedy : str
        What to type.
    """

    name: str
    purpose: str
    found: str
    missing: tuple[str, ...]
    remedy: str


def require_package(package: str, extra: str, user: str) -> None:
    """Check that a package of an extra is installed, without importing it.

    Parameters
    ----------
    package, extra : str
        Its name when it is imported, and the extra that brings it.
    user : str
        What needs it, as the message begins.

    Raises
    ------
    ValueError
        If it is not there, with what to install.
    """
    if importlib.util.find_spec(package) is None:
        raise ValueError(f"{user} needs: pip install 'tpulite[{extra}]'")


def machine_needs() -> tuple[Need, ...]:
    """Look for everything that tpulite or one of its extras needs."""
    return (*_packages(), *_programs())


def _packages() -> Iterator[Need]:
    """Yield a need for tpulite itself, and for each of its extras."""
    from packaging.requirements import Requirement  # what only `doctor` needs

    wanted: dict[str, list[Requirement]] = {"": []}
    for line in requires("tpulite") or ():
        requirement = Requirement(line)
        extra = str(requirement.marker).partition("extra == ")[2].strip("\"'")
        wanted.setdefault(extra, []).append(requirement)
    for extra, requirements in wanted.items():
        found, missing = [], []
        for requirement in requirements:
            try:
                have = version(requirement.name)
            except PackageNotFoundError:
                missing.append(requirement.name)
                continue
            fits = requirement.specifier.contains(have, prereleases=True)
            text = f"{requirement.name} {have}"
            (found if fits else missing).append(
                text if fits else f"{text} (needs {requirement.specifier})"
            )
        name = f"tpulite[{extra}]" if extra else f"tpulite {version('tpulite')}"
        remedy = f"pip install '{name}'" if extra else "pip install tpulite"
        there = ", ".join([] if extra else [f"Python {platform.python_version()}"]) or ""
        listed = ", ".join(part for part in (there, *found) if part)
        yield Need(name, _PURPOSES.get(extra, ""), listed, tuple(missing), remedy)


def _programs() -> Iterator[Need]:
    """Yield a need for each program."""
    purposes = dict.fromkeys(BUILD_TOOLS, "the Verilated chip") | {"iverilog": "SIM=icarus"}
    packages = BUILD_TOOLS | {"iverilog": "iverilog"}
    for name, package in packages.items():
        path = shutil.which(name)
        how = "brew install" if sys.platform == "darwin" else "apt install"
        missing = () if path else (name,)
        yield Need(name, purposes[name], path or "", missing, f"{how} {package}")
