"""Matrix unit: the systolic array and what feeds and drains it."""
