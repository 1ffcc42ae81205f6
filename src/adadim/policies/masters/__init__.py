"""Algorithms that run other algorithms; what they share is in `base`, `counting`, `corral` and `smoothing`."""
