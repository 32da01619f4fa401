"""Networks of integer layers without what no result needs."""
