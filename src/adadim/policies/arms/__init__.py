"""Algorithms for arms that have nothing to do with each other: features are ignored."""
