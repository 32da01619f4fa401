"""Buses to the outside: AXI4 and AXI4-Lite."""
