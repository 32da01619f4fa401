"""From scales to integers: whose bits a network reproduces."""
