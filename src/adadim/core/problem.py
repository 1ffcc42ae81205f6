"""What a policy may know of a problem."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from adadim.core.actions import ActionSet
from adadim.core.arrays import Array, as_numpy, copied, is_numpy, namespace, read_only, real_array, to_torch
from adadim.core.checks import flag, integer, one_of, positive, require, rounds
from adadim.core.deprecated import renamed_method
from adadim.core.display import html_table
from adadim.core.levels import ColumnLevels, Levels
from adadim.core.randomness import check_replications
from adadim.core.rewards import KINDS, checked_kind
from adadim.core.state import stateless
from adadim.errors import InvalidValueError

NEVER_ARRIVES = 2**62  # arrival round of arms that have not been added

Sets = Literal["fixed", "growing", "iid", "adversarial"]


@stateless
class Problem:
    """A linear bandit problem as a policy sees it.

    Parameters
    ----------
    features : array (K, d), array (R, K, d), DataFrame or ActionSet, optional
        Features of the arms, most basic first; R > 1 for independent replications in parallel. A DataFrame of pandas
        or polars keeps the names of its columns. Without it the problem is a contextual one: features come with each
        round, and `arms` and `dim` say how many there are.
    horizon : int or None
        Number of rounds T; None where there is no end. Policies that have an anytime form then use it, and the others
        refuse to start.
    noise : float, optional
        Sub-Gaussian scale sigma of the noise (its standard deviation if Gaussian; 0.5 for rewards in [0, 1]). Without
        it, policies that need it refuse to start; the one of `adadim.recommended` estimates it.
    reward_range : float or array (R,), optional
        Difference between the largest and the smallest mean reward, if known.
    replications : sequence of int, or int, optional
        Replication numbers, or how many, which key the random streams; ``range(R)`` by default.
    arms, dim : int, optional
        Of a contextual problem: the largest number of arms K in a round, and the number of features d. With `features`,
        `arms` is the number of arms that there may be in the end, for those that `Learner.add_arms` adds.
    disjoint : bool
        Of a contextual problem: a round brings one context of `dim` covariates for all arms, and each arm has a
        parameter of its own. `LinUCB` and its kin play it (docs/architecture.md); for others multiply both out
        (`adadim.interactions`).
    arrives : int array (K,) or (R, K), optional
        Round from which on each arm is there, 1 for those there from the start: sets of arms that only grow. Arms of an
        expressive set arrive with their truncations.
    sets : {"iid", "adversarial"}, optional
        Of a contextual problem: how the features of a round come about, if known. "iid": drawn from one distribution,
        independently of the past. "adversarial": in any way. A policy whose guarantee needs more than that warns when
        it starts. Sets that are given are "fixed", or "growing" if arms arrive.
    rewards : {"gaussian", "bernoulli"}
        What rewards are. "bernoulli": clicks, 0 or 1, or shares in [0, 1]; others are refused, `adadim.recommended`
        follows, and the noise is 0.5 unless it is given.
    levels : dict or list, optional
        Groups of features, most basic first: the number of leading features up to the end of each, as
        ``{"price": 3, "text": 67}`` or ``[3, 67]``. Features after the last one are a level of their own, "rest".
        `EvidenceLinUCB` with ``levels="each"`` learns a prior for each.

    Examples
    --------
    >>> import numpy as np
    >>> problem = Problem(np.eye(3), horizon=100, noise=0.1)
    >>> problem.arms, problem.dim, problem.horizon
    (3, 3, 100)
    >>> Problem(arms=20, dim=50, horizon=1000, noise=0.1).contextual
    True
    >>> Problem(np.eye(3), horizon=None, noise=0.1).endless
    True
    >>> Problem(np.eye(3), arrives=[1, 1, 50], horizon=100, noise=0.1).growing  # the third arm comes later
    True
    """

    def __init__(
        self,
        features: Array | ActionSet | None = None,
        *,
        horizon: int | None,
        noise: float | None = None,
        reward_range: float | Array | None = None,
        replications: Sequence[int] | int | None = None,
        arms: int | None = None,
        dim: int | None = None,
        arrives: Any = None,
        disjoint: bool = False,
        sets: Sets | None = None,
        rewards: str = "gaussian",
        levels: Levels | ColumnLevels = None,
    ) -> None:
        self.rewards = checked_kind(rewards)
        self.disjoint = flag(disjoint, "disjoint")
        if disjoint and features is not None:
            raise InvalidValueError("disjoint models are for contexts that come with each round; leave features out")
        self._arrives: np.ndarray[Any, Any] | None = None
        self.contextual = features is None
        if sets is not None:
            one_of(sets, "sets", ("iid", "adversarial") if features is None else ("fixed",))
        self.sets: Sets | None = sets if features is None else "fixed"
        if features is None:
            self.arms = integer(arms, "arms", meaning="the largest number of arms in a round")
            self.dim = integer(dim, "dim", meaning="the number of features")
            self.single = replications is None
            count = 1 if replications is None else len(check_replications(replications))
            self.reference: Array = np.zeros(count)
            if arrives is not None:
                raise InvalidValueError("arrives is for fixed arms; here arms are given in each round: ask(features)")
        else:
            if dim is not None:
                raise InvalidValueError("dim is that of the features given; leave it out")
            self._actions = features if isinstance(features, ActionSet) else ActionSet(features)
            if arms is not None or arrives is not None:
                self._actions, self._arrives = _growing(self._actions, arms, arrives)
                self.sets = "growing"
            self.arms, self.dim, self.single = self._actions.arms, self._actions.dim, self._actions.single
            self.reference, count = self._actions.base, self._actions.replications
        named = None if levels is None or isinstance(levels, ColumnLevels) else ColumnLevels.of(levels, self.dim)
        self.column_levels = levels if isinstance(levels, ColumnLevels) else named  # by level
        self._horizon = None if horizon is None else rounds(horizon)
        meaning = "the sub-Gaussian scale of the reward noise, e.g. 0.1, or None if unknown"
        self._noise = None if noise is None else positive(noise, "noise", meaning)
        self.replications = check_replications(range(count) if replications is None else replications)
        if len(self.replications) != count:
            raise InvalidValueError(
                f"features hold {count} replications, but {len(self.replications)} numbers were given"
            )
        self.reward_range = None if reward_range is None else _check_range(reward_range, count)

    @property
    def horizon(self) -> int:
        """Number of rounds T; a `ValueError` where there is no end."""
        if self._horizon is None:
            raise InvalidValueError(
                "horizon is None, but this policy needs the number of rounds: give Problem(horizon=...), or use one "
                "that needs none, such as adadim.recommended(problem)"
            )
        return self._horizon

    @property
    def endless(self) -> bool:
        """Whether there is no last round."""
        return self._horizon is None

    @property
    def draws_at_once(self) -> int:
        """How many random numbers per replication to make beforehand, on devices that need them beforehand."""
        return 1024 if self._horizon is None else self._horizon  # results do not depend on it

    @property
    def noise(self) -> float:
        """Sub-Gaussian scale sigma of the noise; a `ValueError` if it is unknown."""
        noise = KINDS[self.rewards].noise if self._noise is None else self._noise
        if noise is None:
            raise InvalidValueError(
                "noise is None, but this policy needs the scale of the reward noise: give Problem(noise=...), e.g. the "
                "standard deviation of one arm's rewards, or use adadim.recommended(problem), which estimates it"
            )
        return noise

    @property
    def noise_known(self) -> bool:
        """Whether the scale of the noise is known."""
        return self._noise is not None or KINDS[self.rewards].noise is not None

    @property
    def actions(self) -> ActionSet:
        """The arms, where they stay the same from round to round."""
        if self.contextual:
            raise InvalidValueError("a contextual problem has no fixed arms: its features come with each round")
        return self._actions

    @property
    def levels(self) -> dict[str, int] | None:
        """Names of the levels, each with the number of leading features up to its end; None if it has none."""
        return None if self.column_levels is None else dict(self.column_levels.ends)

    @property
    def growing(self) -> bool:
        """Whether arms arrive while it is played."""
        return self._arrives is not None

    @property
    def arrives(self) -> np.ndarray[Any, Any]:
        """Round from which on each arm is there, (R, K); arms not added yet have `NEVER_ARRIVES`."""
        if self._arrives is None:
            return np.ones((len(self), self.arms), dtype=np.int64)
        return self._arrives

    @property
    def on_host(self) -> bool:
        """Whether the data are NumPy's."""
        return is_numpy(self.reference)

    @property
    def first_arms(self) -> np.ndarray[Any, Any] | None:
        """Which rows of the features are there from the start, (R, K_0); None if all are."""
        return None if self._arrives is None else self._arrives[:, : self.actions.base_arms] == 1

    def with_writable_arms(self) -> Problem:
        """A copy with writable features, to which arms can be added; the same problem if it has no room for more."""
        if self._arrives is None or (self._arrives < NEVER_ARRIVES).all():
            return self
        changed = copy.copy(self)
        changed._actions = self.actions.with_base(copied(self.actions.base, order="K"))
        return changed

    to_grow = renamed_method("to_grow", "with_writable_arms")

    def with_actions(
        self, actions: ActionSet, replications: Sequence[int], reward_range: Any, arrives: Any = None
    ) -> Problem:
        """The same problem on other arms."""
        changed = copy.copy(self)
        changed._actions, changed.reference, changed.single = actions, actions.base, actions.single
        if actions.dim != changed.dim:
            changed.column_levels = None
        changed.arms, changed.dim = actions.arms, actions.dim
        changed.replications, changed.reward_range = tuple(replications), reward_range
        changed._arrives = self._arrives if arrives is None else arrives
        return changed

    @property
    def xp(self) -> Any:
        """Array namespace of the problem."""
        return namespace(self.reference)

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the features, where they came as a table of pandas or polars."""
        return None if self.contextual else self._actions.names

    def __len__(self) -> int:
        return len(self.replications)

    def _repr_html_(self) -> str:
        return html_table("Problem", self.html_rows())

    def html_rows(self) -> dict[str, Any]:
        """Sizes and what is known of the problem, by name, as rows for `html_table`."""
        return {
            "arms K": f"up to {self.arms} in each round" if self.contextual else self.arms,
            "features d": self.dim,
            "named": None if self.names is None else ", ".join(self.names),
            "levels": None if self.levels is None else ", ".join(self.levels),
            "rounds T": "no end" if self.endless else self.horizon,
            "noise": "unknown" if self._noise is None else self._noise,
            "rewards": KINDS[self.rewards].values,
            "range of rewards": "unknown" if self.reward_range is None else "known",
            "replications": None if self.single else len(self),
        }

    def __repr__(self) -> str:
        arms = f"{len(self)} x up to {self.arms} arms, dim={self.dim}" if self.contextual else repr(self.actions)
        return (
            f"Problem({arms}, horizon={self._horizon}, noise={self._noise}, "
            f"reward_range={'known' if self.reward_range is not None else None})"
        )

    def to(self, device: str) -> Problem:
        """The same problem for torch tensors on a device ("cpu", "cuda", "cuda:1"); learners compute there.

        Examples
        --------
        >>> problem = Problem(arms=3, dim=2, horizon=10, noise=0.1).to("cpu")
        >>> type(problem.reference).__name__
        'Tensor'
        """
        if not self.contextual:
            return self.with_actions(self.actions.to(device), self.replications, self.reward_range)
        moved = copy.copy(self)
        moved.reference = to_torch(self.reference, device)
        return moved

    def with_noise(self, noise: float) -> Problem:
        """The same problem with another scale of the noise."""
        changed = copy.copy(self)
        changed._noise = noise
        return changed

    def with_rewards(self, kind: str) -> Problem:
        """The same problem with rewards of another kind."""
        if kind == self.rewards:
            return self
        changed = copy.copy(self)
        changed.rewards = checked_kind(kind)
        return changed

    def with_levels(self, levels: Levels) -> Problem:
        """The same problem with these levels, or with none.

        Examples
        --------
        >>> Problem(arms=3, dim=5, horizon=10).with_levels({"price": 2}).levels
        {'price': 2}
        """
        changed = copy.copy(self)
        changed.column_levels = None if levels is None else ColumnLevels.of(levels, self.dim)
        return changed

    def with_horizon(self, horizon: int) -> Problem:
        """The same problem over another number of rounds."""
        changed = copy.copy(self)
        changed._horizon = rounds(horizon)
        return changed


def _growing(actions: ActionSet, arms: int | None, arrives: Any) -> tuple[ActionSet, np.ndarray[Any, Any]]:
    """The action set with room for `arms` arms, and the round (R, K) from which on each is there."""
    count, rows, levels = actions.replications, actions.base_arms, len(actions.levels)
    if arrives is None:
        rounds = np.ones((count, rows), dtype=np.int64)
    else:
        rounds = np.asarray(as_numpy(arrives))
        shaped = rounds.shape in ((rows,), (count, rows)) and rounds.dtype.kind in "iu"
        wanted = f"say from which round on each of the {rows} arms is there, 1 or later: integers of shape ({rows},) or"
        require(shaped and bool((rounds >= 1).all()), "arrives", f"{wanted} ({count}, {rows})", arrives)
        rounds = np.broadcast_to(rounds, (count, rows)).astype(np.int64)
        if not (rounds == 1).any(axis=1).all():
            raise InvalidValueError("arrives leaves no arm to choose in round 1; let at least one arrive in round 1")
    if arms is not None:
        if actions.expressive:
            raise InvalidValueError("arms is for arms to be added, which an expressive set does not take; leave it out")
        room = integer(arms, "arms", least=rows, meaning="the number of arms in the end") - rows
        actions = actions.with_room(room)
        rounds = np.concatenate([rounds, np.full((count, room), NEVER_ARRIVES)], axis=1)
    return actions, read_only(np.tile(rounds, (1, levels)))


def _check_range(reward_range: float | Array, count: int) -> np.ndarray[Any, Any]:
    ranges = as_numpy(real_array(reward_range, "reward_range"))
    require(ranges.shape in ((), (count,)), "reward_range", f"be one number or have shape ({count},)", ranges.shape)
    values: np.ndarray[Any, Any] = read_only(np.broadcast_to(ranges, (count,)))
    possible = bool(np.isfinite(values).all() and (values >= 0).all())
    require(possible, "reward_range", "be finite and non-negative", reward_range)
    return values
