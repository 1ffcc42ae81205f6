"""Errors and warnings that callers may want to catch by name."""


class NotSelectedError(ValueError):
    """`update` was called for a replication that has no pending decision."""


class ForeignArmError(ValueError):
    """`update` got an arm the learner neither chose nor can learn from."""


class NormWarning(UserWarning):
    """An arm is longer than 1, so the paper's guarantees do not apply as stated."""
