"""Small networks, written down."""
