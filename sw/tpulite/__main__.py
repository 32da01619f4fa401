"""``python -m tpulite`` is the command ``tpulite``."""

from tpulite.cli import main

main()
