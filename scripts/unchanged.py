"""Run a check of the sources, unless it has passed on the same sources with the same packages.

``build/passed/NAME`` has the digest of what the check last passed on; one that fails leaves none.
"""

import argparse
import hashlib
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("rtl", "sw", "tb", "formal", "scripts", "examples")


def digest_of(root: Path, command: list[str]) -> str:
    """Return a digest of Python sources, settings, installed packages and the command."""
    paths = [root / "pyproject.toml"]
    for folder in FOLDERS:
        paths += [*(root / folder).rglob("*.py"), *(root / folder).rglob("*.pyi")]
    digest = hashlib.blake2b()
    for path in sorted(paths):
        source = path.read_bytes()
        digest.update(f"{path.relative_to(root)} {len(source)}\n".encode() + source)
    packages = sorted(f"{each.name} {each.version}" for each in distributions())
    digest.update(repr((sys.version, packages, command)).encode())
    return digest.hexdigest()


def main() -> int:
    """Return the exit code of the check, or 0 if it has passed on what is there now."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="name of the check")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what runs it")
    options = parser.parse_args()
    passed = ROOT / "build" / "passed" / options.name
    digest = digest_of(ROOT, options.command)
    if passed.exists() and passed.read_text() == digest:
        return 0
    passed.unlink(missing_ok=True)
    code = subprocess.run(options.command, cwd=ROOT, check=False).returncode
    if code == 0:
        passed.parent.mkdir(parents=True, exist_ok=True)
        passed.write_text(digest)
    return code


if __name__ == "__main__":
    sys.exit(main())
