"""Language models: weights as people have them, a network for one token, and text."""
