"""A problem together with its true means, which are hidden from the policy, and what the generators share."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np

from adadim import theory
from adadim.core.actions import ActionSet
from adadim.core.arrays import (
    Array,
    FloatArray,
    as_numpy,
    copied,
    device_of,
    is_array,
    like,
    namespace,
    read_only,
    real_array,
    same_device,
    to_torch,
)
from adadim.core.checks import check_fits, flag, integer, is_integer, is_number, one_of, require, rounds
from adadim.core.deprecated import renamed_attribute
from adadim.core.display import html_table
from adadim.core.problem import Problem
from adadim.core.randomness import Draws, Purpose, Streams, check_replications
from adadim.core.rows import Replications
from adadim.errors import InvalidValueError
from adadim.instances.delay import Delay, DelayLike, as_delay

RewardName = Literal["gaussian", "bernoulli"]
Theta = Literal["uniform", "decay", "flip", "spike", "heavy"]
CLICK_NOISE = 0.5  # sub-Gaussian scale of a reward in [0, 1]


class Playable:
    """Base of instances with a known truth, whether their arms are the same in all rounds or not."""

    arrays: ClassVar[tuple[str, ...]] = ()  # attributes that go to a device; the first tells the library
    problem: Problem
    everyone: Replications
    delay: Delay | None

    def to(self, device: str) -> Self:
        """The same instance as torch tensors on a device ("cpu", "cuda", "cuda:1"); what learns on it computes there.

        Examples
        --------
        >>> import adadim
        >>> instance = adadim.instances.sphere(arms=20, dim=6, intrinsic_dim=2, horizon=50)
        >>> outcome = adadim.simulate(adadim.LinUCB(), instance.to("cpu"))
        """
        moved = copy.copy(self)
        moved.problem = self.problem.to(device)
        for name in self.arrays:
            array = getattr(self, name)
            setattr(moved, name, None if array is None else to_torch(array, device))
        moved.everyone = Replications.all(getattr(moved, self.arrays[0]))
        return moved

    def noise_streams(self, seed: int) -> Streams:
        """Reward noise of every replication; the same for every policy that meets this instance."""
        return Streams(seed, Purpose.NOISE, self.problem.replications, reference=self.problem.reference)

    def drawn_rewards(self, mean: Array, draws: Draws, rows: Replications, clicks: bool) -> Array:
        """Rewards of these means, in each replication of `rows`: clicks, 1 or 0, or with Gaussian noise."""
        if clicks:
            return namespace(mean).astype(like(draws.uniforms(rows), mean) < mean, mean.dtype)
        return mean + self.problem.noise * like(draws.normals(rows), mean)


class Instance(Playable):
    """A problem together with its mean rewards and the distribution of its noise.

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
        Range of the means that is given to the policy; by default the truth, as in the paper's experiments.
    arrives : int array (K,) or (R, K), optional
        As in `Problem`. Regret is against the best arm there is in each round.
    slack : float
        How much better than the best arm of round 1 an arm that arrives later may be. By default not at all, which is
        the second condition of the paper's remark on growing sets; no policy can check it. ``math.inf`` for any.
    delay : Delay, int or table, optional
        How many rounds a reward takes to come, see `adadim.instances.Delay`; by default it comes at once.

    Attributes
    ----------
    problem : Problem
        What the policy may know.
    means, best, theta : array (R, K), array (R,), array (R, d) or None
        Mean reward of every arm, the largest of them, and the reward parameter, where there is one.
    arrival_gain : array (R,)
        How much better the best arm of all is than the best of round 1; 0 if no arm arrives later.

    Examples
    --------
    >>> import numpy as np
    >>> instance = Instance(np.eye(2), theta=[0.2, 0.9], horizon=50, noise=0.1)
    >>> instance.best
    array([0.9])
    """

    arrays = ("means", "best", "theta")

    def __init__(
        self,
        features: Array | ActionSet,
        *,
        theta: Array | None = None,
        means: Array | None = None,
        horizon: int,
        noise: float | None = None,
        rewards: RewardName = "gaussian",
        reward_range: float | Array | Literal["true", "unknown"] = "true",
        replications: Sequence[int] | int | None = None,
        arrives: Any = None,
        slack: float = 0.0,
        delay: DelayLike = None,
    ) -> None:
        self.delay = as_delay(delay)
        actions = features if isinstance(features, ActionSet) else ActionSet(features)
        one_of(rewards, "rewards", ("gaussian", "bernoulli"))
        if (theta is None) == (means is None):
            raise InvalidValueError("give exactly one of theta (linear rewards) and means (any rewards)")
        if noise is None:
            if rewards == "gaussian":
                raise InvalidValueError(
                    "noise is needed for Gaussian rewards: their standard deviation, e.g. noise=0.1"
                )
            noise = CLICK_NOISE
        self.rewards = rewards
        self.theta = None if theta is None else _check_rows(theta, "theta", actions, actions.dim)
        self.means = (
            _check_rows(means, "means", actions, actions.arms) if theta is None else actions.project(self.theta)
        )
        read_only(self.means)
        xp = actions.xp
        if rewards == "bernoulli":
            low, high = float(xp.min(self.means)), float(xp.max(self.means))
            if low < 0 or high > 1:
                raise InvalidValueError(
                    f"Bernoulli rewards need means in [0, 1], but they range from {low:.6g} to {high:.6g}"
                )
        self.best = read_only(xp.max(self.means, axis=-1))
        self.everyone = Replications.all(self.means)
        ranges: float | Array | None = reward_range
        if isinstance(reward_range, str):
            allowed = reward_range in ("true", "unknown")
            require(allowed, "reward_range", "be 'true', 'unknown' or a number", reward_range)
            ranges = as_numpy(self.best - xp.min(self.means, axis=-1)) if reward_range == "true" else None
        horizon = rounds(horizon)  # to be played, it needs an end
        self.problem = Problem(
            actions, horizon=horizon, noise=noise, reward_range=ranges, replications=replications, arrives=arrives
        )
        self.arrival_gain = self._check_arrivals(slack)

    late = renamed_attribute("late", "arrival_gain")

    def __repr__(self) -> str:
        return f"Instance({self.problem!r}, rewards={self.rewards!r})"

    def _repr_html_(self) -> str:
        truth = {"rewards": self.rewards, "best mean reward": float(as_numpy(self.best).mean())}
        if self.theta is not None:
            last = int(np.flatnonzero(as_numpy(self.theta).any(axis=0)).max(initial=-1))
            truth["features that matter"] = last + 1
        return html_table("Instance", {**self.problem.html_rows(), **truth, "delay": self.delay})

    def _check_arrivals(self, slack: float) -> np.ndarray[Any, Any]:
        """How much better the best arm is than the best of round 1; an error if by more than `slack`."""
        means, arrives = as_numpy(self.means), self.problem.arrives
        arriving = np.where(arrives <= self.problem.horizon, means, -np.inf)
        gain: np.ndarray[Any, Any] = arriving.max(axis=1) - np.where(arrives == 1, means, -np.inf).max(axis=1)
        require(is_number(slack) and slack >= 0, "slack", "be a number of at least 0, or math.inf", slack)
        if (gain > slack).any():
            r = int(gain.argmax())
            arm = int(arriving[r].argmax())
            raise InvalidValueError(
                f"an arm that arrives later is better by {gain[r]:.4g} than all that are there at first (arm {arm}, "
                f"from round {arrives[r, arm]} on, replication {self.problem.replications[r]}), against the second "
                "condition of growing sets; pass slack=math.inf if that is wanted"
            )
        return gain

    def unreachable(self) -> np.ndarray[Any, Any]:
        """Sum over rounds 1..t of how much the best arm of all beats the best one present, (R, T + 1), t from 0."""
        horizon, means = self.problem.horizon, as_numpy(self.means)
        sums = np.zeros((len(means), horizon + 1))
        for row, mean, arrives in zip(sums, means, self.problem.arrives, strict=True):
            best = np.full(horizon + 1, -np.inf)
            arriving = arrives <= horizon
            np.maximum.at(best, arrives[arriving], mean[arriving])
            row[1:] = np.cumsum(mean.max() - np.maximum.accumulate(best)[1:])
        return sums

    def joins(self, other: Instance) -> bool:
        """Whether the two differ in their replications alone: the same sizes, the same laws of noise and delay."""
        one, two = self.problem, other.problem
        return (
            (one.arms, one.dim, one.horizon, one.noise) == (two.arms, two.dim, two.horizon, two.noise)
            and (one.actions.levels, one.actions.expressive) == (two.actions.levels, two.actions.expressive)
            and (one.reward_range is None, one.growing) == (two.reward_range is None, two.growing)
            and (self.rewards, self.delay) == (other.rewards, other.delay)
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
        joined = copy.copy(first)
        for name in first.arrays:
            arrays = [getattr(part, name) for part in parts]
            setattr(joined, name, None if any(a is None for a in arrays) else first.problem.xp.concat(arrays))
        joined.everyone = Replications.all(joined.means)
        problems = [part.problem for part in parts]
        joined.problem = first.problem.with_actions(
            ActionSet.join([problem.actions for problem in problems]),
            [r for problem in problems for r in problem.replications],
            None if first.problem.reward_range is None else np.concatenate([p.reward_range for p in problems]),
            np.concatenate([problem.arrives for problem in problems]) if first.problem.growing else None,
        )
        joined.arrival_gain = np.concatenate([part.arrival_gain for part in parts])
        return joined

    def environment(self, seed: int, *, keeps_offers: bool = False) -> FixedEnvironment:
        """The environment of a run; the same arms are offered in every round, so `keeps_offers` does nothing."""
        return FixedEnvironment(self, seed)

    def pull(self, arms: Array, draws: Draws, rows: Replications | None = None) -> Array:
        """Rewards of one round, one arm for each replication in `rows` (by default all)."""
        rows = self.everyone if rows is None else rows
        return self.drawn_rewards(rows.at(self.means, arms), draws, rows, self.rewards == "bernoulli")


class FixedEnvironment:
    """The rounds of a run, each with the same arms."""

    in_turns = True  # replications may be played one after the other

    def __init__(self, instance: Instance, seed: int) -> None:
        self.instance, self.gaps = instance, instance.best[:, None] - instance.means
        self.clicks = instance.rewards == "bernoulli"
        self.noise = instance.noise_streams(seed).source(instance.problem.horizon, normal=not self.clicks)

    def next_round(self) -> None:
        """Do nothing: no round differs from the one before."""

    def offer(self, rows: Replications) -> Replications:
        """The same rows: the arms are those of the problem."""
        return rows

    def pull(self, arms: Array, rows: Replications) -> Array:
        """Rewards of the arms chosen."""
        return self.instance.drawn_rewards(rows.at(self.instance.means, arms), self.noise, rows, self.clicks)

    def regret(self, arms: Array, rows: Replications) -> Array:
        """How much better the best arm of all is."""
        return rows.at(self.gaps, arms)


def _check_rows(values: Array, name: str, actions: ActionSet, width: int) -> Array:
    """`values` as (R, width) floats in the library of the actions; a single row serves every replication."""
    real, count, reference = real_array(values, name), actions.replications, actions.base
    xp = namespace(reference, real) if is_array(values) else namespace(reference)
    array = like(real, reference)
    if array.ndim == 1:
        array = array[None]
    if tuple(array.shape) not in ((1, width), (count, width)):
        raise InvalidValueError(f"{name} must have shape ({width},) or ({count}, {width}), got {tuple(array.shape)}")
    if not bool(xp.all(xp.isfinite(array))):
        raise InvalidValueError(f"{name} must be finite, but has a NaN or infinite entry")
    if not same_device(array, reference):
        raise InvalidValueError(f"{name} is on {device_of(array)}, but the features are on {device_of(reference)}")
    full = xp.broadcast_to(array, (count, width))
    return read_only(copied(full))


def parameter(shape: Theta, intrinsic_dim: int, dim: int) -> FloatArray:
    """Reward parameter of norm 1, zero after its first `intrinsic_dim` entries.

    "uniform" has equal entries, "decay" entries proportional to 1/sqrt(j), "flip" those in reverse order, "spike" a
    single one at position `intrinsic_dim`, and "heavy" entries proportional to 1/j: with ``intrinsic_dim=dim`` a tail
    that no truncation gets rid of, while the first features say most.

    Examples
    --------
    >>> parameter("spike", 2, 4)
    array([0., 1., 0., 0.])
    """
    check_fits(16 * integer(dim, "dim"), dim=dim)
    integer(intrinsic_dim, "intrinsic_dim", most=dim, meaning="the number of features")
    index = np.arange(1, intrinsic_dim + 1)
    shapes = {
        "uniform": np.ones(intrinsic_dim),
        "decay": 1 / np.sqrt(index),
        "flip": 1 / np.sqrt(index[::-1]),
        "spike": (index == intrinsic_dim).astype(float),
        "heavy": 1 / index,
    }
    is_shape = isinstance(shape, str) and shape in shapes
    require(is_shape, "theta", f"be one of {', '.join(map(repr, shapes))}", shape)
    vector = np.zeros(dim)
    vector[:intrinsic_dim] = shapes[shape] / np.linalg.norm(shapes[shape])
    return vector


def with_base_rate(shape: Theta, intrinsic_dim: int, dim: int) -> FloatArray:
    """Parameter of clicks: 1/sqrt(2) for the constant feature, and `parameter` for the others, divided by sqrt(2)."""
    check_beyond_constant(intrinsic_dim, dim)
    return np.concatenate([[1 / math.sqrt(2)], parameter(shape, intrinsic_dim - 1, dim - 1) / math.sqrt(2)])


def check_beyond_constant(intrinsic_dim: int, dim: int) -> None:
    """Raise unless more features matter than the constant, the first."""
    ok = is_integer(intrinsic_dim) and 2 <= intrinsic_dim <= dim
    require(ok, "intrinsic_dim", f"be in 2..{dim} (the constant counts)", intrinsic_dim)


def expressive_levels(horizon: int, dim: int, beta: float = 0.5) -> list[int]:
    """Truncation levels of the paper's expressive experiments: 8, 16, ... as far as LinUCB++ uses them, then d.

    Examples
    --------
    >>> expressive_levels(2500, 400)
    [8, 16, 32, 64, 128, 400]
    """
    top = min(theory.schedule(horizon, beta, dim).p + 1, int(math.log2(dim)))
    return sorted({2**j for j in range(3, top + 1)} | {dim})


def closure_levels(expressive: bool, levels: Sequence[int] | None, horizon: int, dim: int) -> Sequence[int] | None:
    """Truncation levels of an expressive set, by default the paper's; None if it is not to be one."""
    if flag(expressive, "expressive"):
        return expressive_levels(rounds(horizon), dim) if levels is None else levels
    if levels is not None:
        raise InvalidValueError("levels are the truncation levels of an expressive set: pass expressive=True with them")
    return None


