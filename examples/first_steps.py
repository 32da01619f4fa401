"""From a network to its answers, its cycles and a smaller machine, in Python.

Run it with ``python examples/first_steps.py``. The networks come with tpulite: classifiers of
handwritten digits.
"""

import tpulite
from tpulite.models import CNN_DIGITS, DigitsTest

# A model knows where each operator runs; it is compiled when its programs are needed.
model = tpulite.load("mlp_digits", batch=16)
print(model)

# The golden model computes in numpy; device="rtl" is the Verilated chip, with the same bits.
digits = DigitsTest.load()
results = tpulite.run(model, digits.images)
right = (results.classes == digits.labels).mean()
print(f"{right:.2%} of {len(digits)} digits are right")

# Where do the cycles go? The cycle model says so in a moment; in a notebook this is a table, too.
print(tpulite.profile(CNN_DIGITS))

# The same network on other machines.
for config in ("32x32", "16x16", "8x8", "4x4"):
    print(f"{config}: {tpulite.profile(CNN_DIGITS, config=config).cycles:,} cycles")
