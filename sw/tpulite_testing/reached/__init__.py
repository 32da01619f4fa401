"""Which rewrites of networks the draws of the tests reach, and which pairs of them."""
