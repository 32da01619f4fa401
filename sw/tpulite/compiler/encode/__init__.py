"""Commands as the machine reads them, with tokens."""
