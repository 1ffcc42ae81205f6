"""What a policy may know (`Problem`), and the hidden truth behind it (`Instance`)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from adadim.actions import ActionSet
from adadim.backend.arrays import (
    Array,
    as_numpy,
    device_of,
    is_array,
    is_numpy,
    like,
    namespace,
    read_only,
    real_array,
    to_torch,
)
from adadim.backend.rows import Rows
from adadim.backend.state import unchanging
from adadim.checks import flag, integer, is_number, one_of, positive, shown
from adadim.errors import InvalidValueError
from adadim.notebook import card
from adadim.randomness import Draws, Purpose, Streams, check_replications

__all__ = ["NEVER", "Instance", "Problem", "Sets"]

NEVER = 2**62  # round in which arms arrive that nobody has added
ENDLESS_DRAWS = 1024  # part of no result, since a stream's order does not depend on it

Rewards = Literal["gaussian", "bernoulli"]
Sets = Literal["fixed", "growing", "iid", "adversarial"]


@unchanging
class Problem:
    """A linear bandit problem as a policy sees it.

    Parameters
    ----------
    features : array (K, d), array (R, K, d), DataFrame or ActionSet, optional
        Features of the arms, most basic first; R > 1 for independent replications in lock step. A DataFrame of pandas
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
    replications : sequence of int, optional
        Replication numbers, which key the random streams; ``range(R)`` by default.
    arms, dim : int, optional
        Of a contextual problem: the largest number of arms K in a round, and the number of features d. With `features`,
        `arms` is the number of arms that there may be in the end, for those that `Learner.add_arms` adds.
    disjoint : bool
        Of a contextual problem: a round brings one context of `dim` covariates for all arms, and each arm has a
        parameter of its own. `LinUCB`, `Greedy` and `Random` play it; for others multiply arms and covariates out
        (`adadim.interactions`).
    arrives : int array (K,) or (R, K), optional
        Round from which on each arm is there, 1 for those there from the start: sets of arms that only grow. Arms of an
        expressive set arrive with their truncations.
    sets : {"iid", "adversarial"}, optional
        Of a contextual problem: how the features of a round come about, if known. "iid": drawn from one law,
        independently of the past. "adversarial": in any way. A policy whose guarantee needs more than that warns when
        it starts. Sets that are given are "fixed", or "growing" if arms arrive.

    Attributes
    ----------
    sets : str or None
        "fixed", "growing", "iid" or "adversarial"; None if nobody has said.

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
        replications: Sequence[int] | None = None,
        arms: int | None = None,
        dim: int | None = None,
        arrives: Any = None,
        disjoint: bool = False,
        sets: Sets | None = None,
    ) -> None:
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
                raise InvalidValueError("arrives is for arms that stay; here they come with each round: ask(features)")
        else:
            if dim is not None:
                raise InvalidValueError("dim is that of the features given; leave it out")
            self._actions = features if isinstance(features, ActionSet) else ActionSet(features)
            if arms is not None or arrives is not None:
                self._actions, self._arrives = _growing(self._actions, arms, arrives)
                self.sets = "growing"
            self.arms, self.dim, self.single = self._actions.arms, self._actions.dim, self._actions.single
            self.reference, count = self._actions.base, self._actions.replications
        self._horizon = None if horizon is None else integer(horizon, "horizon", meaning="the number of rounds")
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
                "that needs none, such as LinUCB, LinTS, TaperedLinUCB or adadim.recommended(problem)"
            )
        return self._horizon

    @property
    def endless(self) -> bool:
        """Whether there is no last round."""
        return self._horizon is None

    @property
    def draws_at_once(self) -> int:
        """How many random numbers to make beforehand for each replication, where they are made beforehand."""
        return ENDLESS_DRAWS if self._horizon is None else self._horizon

    @property
    def noise(self) -> float:
        """Sub-Gaussian scale sigma of the noise; a `ValueError` if nobody has said what it is."""
        if self._noise is None:
            raise InvalidValueError(
                "noise is None, but this policy needs the scale of the reward noise: give Problem(noise=...), e.g. the "
                "standard deviation of one arm's rewards, or use adadim.recommended(problem), which estimates it"
            )
        return self._noise

    @property
    def noise_known(self) -> bool:
        """Whether somebody has said what the noise is."""
        return self._noise is not None

    @property
    def actions(self) -> ActionSet:
        """The arms, where they stay the same from round to round."""
        if self.contextual:
            raise InvalidValueError("a contextual problem has no fixed arms: its features come with each round")
        return self._actions

    @property
    def growing(self) -> bool:
        """Whether arms arrive while it is played."""
        return self._arrives is not None

    @property
    def arrives(self) -> np.ndarray[Any, Any]:
        """Round from which on each arm is there, (R, K); arms that nobody has added yet never arrive."""
        if self._arrives is None:
            return np.ones((len(self), self.arms), dtype=np.int64)
        return self._arrives

    @property
    def first_arms(self) -> np.ndarray[Any, Any] | None:
        """Which rows of the features are there from the start, (R, K_0); None if all are."""
        return None if self._arrives is None else self._arrives[:, : self.actions.base_arms] == 1

    def to_grow(self) -> Problem:
        """The same problem with features of its own, to which arms can be added; itself if none may be."""
        if self._arrives is None or (self._arrives < NEVER).all():
            return self
        own = copy.copy(self)
        base = self.actions.base
        own._actions = self.actions.with_base(base.copy(order="K") if is_numpy(base) else base.clone())
        return own

    def with_actions(
        self, actions: ActionSet, replications: Sequence[int], reward_range: Any, arrives: Any = None
    ) -> Problem:
        """The same problem on other arms."""
        changed = copy.copy(self)
        changed._actions, changed.reference, changed.single = actions, actions.base, actions.single
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
        return card("Problem", self.in_short())

    def in_short(self) -> dict[str, Any]:
        """Sizes and what is known, by name."""
        return {
            "arms K": f"up to {self.arms} in each round" if self.contextual else self.arms,
            "features d": self.dim,
            "named": None if self.names is None else ", ".join(self.names),
            "rounds T": "no end" if self.endless else self.horizon,
            "noise": "unknown" if self._noise is None else self._noise,
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

    def with_horizon(self, horizon: int) -> Problem:
        """The same problem over another number of rounds."""
        changed = copy.copy(self)
        changed._horizon = integer(horizon, "horizon", meaning="the number of rounds")
        return changed


class Instance:
    """A problem together with its mean rewards and the law of its noise.

    Parameters
    ----------
    features : array or ActionSet
        As in `Problem`.
    theta : array (d,) or (R, d), optional
        Reward parameter; the mean of an arm is its inner product with theta.
    means : array (K,) or (R, K), optional
        Mean reward of every arm, for rewards that are not linear in the features. Give `theta` or `means`.
    horizon, noise, replications
        As in `Problem`.
    rewards : {"gaussian", "bernoulli"}
        Gaussian rewards with standard deviation `noise`, or clicks: 1 with probability equal to the mean, else 0
        (`noise` is then 0.5, the sub-Gaussian scale of a click, unless given).
    reward_range : "true", "unknown", float or array (R,)
        What the policy is told about the range of the means; by default the truth, as in the paper's experiments.
    arrives : int array (K,) or (R, K), optional
        As in `Problem`. Regret is against the best arm there is in each round.
    slack : float
        How much better than the best arm of round 1 an arm that arrives later may be. By default not at all, which is
        the second condition of the paper's remark on growing sets; no policy can check it. ``math.inf`` for any.

    Attributes
    ----------
    problem : Problem
        What the policy may know.
    means : array (R, K)
        Mean reward of every arm.
    best : array (R,)
        Largest mean reward.
    theta : array (R, d) or None
        The reward parameter, where there is one.
    late : array (R,)
        How much better the best arm of all is than the best of round 1; 0 if no arm arrives later.

    Examples
    --------
    >>> import numpy as np
    >>> instance = Instance(np.eye(2), theta=[0.2, 0.9], horizon=50, noise=0.1)
    >>> instance.best
    array([0.9])
    """

    def __init__(
        self,
        features: Array | ActionSet,
        *,
        theta: Array | None = None,
        means: Array | None = None,
        horizon: int,
        noise: float | None = None,
        rewards: Rewards = "gaussian",
        reward_range: float | Array | Literal["true", "unknown"] = "true",
        replications: Sequence[int] | None = None,
        arrives: Any = None,
        slack: float = 0.0,
    ) -> None:
        actions = features if isinstance(features, ActionSet) else ActionSet(features)
        one_of(rewards, "rewards", ("gaussian", "bernoulli"))
        if (theta is None) == (means is None):
            raise InvalidValueError("give exactly one of theta (linear rewards) and means (any rewards)")
        if noise is None:
            if rewards == "gaussian":
                raise InvalidValueError(
                    "noise is needed for Gaussian rewards: their standard deviation, e.g. noise=0.1"
                )
            noise = 0.5
        self.rewards = rewards
        if theta is not None:
            self.theta = _check_rows(theta, "theta", actions.replications, actions.dim, actions.base)
            self.means = actions.project(self.theta)
        else:
            self.theta = None
            self.means = _check_rows(means, "means", actions.replications, actions.arms, actions.base)
        read_only(self.means)
        xp = actions.xp
        if rewards == "bernoulli":
            low, high = float(xp.min(self.means)), float(xp.max(self.means))
            if low < 0 or high > 1:
                raise InvalidValueError(
                    f"Bernoulli rewards need means in [0, 1], but they range from {low:.6g} to {high:.6g}"
                )
        self.best = read_only(xp.max(self.means, axis=-1))
        self.everyone = Rows.all(self.means)
        known: float | Array | None
        if isinstance(reward_range, str):
            if reward_range not in ("true", "unknown"):
                raise InvalidValueError(f"reward_range must be 'true', 'unknown' or a number, got {reward_range!r}")
            spread = as_numpy(self.best - xp.min(self.means, axis=-1))
            known = spread if reward_range == "true" else None
        else:
            known = reward_range
        horizon = integer(horizon, "horizon", meaning="the number of rounds")  # to be played, it needs an end
        self.problem = Problem(
            actions, horizon=horizon, noise=noise, reward_range=known, replications=replications, arrives=arrives
        )
        self.late = self._check_arrivals(slack)

    def __repr__(self) -> str:
        return f"Instance({self.problem!r}, rewards={self.rewards!r})"

    def _repr_html_(self) -> str:
        matter = None
        if self.theta is not None:
            matter = int(np.flatnonzero(as_numpy(self.theta).any(axis=0)).max(initial=-1)) + 1
        best = float(as_numpy(self.best).mean())
        rest = {"rewards": self.rewards, "best mean reward": best, "features that matter": matter}
        return card("Instance", {**self.problem.in_short(), **rest})

    def _check_arrivals(self, slack: float) -> np.ndarray[Any, Any]:
        """How much better the best arm is than the best of round 1; an error if by more than `slack`."""
        means, arrives = as_numpy(self.means), self.problem.arrives
        there = np.where(arrives <= self.problem.horizon, means, -np.inf)
        late: np.ndarray[Any, Any] = there.max(axis=1) - np.where(arrives == 1, means, -np.inf).max(axis=1)
        if not is_number(slack) or not slack >= 0:
            raise InvalidValueError(f"slack must be a number of at least 0, or math.inf, got {shown(slack)}")
        if (late > slack).any():
            r = int(late.argmax())
            arm = int(there[r].argmax())
            raise InvalidValueError(
                f"an arm that arrives later is better by {late[r]:.4g} than all that are there at first (arm {arm}, "
                f"from round {arrives[r, arm]} on, replication {self.problem.replications[r]}), against the second "
                "condition of growing sets; pass slack=math.inf if that is wanted"
            )
        return late

    def unreachable(self) -> np.ndarray[Any, Any]:
        """Sum over rounds 1..t of what the best arm of all is better than the best there is, (R, T + 1), t from 0."""
        horizon, means = self.problem.horizon, as_numpy(self.means)
        lost = np.zeros((len(means), horizon + 1))
        if self.problem.growing:
            for row, mean, arrives in zip(lost, means, self.problem.arrives, strict=True):
                best = np.full(horizon + 1, -np.inf)
                here = arrives <= horizon
                np.maximum.at(best, arrives[here], mean[here])
                row[1:] = np.cumsum(mean.max() - np.maximum.accumulate(best)[1:])
        return lost

    def to(self, device: str) -> Instance:
        """The same instance as torch tensors on a device ("cpu", "cuda", "cuda:1"); what learns on it computes there.

        Examples
        --------
        >>> import adadim
        >>> instance = adadim.instances.sphere(arms=20, dim=6, intrinsic_dim=2, horizon=50)
        >>> outcome = adadim.simulate(adadim.LinUCB(), instance.to("cpu"))
        """
        moved = copy.copy(self)
        moved.problem = self.problem.to(device)
        moved.means, moved.best = to_torch(self.means, device), to_torch(self.best, device)
        moved.theta = None if self.theta is None else to_torch(self.theta, device)
        moved.everyone = Rows.all(moved.means)
        return moved

    def joins(self, other: Instance) -> bool:
        """Whether the two differ in their replications alone: as many arms and rounds, the same law of noise."""
        one, two = self.problem, other.problem
        return (
            (one.arms, one.dim, one._horizon, one._noise) == (two.arms, two.dim, two._horizon, two._noise)
            and (one.actions.levels, one.actions.expressive) == (two.actions.levels, two.actions.expressive)
            and (one.reward_range is None, one.growing) == (two.reward_range is None, two.growing)
            and self.rewards == other.rewards
        )

    @staticmethod
    def join(parts: Sequence[Instance]) -> Instance:
        """The replications of several instances in one; a replication number may come up in more than one of them.

        Examples
        --------
        >>> from adadim.instances import sphere
        >>> easy, hard = (sphere(arms=20, dim=6, intrinsic_dim=m, horizon=50) for m in (1, 6))
        >>> Instance.join([easy, hard]).problem.replications
        (0, 0)
        """
        first = parts[0]
        if len(parts) == 1:
            return first
        for part in parts:
            if not part.joins(first):
                raise InvalidValueError(
                    f"instances must differ in their replications alone to be joined: {part} and {first}"
                )
        xp = first.problem.xp
        joined = copy.copy(first)
        joined.means, joined.best = (xp.concat([getattr(p, name) for p in parts]) for name in ("means", "best"))
        thetas = [part.theta for part in parts]
        joined.theta = None if any(theta is None for theta in thetas) else xp.concat(thetas)
        joined.everyone = Rows.all(joined.means)
        problems = [part.problem for part in parts]
        ranges = None
        if first.problem.reward_range is not None:
            ranges = np.concatenate([problem.reward_range for problem in problems])
        joined.problem = first.problem.with_actions(
            ActionSet.join([problem.actions for problem in problems]),
            [r for problem in problems for r in problem.replications],
            ranges,
            np.concatenate([problem.arrives for problem in problems]) if first.problem.growing else None,
        )
        joined.late = np.concatenate([part.late for part in parts])
        return joined

    def noise_streams(self, seed: int) -> Streams:
        """Reward noise of every replication; the same for every policy that meets this instance."""
        return Streams(seed, Purpose.NOISE, self.problem.replications, reference=self.means)

    def pull(self, arms: Array, draws: Draws, rows: Rows | None = None) -> Array:
        """Rewards of one round, one arm for each replication in `rows` (by default all)."""
        rows = self.everyone if rows is None else rows
        mean = rows.at(self.means, arms)
        if self.rewards == "bernoulli":
            clicked = like(draws.uniforms(rows), mean) < mean
            return namespace(mean).astype(clicked, mean.dtype)
        return mean + self.problem.noise * like(draws.normals(rows), mean)


def _growing(actions: ActionSet, arms: int | None, arrives: Any) -> tuple[ActionSet, np.ndarray[Any, Any]]:
    """The action set with room for `arms` arms, and the round (R, K) from which on each is there."""
    count, rows, levels = actions.replications, actions.base_arms, len(actions.levels)
    if arrives is None:
        rounds = np.ones((count, rows), dtype=np.int64)
    else:
        rounds = np.asarray(as_numpy(arrives))
        if rounds.shape not in ((rows,), (count, rows)) or rounds.dtype.kind not in "iu" or (rounds < 1).any():
            raise InvalidValueError(
                f"arrives must say from which round on each of the {rows} arms is there, 1 or later: integers of shape "
                f"({rows},) or ({count}, {rows}), got {shown(arrives)}"
            )
        rounds = np.broadcast_to(rounds, (count, rows)).astype(np.int64)
        if not (rounds == 1).any(axis=1).all():
            raise InvalidValueError("arrives leaves no arm to choose in round 1; let at least one arrive in round 1")
    if arms is not None:
        if actions.expressive:
            raise InvalidValueError("arms is for arms to be added, which an expressive set does not take; leave it out")
        room = integer(arms, "arms", least=rows, meaning="the number of arms in the end") - rows
        actions = actions.with_room(room)
        rounds = np.concatenate([rounds, np.full((count, room), NEVER)], axis=1)
    return actions, read_only(np.tile(rounds, (1, levels)))


def _check_range(reward_range: float | Array, count: int) -> np.ndarray[Any, Any]:
    given = as_numpy(real_array(reward_range, "reward_range"))
    if given.shape not in ((), (count,)):
        raise InvalidValueError(f"reward_range must be one number or have shape ({count},), got {given.shape}")
    values: np.ndarray[Any, Any] = read_only(np.broadcast_to(given, (count,)))
    if not np.isfinite(values).all() or (values < 0).any():
        raise InvalidValueError(f"reward_range must be finite and non-negative, got {reward_range!r}")
    return values


def _check_rows(values: Array, name: str, count: int, width: int, reference: Array) -> Array:
    """`values` as (count, width) floats in the library of `reference`; a single row serves every replication."""
    real = real_array(values, name)
    xp = namespace(reference, real) if is_array(values) else namespace(reference)
    array = like(real, reference)
    if array.ndim == 1:
        array = array[None]
    if tuple(array.shape) not in ((1, width), (count, width)):
        raise InvalidValueError(f"{name} must have shape ({width},) or ({count}, {width}), got {tuple(array.shape)}")
    if not bool(xp.all(xp.isfinite(array))):
        raise InvalidValueError(f"{name} must be finite, but has a NaN or infinite entry")
    if not is_numpy(array) and device_of(array) != device_of(reference):
        raise InvalidValueError(f"{name} is on {device_of(array)}, but the features are on {device_of(reference)}")
    full = xp.broadcast_to(array, (count, width))
    return read_only(full.copy()) if is_numpy(full) else full.contiguous()
