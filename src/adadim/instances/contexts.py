"""Features that come with each round: contextual problems with a known truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, get_args

import numpy as np

from adadim.core.arrays import Array, FloatArray, like, zeros
from adadim.core.checks import one_of, positive, rounds
from adadim.core.deprecated import renamed_attribute, renamed_parameter
from adadim.core.display import html_table
from adadim.core.problem import Problem
from adadim.core.randomness import Draws, Purpose, Streams
from adadim.core.rows import Replications
from adadim.instances.delay import DelayLike, as_delay
from adadim.instances.instance import CLICK_NOISE, Playable, RewardName, Theta, check_sizes, parameter, with_base_rate

Distribution = Literal["gaussian", "sphere", "bounded", "correlated", "repeated"]
DISTRIBUTIONS: tuple[Distribution, ...] = get_args(Distribution)

REPEATED = 8  # sets that a "repeated" instance has
CORRELATION = 0.7  # share of the variance that the arms of a round have in common


class ContextInstance(Playable):
    """A contextual problem, which the policy may know, with its parameter and the distribution of its features.

    The mean reward of an arm is the inner product of its features with `theta` (R, d), plus its entry of `biases` (R,
    K), where there are some. Rewards are `clicks`, 1 with a probability equal to the mean, else 0, or have Gaussian
    noise. The mean of the noise, `noise_mean`, is the same for all arms and so no part of the regret, but misleads a
    learner without an intercept. `delay` is how many rounds a reward takes to come, None if it comes at once.

    Examples
    --------
    >>> instance = contexts(arms=5, dim=8, intrinsic_dim=2, horizon=100)
    >>> instance.rounds().__next__().shape
    (1, 5, 8)
    """

    clicks = False
    arrays = ("theta", "biases")

    law = renamed_attribute("law", "distribution")

    @renamed_parameter("law", "distribution")
    def __init__(
        self,
        problem: Problem,
        theta: Array,
        distribution: str,
        seed: int,
        rewards: RewardName = "gaussian",
        delay: DelayLike = None,
        draw: Callable[[np.random.Generator], FloatArray] | None = None,
        biases: Array | None = None,
        noise_mean: float = 0.0,
    ) -> None:
        self.problem, self.theta, self.distribution, self.seed = problem, theta, distribution, seed
        self.draw, self.biases, self.noise_mean = draw, biases, noise_mean
        self.clicks, self.delay = one_of(rewards, "rewards", ("gaussian", "bernoulli")) == "bernoulli", as_delay(delay)
        self.everyone = Replications.all(theta)

    def __repr__(self) -> str:
        return f"ContextInstance({self.problem!r}, distribution={self.distribution!r})"

    def _repr_html_(self) -> str:
        return html_table(
            "ContextInstance",
            {**self.problem.html_rows(), "distribution of features": self.distribution, "delay": self.delay},
        )

    def rounds(self) -> Iterator[FloatArray]:
        """Features (R, K, d) of one round after the other; every call starts from the first."""
        streams = Streams(self.seed, Purpose.CONTEXT, self.problem.replications).generators
        by_replication = [self._rounds_of(generator) for generator in streams]
        while True:
            yield np.array([next(rounds) for rounds in by_replication])

    def _rounds_of(self, generator: np.random.Generator) -> Iterator[FloatArray]:
        """Features (K, d) of the rounds of one replication."""
        if self.draw is not None:
            while True:
                yield self.draw(generator)
        shape = (self.problem.arms, self.problem.dim)
        draw = _draw_click_features if self.clicks else draw_features
        # All distributions draw the sets of "repeated" first: what the streams give after them is part of all results,
        # and normal numbers cannot be skipped without drawing them.
        sets = [draw(generator, shape, "gaussian") for _ in range(REPEATED)]
        while self.distribution == "repeated":
            yield sets[generator.integers(REPEATED)]
        del sets
        while True:
            yield draw(generator, shape, self.distribution)

    def played(self) -> Iterator[tuple[Array, Array]]:
        """Features (R, K, d) and mean rewards (R, K) of one round after the other."""
        for drawn in self.rounds():
            features = like(drawn, self.theta)
            yield features, self.means(features)

    def environment(self, seed: int, *, keeps_offers: bool = False) -> ContextEnvironment:
        """The environment of a run; with `keeps_offers` later rounds do not overwrite what was offered in a round."""
        return ContextEnvironment(self, seed, keeps_offers)

    def joins(self, other: object) -> bool:
        """Whether the two can be played as one: never, since each draws its own rounds."""
        return False

    def means(self, features: Array) -> Array:
        """Mean reward of every arm of a round, (R, K), without the mean of the noise."""
        means = (features @ self.theta[:, :, None])[..., 0]
        return means if self.biases is None else means + self.biases

    def pull(self, means: Array, arms: Array, draws: Draws) -> Array:
        """Rewards of one round, one arm for each replication."""
        rewards = self.drawn_rewards(means[self.everyone.positions, arms], draws, self.everyone, self.clicks)
        return rewards + self.noise_mean if self.noise_mean else rewards


class ContextEnvironment:
    """The rounds of a run, drawn one after the other into the same arrays (which `Recorder` needs)."""

    in_turns = False  # all replications draw their rounds together

    def __init__(self, instance: ContextInstance, seed: int, keeps_offers: bool) -> None:
        problem = instance.problem
        self.instance, self.keeps_offers, self.xp = instance, keeps_offers, problem.xp
        self.drawn = instance.played()
        self.noise = instance.noise_streams(seed).source(problem.horizon, normal=not instance.clicks)
        self.features = zeros(problem.reference, len(problem), problem.arms, problem.dim)
        self.means = zeros(problem.reference, len(problem), problem.arms)

    def next_round(self) -> None:
        """Draw the features and means of the next round."""
        self.features[...], self.means[...] = next(self.drawn)

    def offer(self, rows: Replications) -> Replications:
        """The same rows with the features of this round."""
        features = self.xp.asarray(self.features, copy=True) if self.keeps_offers else self.features
        return rows.with_offer(features, None)

    def pull(self, arms: Array, rows: Replications) -> Array:
        """Rewards of the arms chosen."""
        return self.instance.pull(self.means, arms, self.noise)

    def regret(self, arms: Array, rows: Replications) -> Array:
        """How much better the best arm of this round is."""
        return self.xp.max(self.means, axis=-1) - rows.at(self.means, arms)


@renamed_parameter("law", "distribution")
def contexts(
    *,
    arms: int,
    dim: int,
    intrinsic_dim: int,
    horizon: int,
    noise: float = 0.1,
    distribution: Distribution = "gaussian",
    theta: Theta = "uniform",
    rewards: RewardName = "gaussian",
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> ContextInstance:
    """Features that are drawn again in every round.

    The other parameters are as in `sphere`; the seed draws the features.

    Parameters
    ----------
    noise : float
        Standard deviation of the Gaussian noise; clicks take none, and policies are told 0.5, the sub-Gaussian scale of
        a click.
    distribution : {"gaussian", "sphere", "bounded", "correlated", "repeated"}
        "gaussian": independent N(0, 1/d) entries, so that a squared norm is 1 on average. "sphere": uniform on the unit
        sphere. "bounded": independent uniform entries in [-1, 1] / sqrt(d). "correlated": Gaussian, the arms of a round
        sharing 0.7 of their variance, as articles shown to one reader do. "repeated": one of 8 Gaussian sets, chosen
        at random in each round.
    rewards : {"gaussian", "bernoulli"}
        Gaussian rewards, or clicks whose probability is linear in the features. These are then built as in
        `adadim.instances.clicks`: the first is the constant 1/sqrt(2) (the base rate), the others 1/sqrt(2) times a
        point z of the distribution, cut to length 1 where it is longer, so that the probability is 1/2 + <z, t>/2 with
        a unit vector t. `intrinsic_dim` counts the constant, hence is at least 2.

    Examples
    --------
    >>> import adadim
    >>> instance = contexts(arms=10, dim=20, intrinsic_dim=3, horizon=300, replications=range(4))
    >>> adaptive = adadim.simulate(adadim.recommended(instance.problem), instance)
    >>> bool(adaptive.final.mean() < adadim.simulate(adadim.Random(), instance).final.mean() / 5)
    True
    """
    replications = check_sizes(replications, arms=arms, dim=dim)
    one_of(distribution, "distribution", DISTRIBUTIONS)
    positive(noise, "noise", "the standard deviation of the noise, e.g. 0.1")
    if one_of(rewards, "rewards", ("gaussian", "bernoulli")) == "bernoulli":
        vector, noise = with_base_rate(theta, intrinsic_dim, dim), CLICK_NOISE
    else:
        vector = parameter(theta, intrinsic_dim, dim)
    problem = context_problem(arms, dim, horizon, noise, replications)
    return ContextInstance(problem, np.tile(vector, (len(replications), 1)), distribution, seed, rewards, delay)


def context_problem(arms: int, dim: int, horizon: int, noise: float, replications: Sequence[int]) -> Problem:
    """The problem where features come with the rounds."""
    horizon = rounds(horizon)  # to be played, it needs an end
    positive(noise, "noise", "the standard deviation of the noise, e.g. 0.1")
    return Problem(arms=arms, dim=dim, horizon=horizon, noise=noise, replications=replications, sets="iid")


def draw_features(generator: np.random.Generator, shape: tuple[int, int], distribution: str) -> FloatArray:
    """Features (K, d) of one round of one replication."""
    drawn: FloatArray = (
        generator.uniform(-1, 1, shape) if distribution == "bounded" else generator.standard_normal(shape)
    )
    if distribution == "sphere":
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        return drawn
    if distribution == "correlated":
        shared = generator.standard_normal((1, shape[1]))
        drawn = np.sqrt(1 - CORRELATION) * drawn + np.sqrt(CORRELATION) * shared
    drawn /= np.sqrt(shape[1])
    return drawn


def _draw_click_features(generator: np.random.Generator, shape: tuple[int, int], distribution: str) -> FloatArray:
    """Features (K, d) of one round of clicks: a constant, and points of length at most 1."""
    points = draw_features(generator, (shape[0], shape[1] - 1), distribution)
    points /= np.maximum(1.0, np.linalg.norm(points, axis=1, keepdims=True))
    return np.asarray(np.concatenate([np.ones((shape[0], 1)), points], axis=1) / np.sqrt(2))
