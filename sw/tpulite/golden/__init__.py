"""Golden models: exact operators in numpy, and a machine that executes programs and finds races."""
