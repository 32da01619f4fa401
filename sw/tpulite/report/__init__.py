"""What people read: accounts of cycles, comparisons with other machines."""

from tpulite.report.compilation import CompilationReport, compilation_table, report_programs
from tpulite.report.layers import LayerAccount, account_layers, layer_table
from tpulite.report.peers import Peer, peers_of

__all__ = [
    "CompilationReport",
    "LayerAccount",
    "Peer",
    "account_layers",
    "compilation_table",
    "layer_table",
    "peers_of",
    "report_programs",
]
