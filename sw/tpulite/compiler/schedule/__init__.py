"""The order of commands, and a place in the unified buffer for everything."""
