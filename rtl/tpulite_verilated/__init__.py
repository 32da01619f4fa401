"""The Verilated chip as a device."""
