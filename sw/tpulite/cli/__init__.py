"""The command line."""

from tpulite.cli.main import main

__all__ = ["main"]
