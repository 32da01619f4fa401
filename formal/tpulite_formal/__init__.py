"""Proofs about components of the chip, and mutants that show each of them falsifiable."""