def linear_instance(
    base: FloatArray,
    vector: FloatArray,
    horizon: int,
    noise: float,
    replications: Sequence[int],
    delay: DelayLike = None,
    *,
    expressive: bool = False,
    levels: Sequence[int] | None = None,
    **more: Any,
) -> Instance:
    """Instance with the rows of `base` as arms, closed under truncation if asked for, and `vector` as theta."""
    actions = ActionSet(base, levels=closure_levels(expressive, levels, horizon, base.shape[-1]))
    more |= {"horizon": horizon, "noise": noise, "replications": replications, "delay": delay}
    return Instance(actions, theta=vector, **more)


def generators(seed: int, replications: Sequence[int]) -> list[np.random.Generator]:
    """The random generator that draws the instance of each replication."""
    return Streams(seed, Purpose.INSTANCE, replications).generators


def check_sizes(replications: Sequence[int] | int, **sizes: int) -> tuple[int, ...]:
    """Return the replication numbers as ints, or say which size or number is wrong."""
    sizes = {name: integer(value, name) for name, value in sizes.items()}  # NumPy's small ones would overflow
    numbers = check_replications(replications)
    # Features are drawn, then copied feature by feature; besides, generators keep something for each feature.
    cells = len(numbers) * sizes.get("arms", 1) * sizes.get("dim", 1)
    drawn = sizes.get("variables", 1) * (sizes.get("arms", 1) + sizes.get("dim", 1))
    check_fits(16 * cells + 8 * drawn + (200 * sizes.get("dim", 1) if len(sizes) > 2 else 0), **sizes)
    return numbers
