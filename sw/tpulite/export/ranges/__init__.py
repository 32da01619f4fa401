"""Networks for ranges of shapes as C, which binds them on the target."""

from tpulite.export.ranges.sources import ExportedRange, export_range

__all__ = ["ExportedRange", "export_range"]
