"""Algorithms that go through iterations and remember them by mixture-arms; `iterations` is what they share."""
