"""Networks, machines and options drawn at random, from hypothesis or from a seed."""
