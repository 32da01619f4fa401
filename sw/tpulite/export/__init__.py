"""Networks for firmware: commands, weights and the host's part as C and as binary files."""

from tpulite.export.files import export_files
from tpulite.export.network import ExportedNetwork, check_exportable, export_network
from tpulite.export.references import References, reference_runs
from tpulite.export.sizes import Sizes

__all__ = [
    "ExportedNetwork",
    "References",
    "Sizes",
    "check_exportable",
    "export_files",
    "export_network",
    "reference_runs",
]
