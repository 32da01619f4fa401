#!/bin/sh
# Check what pip cannot install. Prints one line for each missing item and then fails.
# Usage: scripts/preflight.sh PYTHON [SIMULATOR|none]; tests of the software need no simulator.
python=${1:?usage: preflight.sh PYTHON [SIMULATOR|none]}
simulator=$2
status=0

missing() {
    echo "tpulite: $1" >&2
    status=1
}

have() {
    command -v "$1" >/dev/null 2>&1
}

if ! have "$python"; then
    missing "$python is missing: install Python 3.11 or newer (Debian: python3) or name one with PYTHON=..."
elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    missing "$python is $("$python" --version 2>&1): install Python 3.11 or newer, or name one with PYTHON=..."
else
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        missing "$python has no venv: install it (Debian: python3-venv)"
    # cocotb loads the shared library of Python into the simulator.
    [ "$simulator" = none ] || "$python" - <<'END' || missing "$python has no shared libpython: install it (Debian: libpython3-dev)"
import ctypes
import sys
import sysconfig
from pathlib import Path

get = sysconfig.get_config_var
version = f"{sys.version_info.major}.{sys.version_info.minor}"
names = {get("INSTSONAME"), get("LDLIBRARY"), f"libpython{version}.so.1.0", f"libpython{version}.dylib"}
names = {name for name in names if name and not name.endswith(".a")}
folders = [Path(sys.base_prefix, "lib")]
if get("LIBDIR"):
    folders += [Path(get("LIBDIR")), Path(get("LIBDIR"), get("MULTIARCH") or "")]


def loads(name):
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


found = any((folder / name).exists() for folder in folders for name in names)
sys.exit(not (found or any(loads(name) for name in sorted(names))))
END
fi

have make || missing "make is missing: install it (Debian: make)"
[ "$simulator" = none ] || have g++ || missing "g++ is missing: install it (Debian: g++)"
[ "$simulator" = none ] || have perl || missing "perl is missing: install it (Debian: perl)"

case $simulator in
    "" | verilator | none) ;;
    icarus) have iverilog || missing "iverilog is missing, which SIM=icarus needs: install it (Debian: iverilog)" ;;
    *) missing "SIM must be verilator or icarus, not $simulator" ;;
esac
exit $status
