"""Networks as their papers describe them, with drawn weights, as int8 files of TFLite."""
