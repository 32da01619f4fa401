"""Plain networks as people build them, in floats, and the files that converters make of them."""
