"""Print the code size of each source of the firmware, by GCC with -Os.

python scripts/firmware_sizes.py
"""

import subprocess
import tempfile
from pathlib import Path

from tpulite.firmware import FOLDER

TARGETS = {
    "RV32IMC": ("riscv64-unknown-elf-", ("-march=rv32imc", "-mabi=ilp32")),
    "RV32I": ("riscv64-unknown-elf-", ("-march=rv32i", "-mabi=ilp32")),
    "x86-64": ("", ()),
}
"""Prefix of the compiler, and its options."""

HOST = ("tpulite_host", "tpulite_host_float", "tpulite_host_lstm")
SOURCES = ("tpulite", "tpulite_network", "tpulite_layout", *HOST)


def code_bytes(source: Path, tools: str, flags: tuple[str, ...]) -> int:
    """Return the bytes of code and constants of a source."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "source.o"
        command = [f"{tools}gcc", *flags, "-std=c99", "-ffreestanding", "-Os", "-c", source]
        subprocess.run([*command, "-o", result], check=True)
        said = subprocess.run([f"{tools}size", result], check=True, capture_output=True, text=True)
    return int(said.stdout.splitlines()[1].split()[0])


def main() -> None:
    """Print a table."""
    print("bytes of code     ", *(f"{name:>9}" for name in TARGETS))
    for name in SOURCES:
        sizes = (code_bytes(FOLDER / f"{name}.c", *target) for target in TARGETS.values())
        print(f"{name:<18}", *(f"{size:>9,}" for size in sizes))


if __name__ == "__main__":
    main()
