"""What tests, benches, scripts and the jobs of ``tpulite regress`` share."""
