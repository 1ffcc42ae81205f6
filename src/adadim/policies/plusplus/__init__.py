"""Algorithms that go through iterations and remember them by mixture-arms; `iterations` has what they share."""
