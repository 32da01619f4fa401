"""Plans: how a layer is cut and what that costs, as frozen values from pure functions."""
