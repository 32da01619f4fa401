"""What people read: accounts of cycles, comparisons with other machines."""

from tpulite.report.compilation import CompilationReport, compilation_table, report_programs
from tpulite.report.peers import Peer, peers_of

__all__ = [
    "CompilationReport",
    "Peer",
    "compilation_table",
    "peers_of",
    "report_programs",
]
