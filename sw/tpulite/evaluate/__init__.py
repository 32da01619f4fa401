"""How right a network is on a data set, and how often it gives what a library gives."""
