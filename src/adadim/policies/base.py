"""What a policy is: frozen hyper-parameters (`Policy`) that start a learner with state (`Learner`).

To write one, define a frozen dataclass with the method `learner`, which makes a `Learner`, and in that two methods on
arrays: `choose` says which arms to pull, `absorb` learns from their rewards. docs/architecture.md has a walk-through.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adadim.core.arrays import as_numpy, like
from adadim.core.checks import check_fields
from adadim.core.codec import text_of
from adadim.core.notebook import card
from adadim.core.problem import NEVER, Problem
from adadim.core.randomness import Purpose, Streams
from adadim.core.saving import write_learner
from adadim.core.state import State, restore_state, take_state
from adadim.dimension import Dimension, Levels, Prior, dimension_of_arms, dimension_of_moments
from adadim.errors import InvalidTypeError, InvalidValueError
from adadim.policies.ask_tell import AskTell
from adadim.policies.assumptions import sets_lacking, warn_about_sets
from adadim.policies.decisions import Decision, Memo
from adadim.policies.inputs import checked_new_arms

__all__ = ["Decision", "Learner", "Memo", "Policy", "pull_counts", "revive"]


@dataclass(frozen=True)
class Policy(ABC):
    """Hyper-parameters of an algorithm; prints, compares and hashes by value.

    Examples
    --------
    >>> import adadim
    >>> adadim.LinUCB(dim=3) == adadim.LinUCB(dim=3), adadim.LinUCB(dim=3) == adadim.LinUCB(dim=4)
    (True, False)
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls):  # a class that has one is given none by `dataclass`
            cls.__repr__ = text_of  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        check_fields(self)

    def start(self, problem: Problem, seed: int = 0) -> Learner:
        """Fresh learners for every replication of `problem`, advancing in lock step."""
        if not isinstance(problem, Problem):
            raise InvalidTypeError(f"start needs an adadim.Problem, got {type(problem).__name__}")
        learner = _started(self, problem, seed)
        warn_about_sets(sets_lacking(type(self).__name__, learner.needs_sets, problem.sets))
        return learner

    @abstractmethod
    def learner(self, problem: Problem, streams: Streams) -> Learner:
        """Do the same as `start`, drawing from the streams given (a master hands each base its own)."""


