"""Properties draw the same examples in each run: what fails then is what changed.

``make regress`` draws others each time. No example has a deadline: others may use the processor.
"""

from hypothesis import HealthCheck, settings

from tpulite_testing.regress import REGRESS

settings.register_profile(
    "tpulite",
    deadline=None,
    derandomize=not REGRESS,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("tpulite")
