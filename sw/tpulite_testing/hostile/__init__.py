"""Hostile files: whole ones, what is done to them, and what commands make of them under guard."""
