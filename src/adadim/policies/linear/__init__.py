"""Algorithms for rewards linear in the features; `round_learner` is what those share that look at every round's."""
