"""Products and transposes of activations on the systolic array."""
