"""Command processor: fetch, dispatch, tokens, run control, registers, counters."""
