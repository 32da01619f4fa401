"""What tpulite needs of a machine besides itself: packages by extra, and programs."""

import importlib.util
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `packaging` takes a while to import, and only messages need it
    from packaging.requirements import Requirement

BUILD_TOOLS = {"make": "make", "g++": "g++", "perl": "perl"}
"""Programs that build the Verilated chip, with Debian's packages for them."""

PAGE_PACKAGES = ("fast_sugiyama",)
"""What places boxes on pages: the extra ``report``."""

_SYSTEM = "LiteX system"
_SYSTEM_TOOLS = {
    "riscv64-unknown-elf-gcc": "gcc-riscv64-unknown-elf",
    "event2/event.h": "libevent-dev",
    "json-c/json.h": "libjson-c-dev",
    "zlib.h": "zlib1g-dev",
}
"""Programs and C headers for LiteX's firmware and its simulator, with Debian's packages."""

_PURPOSES = {
    "": "compile, run, compare",
    "rtl": "--device rtl, verilog",
    "onnx": "ONNX files, --calibrate",
    "litert": "TFLite operators on the CPU, --oracle",
    "tflm": "compare --oracle tflm",
    "quantize": "quantize for TFLite files",
    "trace": "--trace",
    "pictures": "images as inputs",
    "language": "language models",
    "report": "--html",
    "explore": "explore --search",
    "cluster": "--scheduler",
    "litex": _SYSTEM,
    "boards": "make bitstream",
}
"""What the extras are for; others are shown without."""


_CHIP = ("rtl", *BUILD_TOOLS)

_USES = {
    "tpulite compile, run, profile, check, export": (),
    "tpulite run NETWORK.tflite, operators on the CPU": ("litert",),
    "tpulite run NETWORK.onnx": ("onnx",),
    "tpulite run NETWORK --input PICTURE.png": ("pictures",),
    "tpulite chat MODEL.gguf PROMPT": ("language", "onnx"),
    "tpulite search DIR QUESTION": ("language", "onnx"),
    "tpulite run NETWORK --device rtl": _CHIP,
    "tpulite run NETWORK --html PAGE.html": ("report",),
    "tpulite run NETWORK --trace TRACE": ("trace",),
    "tpulite compare NETWORK.tflite --oracle tflm": ("tflm",),
    "tpulite quantize NETWORK.onnx": ("onnx",),
    "tpulite quantize NETWORK.tflite": ("quantize", "litert"),
    "tpulite explore NETWORK --search N": ("explore",),
    "tpulite explore NETWORK --scheduler HOST": ("cluster",),
    "tpulite verilog": ("rtl",),
    "make sim SIM=icarus": ("rtl", "iverilog", "make"),
    "make soc": (*_CHIP, "litex", *_SYSTEM_TOOLS),
    "make bitstream": ("rtl", "litex", "boards", "make"),
}
"""What users do, in the order in which they come to it, and the extras and programs that it needs
besides tpulite itself."""


@dataclass(frozen=True)
class Need:
    """Something that a part of tpulite needs."""

    name: str  #: ``tpulite[EXTRA]``, or a program.
    purpose: str  #: What needs it.
    found: str  #: What is there.
    missing: tuple[str, ...]  #: What is not there, or not in a version that will do.
    remedy: str  #: What to type.

    @property
    def part(self) -> str:
        """The extra, or the program."""
        return self.name.removeprefix("tpulite[").rstrip("]").partition(" ")[0]


@dataclass(frozen=True)
class Use:
    """Something that users do."""

    command: str  #: How it is typed.
    missing: tuple[str, ...]  #: Packages and programs that it lacks; it works if there are none.
    remedies: tuple[str, ...]  #: Commands that install them.


