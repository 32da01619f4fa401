"""Checks by seed, for ``tpulite regress``: each returns counts, or raises an error.

A pass of the compiler that has to be left out is an error here, as it is in pytest.
"""

import warnings

from tpulite.compiler.passes import PassLeftOut

warnings.simplefilter("error", PassLeftOut)
