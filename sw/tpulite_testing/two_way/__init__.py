"""Two roads to one program: compiled for a shape, and bound to it from a range of shapes."""
