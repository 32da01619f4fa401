"""How long the paths of the chip are, and how many gates it has, in a generic gate library."""
