"""The chip in a LiteX system: as a core, in LiteX's simulator, on boards."""
