"""Other implementations to compare with: plain loops, interpreters, other people's libraries."""
