"""What is recorded of a case, and the files that hold it."""

import csv
import hashlib
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tpulite.atomic import write_whole
from tpulite.golden.timing import predict_cycles
from tpulite.program import Program
from tpulite.report.traffic import dram_traffic
from tpulite_testing.replay.case import Case

__all__ = ["FOLDER", "Record", "read_records", "record_of", "write_records"]

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "replay"
"""Where the records are: ``quick.csv``, and ``full.csv`` with all others."""

_COLUMNS = ("case", "cycles", "read", "written", "sha256", "refusal")


@dataclass(frozen=True)
class Record:
    """A case that was compiled, or refused."""

    case: str  #: Its name.
    #: Cycles of its programs, as the cycle model predicts them; None if it was refused.
    cycles: int | None = None
    #: Bytes of DRAM.
    read: int | None = None
    written: int | None = None
    sha256: str = ""  #: Of commands and constants of the programs.
    refusal: str = ""  #: First line of the error, if it was refused.


def record_of(case: Case) -> Record:
    """Compile a case.

    Raises
    ------
    RuntimeError
        If something is not to be had, as a network of the zoo: that says nothing of the compiler.
    """
    try:
        programs = case.compile()
    except ValueError as error:
        return Record(case.name, refusal=_first_line(str(error)))
    except AssertionError as error:
        return Record(case.name, refusal=f"AssertionError: {_first_line(str(error))}")
    traffic = [dram_traffic(program) for program in programs]
    return Record(
        case.name,
        cycles=sum(predict_cycles(program.commands, program.config) for program in programs),
        read=sum(each.read_bytes for each in traffic),
        written=sum(each.written_bytes for each in traffic),
        sha256=_digest(programs),
    )


def read_records(path: Path) -> dict[str, Record]:
    """Return the records of a file by the names of their cases; none if there is no file."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        return {row["case"]: _parse(row) for row in rows}


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write a file, one case a line, sorted by name."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for record in sorted(records, key=lambda record: record.case):
        numbers = (record.cycles, record.read, record.written)
        writer.writerow((record.case, *numbers, record.sha256, record.refusal))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda temporary: temporary.write_text(text.getvalue()))


def _parse(row: dict[str, str]) -> Record:
    cycles, read, written = (int(row[name]) if row[name] else None for name in _COLUMNS[1:4])
    return Record(row["case"], cycles, read, written, row["sha256"], row["refusal"])


def _digest(programs: tuple[Program, ...]) -> str:
    digest = hashlib.sha256()
    for program in programs:
        for part in (program.encode(), program.constants):
            digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