class Learner(AskTell):
    """State of a policy on R replications.

    `ask` gives a `Decision` and `tell` takes it back with its rewards; `select` and `update` are the short form for a
    loop that answers each decision before the next. `learn` takes logged pulls that nobody asked for. On a problem of
    (K, d) features arms and rewards are plain numbers (arrays of length one are taken too), on one of (R, K, d)
    features arrays of length R. `rows` (default: all) names the replications concerned, by position.

    Whoever writes a policy defines `choose` and `absorb`; they are what the loop and the masters call.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> features = np.stack([np.eye(3), np.eye(3)])  # two replications
    >>> learner = adadim.UCB(ties="lowest").start(adadim.Problem(features, horizon=9, noise=0.1))
    >>> learner.select()
    array([0, 0])
    >>> learner.update([0, 0], [0.2, 0.4])
    >>> learner.select(rows=[1])  # only the second goes on
    array([1])
    """

    origin: Policy | None = None
    """The policy that started it; of a learner inside another, None."""

    def add_arms(self, features: Any) -> np.ndarray[Any, Any]:
        """Add arms, which can be chosen from the next decision on.

        Parameters
        ----------
        features : array (n, d) or (R, n, d)
            Their features; what was learned so far holds for them.

        Returns
        -------
        int array (n,)
            Numbers of the new arms.

        Examples
        --------
        >>> import adadim, numpy as np
        >>> problem = adadim.Problem(np.eye(3)[:2], arms=10, horizon=9, noise=0.1)  # two arms, at most ten in the end
        >>> learner = adadim.LinUCB().start(problem)
        >>> learner.learn([0, 1, 0, 1], [0.2, 0.1, 0.2, 0.1])
        >>> learner.add_arms([[0.6, 0.0, 0.8]])
        array([2])
        >>> learner.select()  # the third feature has not been seen yet
        2
        """
        problem, name = self.problem, type(self.origin or self).__name__
        if not self.takes_new_arms:
            raise InvalidValueError(
                f"{name} takes no new arms while it plays; LinUCB, UCB, LinTS, EvidenceLinUCB and LinUCBPlusPlus do"
            )
        arrives = as_numpy(self.arrives) if problem.growing else problem.arrives
        room = np.flatnonzero((arrives == NEVER).all(axis=0))
        added = checked_new_arms(problem, features, len(room))
        numbers = room[: added.shape[1]]
        at = like(numbers, problem.reference)
        self.features_there[:, at] = added
        self.arrives[:, at] = self.calendar.decided[:, None] + 1
        self.arms_added()
        return numbers

    def describe(self) -> Any:
        """State in words and numbers, for people: a dict, or a list of one for each replication."""
        described = self.descriptions()
        if self.takes_late_rewards:
            for row, waiting in zip(described, self.open_decisions().tolist(), strict=True):
                row["open_decisions"] = waiting
        if self.problem.names is not None:  # the columns it learns in
            for row in described:
                row["features"] = list(self.problem.names[: row.get("dim", self.problem.dim)])
        return described[0] if self.problem.single else described

    def _repr_html_(self) -> str:
        single = self.problem.single
        state = {name.replace("_", " "): value for name, value in self.describe().items()} if single else {}
        about = {"policy": repr(self.origin), **self.problem.in_short()}
        return card(
            type(self).__name__, {**about, **{k: v for k, v in state.items() if k not in ("dim", "replication")}}
        )

    def dimension(self, levels: Levels = None, prior: Prior = "uniform") -> Dimension:
        """How many of the features matter, by all that the learner has seen; see `adadim.dimension`.

        Of R replications the result has a first axis of length R. Learners that keep what they have seen have it: the
        linear ones (`LinUCB`, `LinTS`, `TaperedLinUCB`, `EvidenceLinUCB`, `PrefixLinUCB`, `Greedy`), in contexts too if
        they learn in all features, and on fixed arms (NumPy) masters whose bases are linear and see the rewards as they
        are.

        Examples
        --------
        >>> import adadim
        >>> instance = adadim.instances.sphere(arms=60, dim=12, intrinsic_dim=4, horizon=400, replications=range(2))
        >>> found = adadim.simulate(adadim.EvidenceLinUCB(), instance).learner.dimension()
        >>> found.probabilities.shape, bool((found.probabilities[:, 3:6].sum(axis=1) > 0.8).all())
        ((2, 12), True)
        """
        if self.problem.contextual:
            sums = self.context_sums()
            if sums is not None:
                return dimension_of_moments(sums, self.problem.single, levels, prior)
        elif (seen := self.pull_sums()) is not None:
            return dimension_of_arms(self.problem.actions, np.arange(self.problem.arms), *seen, levels, prior)
        name = type(self.origin or self).__name__
        raise InvalidTypeError(
            f"{name} does not keep the pulls and rewards that say how many features matter; log them and call "
            "adadim.dimension(features, rewards), or play LinUCB, TaperedLinUCB, EvidenceLinUCB or Greedy"
        )

    def save(self, path: str | Path) -> None:
        """Write the learner to a file, which `adadim.load` reads; it then goes on bit for bit as this one would.

        The file is a zip archive of arrays (npz) and JSON; reading it runs no code. It is written whole or not at all.

        Examples
        --------
        >>> import adadim, numpy as np, pathlib, tempfile
        >>> problem = adadim.Problem(np.eye(3), horizon=9, noise=0.1)
        >>> learner = adadim.LinUCB().start(problem)
        >>> learner.update(learner.select(), 0.5)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     learner.save(pathlib.Path(folder, "learner.npz"))
        ...     restored = adadim.load(pathlib.Path(folder, "learner.npz"), problem)
        >>> restored.select() == learner.select()
        True
        """
        write_learner(Path(path), self.origin, self.problem, take_state(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> Learner:
        return revive(self.origin, self.problem, take_state(self))

    def __copy__(self) -> Learner:
        return revive(self.origin, self.problem, take_state(self))

    def __reduce__(self) -> Any:
        return revive, (self.origin, self.problem, take_state(self))


def pull_counts(counts: np.ndarray[Any, Any]) -> dict[str, int]:
    """What the numbers of pulls of all arms say, for `Learner.descriptions`."""
    return {
        "pulls": int(counts.sum()),
        "most_pulled_arm": int(counts.argmax()),
        "pulls_of_that_arm": int(counts.max()),
    }


def revive(policy: Policy | None, problem: Problem, state: State) -> Learner:
    """A learner of `policy` on `problem` in the given state."""
    if policy is None:
        raise InvalidValueError("only a learner made by policy.start(problem) can be copied or saved")
    learner = _started(policy, problem, 0)
    restore_state(learner, state)
    return learner


def _started(policy: Policy, problem: Problem, seed: int) -> Learner:
    problem = problem.to_grow()
    streams = Streams(seed, Purpose.POLICY, problem.replications, reference=problem.reference)
    learner = policy.learner(problem, streams)
    learner.origin = policy
    return learner
