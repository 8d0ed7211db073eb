"""How well predicted metrics agree with those that Nsight Compute recorded: ``python -m gpu_ref correlate``."""
