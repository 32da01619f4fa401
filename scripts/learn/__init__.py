"""Pages of docs/learn: traces of the RTL, and the drawings that show them."""
