"""Running compiled programs on devices."""
