"""Algorithms that run other algorithms; what they share is in `base`."""
