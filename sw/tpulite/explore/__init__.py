"""Which machine for my networks? Many configurations, each compiled for and timed by the model."""
