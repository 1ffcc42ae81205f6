"""All errors and warnings of adadim.

All errors derive from `AdadimError` and from the built-in class that fits, so ``except ValueError`` works too.
"""

__all__ = [
    "AdadimError",
    "AgentExistsError",
    "ConditionError",
    "DecisionError",
    "DeviceError",
    "EvaluationWarning",
    "FileError",
    "ForeignArmError",
    "InvalidTypeError",
    "InvalidValueError",
    "NormWarning",
    "NotSelectedError",
    "PrecisionWarning",
    "RunError",
    "ServiceError",
    "SetsWarning",
    "StoreError",
    "StoreWarning",
    "StudyError",
    "UnknownDecisionError",
]

LONGEST_MESSAGE = 1500  # characters; a longer one is cut in the middle


class AdadimError(Exception):
    """Base class of all errors of adadim.

    Examples
    --------
    >>> import adadim
    >>> try:
    ...     adadim.LinUCB(ridge=-1)
    ... except adadim.AdadimError as error:
    ...     print(error)
    ridge must be a positive finite number (the regularisation lambda, e.g. 0.1), got -1
    """

    def __init__(self, *arguments: object) -> None:
        # A name or value of megabytes, from a damaged file for instance, is not repeated in full.
        super().__init__(*(shortened(text) if isinstance(text, str) else text for text in arguments))


def shortened(text: str) -> str:
    """A message, cut in the middle where it is long."""
    half = LONGEST_MESSAGE // 2
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:half]} ... {text[-half:]}"


class InvalidValueError(AdadimError, ValueError):
    """A value that cannot be used; the message names it and says what would be right."""


class InvalidTypeError(AdadimError, TypeError):
    """A value of a type that cannot be used; the message names it and says what would be right."""


class NotSelectedError(InvalidValueError):
    """`update` was called for a replication that has no open decision.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> learner = adadim.UCB().start(adadim.Problem(np.eye(2), horizon=5, noise=0.1))
    >>> learner.update(0, 1.0)
    Traceback (most recent call last):
    adadim.errors.NotSelectedError: update before select: replication 0 has no open decision; call select() first
    """


class ForeignArmError(InvalidValueError):
    """A learner was to learn from an arm that it neither chose nor can learn from.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> learner = adadim.SupLinUCB(ties="lowest").start(adadim.Problem(np.eye(2), horizon=5, noise=0.1))
    >>> learner.select()
    0
    >>> learner.update(1, 1.0)
    Traceback (most recent call last):
    adadim.errors.ForeignArmError: ... learns only from the arms it chose: select() gave [0], update got [1]
    """


class DecisionError(InvalidValueError):
    """A decision that cannot be made or answered now: one is still open, or it was answered already.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> learner = adadim.LinUCB().start(adadim.Problem(np.eye(2), horizon=5, noise=0.1))
    >>> decision = learner.ask()
    >>> learner.tell(decision, 0.5)
    >>> learner.tell(decision, 0.5)
    Traceback (most recent call last):
    adadim.errors.DecisionError: decision 0 was answered already, or another learner made it
    """


class UnknownDecisionError(DecisionError):
    """A decision that is not in the log."""


class DeviceError(InvalidValueError):
    """A device that does not exist, or that has too little memory.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=20, dim=6, intrinsic_dim=2, horizon=50)
    >>> instance.to("gpu")
    Traceback (most recent call last):
    adadim.errors.DeviceError: device must be 'cpu', 'cuda' or 'cuda:N', got 'gpu'
    """


class FileError(InvalidValueError):
    """A file that cannot be read or written: damaged, of another program, or in a place without room or permission."""


class AgentExistsError(FileError):
    """An agent cannot be created because there is one already."""


class StoreError(FileError):
    """A results folder that cannot be used as it is; the message names the file and the fix."""


class StudyError(InvalidValueError):
    """A study that cannot be run as written; the message names the key and the fix."""


class ConditionError(InvalidValueError):
    """Parameters for which a theorem says nothing; the message names the condition that fails."""


class RunError(AdadimError, RuntimeError):
    """A run that stopped early; what was finished is stored, and running again goes on from there."""


class ServiceError(AdadimError, OSError):
    """A service that could not be reached, or that refused a call; `status` is then its answer, e.g. 404."""

    def __init__(self, *arguments: object, status: int | None = None) -> None:
        super().__init__(*arguments)
        self.status = status


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


class PrecisionWarning(UserWarning):
    """Features are so nearly dependent, or on a device so large, that float64 holds the regression only roughly.

    Examples
    --------
    >>> import adadim, numpy as np, warnings
    >>> problem = adadim.Problem(arms=2, dim=2, horizon=50, noise=0.1)
    >>> learner = adadim.LinUCB(ridge=1e-8).start(problem)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     learner.learn([[1e3, 1e3], [1e3, 1e3]], [0.5, 0.4])
    >>> caught[0].category is PrecisionWarning
    True
    """


class SetsWarning(UserWarning):
    """A policy was started where its guarantee does not hold, because of how the problem's action sets come about.

    Examples
    --------
    >>> import adadim, warnings
    >>> problem = adadim.Problem(arms=5, dim=3, horizon=50, noise=0.1, sets="adversarial")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     learner = adadim.D3RB().start(problem)
    >>> caught[0].category is SetsWarning
    True
    """


class EvaluationWarning(UserWarning):
    """A log that contains too little information to estimate the value of a policy."""


class StoreWarning(UserWarning):
    """Something about a results folder that a run can deal with: a damaged block, or another run to wait for."""
