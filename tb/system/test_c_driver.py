"""The C driver runs programs on the Verilated chip as Python does on the golden machine."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tpulite.arch.memory import Window
from tpulite.arch.registers import Fault, Permission
from tpulite.compiler.options import Options
from tpulite.configs import named_config
from tpulite.firmware import FOLDER
from tpulite.models import MLP_DIGITS
from tpulite.runtime.device import Job
from tpulite.runtime.model import Model
from tpulite.runtime.session import Session
from tpulite_tb.machines import SMALL
from tpulite_verilated.library import HARNESS_DIR, build_library, cached_verilog

EXAMPLES = Path(__file__).parents[2] / "examples" / "c"
CONFIG = SMALL
BATCH = 3


def strict_c(*arguments: str | Path) -> None:
    flags = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    subprocess.run(["gcc", *flags, *arguments], check=True)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Compile the driver with its example, and link it with the chip."""
    folder = tmp_path_factory.mktemp("c_driver")
    library = build_library(cached_verilog(CONFIG), title="the 4x4 chip")
    objects = []
    for source in (FOLDER / "tpulite.c", EXAMPLES / "on_simulator.c"):
        objects.append(folder / f"{source.stem}.o")
        strict_c("-c", source, f"-I{FOLDER}", f"-I{HARNESS_DIR}", "-o", objects[-1])
    binary = folder / "on_simulator"
    strict_c(*objects, library, f"-Wl,-rpath,{library.parent}", "-o", binary)
    return binary


@pytest.fixture(scope="module")
def session():
    """Run the digits on the golden machine; its memory then holds program, input and output."""
    (program,) = Model.load(MLP_DIGITS, config=CONFIG, options=Options(batch=BATCH)).programs
    session = Session(program, "golden")
    shape = program.inputs[0].shape
    x = np.random.default_rng(1).integers(-128, 128, shape, dtype=np.int8)
    assert session.run(x).fault is None
    return session


def line(job: Job, *, closed: Window | None = None) -> str:
    """Write a job as the example reads it, with one window closed."""
    words = [job.program_address, job.program_length, job.watchdog]
    for i, window in enumerate(job.windows):
        permission = Permission.READ * window.read | Permission.WRITE * window.write
        words += [window.base, 0 if i == closed else window.size, int(permission)]
    return " ".join(map(str, words))


def run_c(program: Path, folder: Path, session: Session, jobs: list[str]):
    """Run jobs; return the lines of results and the memory before and after."""
    image = session.device.read(0, session.device.dram_bytes)
    output = session.job.windows[Window.OUTPUT]
    before = image.copy()
    before[output.base : output.base + output.size] = 0
    dram = folder / "dram.bin"
    dram.write_bytes(before.tobytes())
    (folder / "jobs.txt").write_text("\n".join(jobs))
    done = subprocess.run(
        [program, dram, hex(CONFIG.hash), folder / "jobs.txt"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    after = np.frombuffer(dram.read_bytes(), dtype=np.uint8)
    results = [tuple(map(int, text.split())) for text in done.stdout.splitlines()]
    return results, before, after, image


def test_leaves_the_memory_that_golden_leaves(program, session, tmp_path):
    ((fault, *_, cycles),), before, after, golden = run_c(
        program, tmp_path, session, [line(session.job)]
    )
    assert fault == Fault.NONE
    assert cycles > 0
    assert (before != golden).any()
    assert (after == golden).all()


def test_recovers_from_a_fault_by_soft_reset(program, session, tmp_path):
    base = session.job.windows[Window.OUTPUT].base
    jobs = [line(session.job, closed=Window.OUTPUT), line(session.job)]
    (first, second), _, after, golden = run_c(program, tmp_path, session, jobs)
    fault, index, address, _ = first
    commands = session.program.commands
    assert fault == Fault.WINDOW
    assert commands[index].opcode.name == "STORE"
    assert commands[index]["window"] == Window.OUTPUT
    assert address == base + commands[index]["offset"]
    assert second[0] == Fault.NONE
    assert (after == golden).all()


def test_other_configuration_is_refused(program, session, tmp_path):
    dram = tmp_path / "dram.bin"
    dram.write_bytes(bytes(4096))
    (tmp_path / "jobs.txt").write_text(line(session.job))
    other = hex(named_config("8x8").hash)
    done = subprocess.run(
        [program, dram, other, tmp_path / "jobs.txt"], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr == "this is another chip\n"


def test_firmware_needs_no_library(tmp_path):
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("nm is missing (Debian: apt install binutils)")
    for source in FOLDER.glob("*.c"):
        strict_c("-c", "-ffreestanding", "-Os", source, "-o", tmp_path / f"{source.stem}.o")
    listed = [nm, "-P", *tmp_path.glob("*.o")]
    symbols = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    kinds = [line.split()[:2] for line in symbols.splitlines() if not line.endswith(":")]
    defined = {name for name, kind in kinds if kind in "Tt"}
    assert {name for name, kind in kinds if kind == "U"} - defined <= {"memcpy", "memset"}
