"""Checks by seed, for ``tpulite regress``: each returns counts, or raises an error."""
