"""Chains of dense layers: the plan of a chain is searched."""
