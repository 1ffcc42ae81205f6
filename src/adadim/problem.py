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
from adadim.checks import integer, one_of, positive
from adadim.errors import InvalidValueError
from adadim.notebook import card
from adadim.randomness import Draws, Purpose, Streams, check_replications

__all__ = ["Instance", "Problem"]

Rewards = Literal["gaussian", "bernoulli"]


@unchanging
class Problem:
    """A linear bandit problem as a policy sees it.

    Parameters
    ----------
    features : array (K, d), array (R, K, d), DataFrame or ActionSet, optional
        Features of the arms, most basic first; R > 1 for independent replications in lock step. A DataFrame of pandas
        or polars keeps the names of its columns. Without it the problem is a contextual one: features come with each
        round, and `arms` and `dim` say how many there are.
    horizon : int
        Number of rounds T.
    noise : float, optional
        Sub-Gaussian scale sigma of the noise (its standard deviation if Gaussian; 0.5 for rewards in [0, 1]). Without
        it, policies that need it refuse to start; the one of `adadim.recommended` estimates it.
    reward_range : float or array (R,), optional
        Difference between the largest and the smallest mean reward, if known.
    replications : sequence of int, optional
        Replication numbers, which key the random streams; ``range(R)`` by default.
    arms, dim : int, optional
        Of a contextual problem: the largest number of arms K in a round, and the number of features d.

    Examples
    --------
    >>> import numpy as np
    >>> problem = Problem(np.eye(3), horizon=100, noise=0.1)
    >>> problem.arms, problem.dim, problem.horizon
    (3, 3, 100)
    >>> Problem(arms=20, dim=50, horizon=1000, noise=0.1).contextual
    True
    """

    def __init__(
        self,
        features: Array | ActionSet | None = None,
        *,
        horizon: int,
        noise: float | None = None,
        reward_range: float | Array | None = None,
        replications: Sequence[int] | None = None,
        arms: int | None = None,
        dim: int | None = None,
    ) -> None:
        self.contextual = features is None
        if features is None:
            self.arms = integer(arms, "arms", meaning="the largest number of arms in a round")
            self.dim = integer(dim, "dim", meaning="the number of features")
            self.single = replications is None
            count = 1 if replications is None else len(check_replications(replications))
            self.reference: Array = np.zeros(count)
        else:
            if arms is not None or dim is not None:
                raise InvalidValueError("arms and dim are those of the features given; leave them out")
            self._actions = features if isinstance(features, ActionSet) else ActionSet(features)
            self.arms, self.dim, self.single = self._actions.arms, self._actions.dim, self._actions.single
            self.reference, count = self._actions.base, self._actions.replications
        self.horizon = integer(horizon, "horizon", meaning="the number of rounds")
        meaning = "the sub-Gaussian scale of the reward noise, e.g. 0.1, or None if unknown"
        self._noise = None if noise is None else positive(noise, "noise", meaning)
        self.replications = check_replications(range(count) if replications is None else replications)
        if len(self.replications) != count:
            raise InvalidValueError(
                f"features hold {count} replications, but {len(self.replications)} numbers were given"
            )
        self.reward_range = None if reward_range is None else _check_range(reward_range, count)

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

    def with_actions(self, actions: ActionSet, replications: Sequence[int], reward_range: Any) -> Problem:
        """The same problem on other arms."""
        changed = copy.copy(self)
        changed._actions, changed.reference, changed.single = actions, actions.base, actions.single
        changed.replications, changed.reward_range = tuple(replications), reward_range
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
            "rounds T": self.horizon,
            "noise": "unknown" if self._noise is None else self._noise,
            "range of rewards": "unknown" if self.reward_range is None else "known",
            "replications": None if self.single else len(self),
        }

    def __repr__(self) -> str:
        arms = f"{len(self)} x up to {self.arms} arms, dim={self.dim}" if self.contextual else repr(self.actions)
        return (
            f"Problem({arms}, horizon={self.horizon}, noise={self._noise}, "
            f"reward_range={'known' if self.reward_range is not None else None})"
        )

    def with_horizon(self, horizon: int) -> Problem:
        """The same problem over another number of rounds."""
        changed = copy.copy(self)
        changed.horizon = integer(horizon, "horizon", meaning="the number of rounds")
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
        self.problem = Problem(actions, horizon=horizon, noise=noise, reward_range=known, replications=replications)

    def __repr__(self) -> str:
        return f"Instance({self.problem!r}, rewards={self.rewards!r})"

    def _repr_html_(self) -> str:
        matter = None
        if self.theta is not None:
            matter = int(np.flatnonzero(as_numpy(self.theta).any(axis=0)).max(initial=-1)) + 1
        best = float(as_numpy(self.best).mean())
        rest = {"rewards": self.rewards, "best mean reward": best, "features that matter": matter}
        return card("Instance", {**self.problem.in_short(), **rest})

    def to(self, device: str) -> Instance:
        """The same instance as torch tensors on a device ("cpu", "cuda", "cuda:1"); what learns on it computes there.

        Examples
        --------
        >>> import adadim
        >>> instance = adadim.instances.sphere(arms=20, dim=6, intrinsic_dim=2, horizon=50)
        >>> outcome = adadim.simulate(adadim.LinUCB(), instance.to("cpu"))
        """
        moved, problem = copy.copy(self), self.problem
        moved.problem = problem.with_actions(problem.actions.to(device), problem.replications, problem.reward_range)
        moved.means, moved.best = to_torch(self.means, device), to_torch(self.best, device)
        moved.theta = None if self.theta is None else to_torch(self.theta, device)
        moved.everyone = Rows.all(moved.means)
        return moved

    def joins(self, other: Instance) -> bool:
        """Whether the two differ in their replications alone: as many arms and rounds, the same law of noise."""
        one, two = self.problem, other.problem
        return (
            (one.arms, one.dim, one.horizon, one._noise) == (two.arms, two.dim, two.horizon, two._noise)
            and (one.actions.levels, one.actions.expressive) == (two.actions.levels, two.actions.expressive)
            and (one.reward_range is None) == (two.reward_range is None)
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
        )
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
