"""Table: everything that is known of each layer, and who computes it; a click sorts."""

from bokeh.models import (
    DataTable,
    HTMLTemplateFormatter,
    NumberFormatter,
    StringFormatter,
)

from tpulite.report.html.style import WHERE, source
from tpulite.report.html.table import make_table
from tpulite.report.profile import LayerProfile, Profile

__all__ = ["make_layer_table"]

_CELL = '<span style="color: white; background: <%= color %>; padding: 0 6px"><%- value %></span>'


def make_layer_table(profile: Profile) -> DataTable:
    """Return a row for each layer, those of the host included, in order."""
    layers = profile.layers
    where = [_where(layer) for layer in layers]
    data = source(
        "table",
        {
            "name": [layer.name for layer in layers],
            "where": where,
            "color": [WHERE.get(x.split(":")[0], "transparent") for x in where],
            "cycles": [layer.cycles or None for layer in layers],
            "share": [layer.cycles / max(1, profile.cycles) or None for layer in layers],
            "bound": [str(layer.bound or "") for layer in layers],
            "utilization": [layer.utilization or None for layer in layers],
            "m": [layer.m or None for layer in layers],
            "k": [layer.k or None for layer in layers],
            "n": [layer.n or None for layer in layers],
            "macs": [layer.macs or None for layer in layers],
            "read": [layer.traffic.read_bytes or None for layer in layers],
            "written": [layer.traffic.written_bytes or None for layer in layers],
        },
    )
    number, percent = (
        NumberFormatter(format=form, text_align="right", null_format="") for form in ("0,0", "0.0%")
    )
    text, colored = StringFormatter(), HTMLTemplateFormatter(template=_CELL)
    columns = [
        *(("name", "layer", 220, text), ("where", "computed by", 90, colored)),
        *(("cycles", "cycles", 80, number), ("share", "share", 55, percent)),
        *(("bound", "bound by", 80, text), ("utilization", "utilization", 75, percent)),
        *(("m", "vectors (m)", 75, number), ("k", "products (k)", 75, number)),
        *(("n", "channels (n)", 75, number), ("macs", "MACs", 100, number)),
        *(("read", "bytes read", 85, number), ("written", "bytes written", 85, number)),
    ]
    return make_table(data, len(layers), columns)


def _where(layer: LayerProfile) -> str:
    if layer.where != "machine":
        return f"host: {layer.where}"
    if not layer.n:
        return ""  # cycles before and after all layers
    return "MXU" if layer.macs else "VPU"
