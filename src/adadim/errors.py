"""Errors and warnings that callers may want to catch by name."""


class NotSelectedError(ValueError):
    """`update` was called for a replication that has no pending decision.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> learner = adadim.UCB().start(adadim.Problem(np.eye(2), horizon=5, noise=0.1))
    >>> learner.update([0], [1.0])
    Traceback (most recent call last):
    adadim.errors.NotSelectedError: update before select: replication 0 has no pending decision; call select() first
    """


class ForeignArmError(ValueError):
    """`update` got an arm the learner neither chose nor can learn from.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> learner = adadim.SupLinUCB(ties="lowest").start(adadim.Problem(np.eye(2), horizon=5, noise=0.1))
    >>> learner.select()
    array([0])
    >>> learner.update([1], [1.0])
    Traceback (most recent call last):
    adadim.errors.ForeignArmError: ... learns only from the arms it chose: select() said [0], update got [1]
    """


class NormWarning(UserWarning):
    """An arm is longer than 1, so the paper's guarantees do not apply as stated.

    Examples
    --------
    >>> import adadim, numpy as np, warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     problem = adadim.Problem(2 * np.eye(2), horizon=5, noise=0.1)
    >>> caught[0].category is NormWarning
    True
    """


class DeviceError(ValueError):
    """A device was asked for that is not there, or that is too small.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=20, dim=6, intrinsic_dim=2, horizon=50)
    >>> instance.to("gpu")
    Traceback (most recent call last):
    adadim.errors.DeviceError: device must be 'cpu', 'cuda' or 'cuda:N', got 'gpu'
    """
