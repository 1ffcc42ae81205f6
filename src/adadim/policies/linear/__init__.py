"""Algorithms for rewards linear in the features; `round_learner`: learners that look at those of every round."""
