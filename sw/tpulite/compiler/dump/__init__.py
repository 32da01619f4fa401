"""What the stages of the compiler have made, as text."""