def find_uses(needs: Iterable[Need]) -> tuple[Use, ...]:
    """Return what users do, and what each lacks of the needs of this machine."""
    parts = {need.part: need for need in needs}
    uses = []
    for command, wanted in _USES.items():
        if not parts.keys() >= {*wanted}:
            continue  # an older or a newer tpulite is installed, which has no such extra
        lacking = [parts[x] for x in ("tpulite", *wanted) if x in parts and parts[x].missing]
        remedies: dict[str, str] = {}  # one command of each installer
        for need in lacking:
            installer, _, what = need.remedy.partition(" install ")
            remedies[installer] = f"{remedies.get(installer, f'{installer} install')} {what}"
        missing = tuple(name for need in lacking for name in need.missing)
        uses.append(Use(command, missing, tuple(remedies.values())))
    return tuple(uses)


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
        raise ValueError(f"{user} needs: {install_command(extra)}")


def install_command(extra: str) -> str:
    """Return what installs the packages that an extra lacks, from a wheel and from a checkout.

    It names these packages, as our metadata do, since the package tpulite is on no index.
    """
    from packaging.requirements import Requirement

    listed = [requirement for name, requirement in _requirements() if name == extra]
    missing = [each for each in listed if not _fits(each)] or listed
    plain = [Requirement(f"{each.name}{each.specifier}") for each in missing]
    return f"pip install {shlex.join(map(str, plain))}"


def _requirements() -> Iterator[tuple[str, "Requirement"]]:
    """Yield the extra of each requirement in our metadata, empty for none, and the requirement."""
    from packaging.requirements import Requirement

    for line in requires("tpulite") or ():
        requirement = Requirement(line)
        yield str(requirement.marker).partition("extra == ")[2].strip("\"'"), requirement


def _fits(requirement: "Requirement") -> bool:
    """Return whether a package is there in a version that will do."""
    try:
        return requirement.specifier.contains(version(requirement.name), prereleases=True)
    except PackageNotFoundError:
        return False


def machine_needs() -> tuple[Need, ...]:
    """Look for everything that tpulite or one of its extras needs."""
    return (*_packages(), *_programs())


def _packages() -> Iterator[Need]:
    """Yield a need for tpulite itself, and for each of its extras."""
    wanted: dict[str, list[Requirement]] = {"": []}
    for extra, requirement in _requirements():
        wanted.setdefault(extra, []).append(requirement)
    for extra, requirements in wanted.items():
        found, missing = [], []
        for requirement in requirements:
            try:
                have = version(requirement.name)
            except PackageNotFoundError:
                missing.append(requirement.name)
                continue
            fits = _fits(requirement)
            text = f"{requirement.name} {have}"
            (found if fits else missing).append(
                text if fits else f"{text} (needs {requirement.specifier})"
            )
        name = f"tpulite[{extra}]" if extra else f"tpulite {version('tpulite')}"
        remedy = install_command(extra)
        there = ", ".join([] if extra else [f"Python {platform.python_version()}"]) or ""
        listed = ", ".join(part for part in (there, *found) if part)
        yield Need(name, _PURPOSES.get(extra, ""), listed, tuple(missing), remedy)


def missing_for_systems() -> tuple[Need, ...]:
    """Return what the LiteX system still needs, besides what the Verilated chip does."""
    return tuple(need for need in machine_needs() if need.purpose == _SYSTEM and need.missing)


def _programs() -> Iterator[Need]:
    """Yield a need for each program, or header of a library."""
    purposes = dict.fromkeys(BUILD_TOOLS, "--device rtl") | {"iverilog": "SIM=icarus"}
    purposes |= dict.fromkeys(_SYSTEM_TOOLS, _SYSTEM)
    packages = BUILD_TOOLS | {"iverilog": "iverilog"} | _SYSTEM_TOOLS
    for name, package in packages.items():
        found = _header(name) if name.endswith(".h") else shutil.which(name)
        how = "brew install" if sys.platform == "darwin" else "apt install"
        missing = () if found else (name,)
        yield Need(name, purposes[name], found or "", missing, f"{how} {package}")


def _header(name: str) -> str:
    """Return the path of a header as the C compiler finds it, or nothing."""
    if (compiler := shutil.which("cc")) is None:
        return ""
    command = [compiler, "-M", "-include", name, "-x", "c", "/dev/null"]
    listed = subprocess.run(command, capture_output=True, text=True).stdout.split()
    return next((path for path in listed if path.endswith(name)), "")
