"""What commands touch, in fast forms that are held to :mod:`tpulite.arch.effects`."""
