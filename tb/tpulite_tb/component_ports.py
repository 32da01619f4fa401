"""The ports of a component, as Verilog names them."""

from amaranth.hdl import Signal, ValueCastable
from amaranth.lib import wiring


def component_ports(component: wiring.Component) -> list[tuple[str, Signal, None]]:
    """Name the ports; constants, like ``ready`` of an always ready stream, are none."""
    ports = []
    for path, _member, value in component.signature.flatten(component):
        signal = value.as_value() if isinstance(value, ValueCastable) else value
        if isinstance(signal, Signal):
            ports.append(("__".join(map(str, path)), signal, None))
    return ports
