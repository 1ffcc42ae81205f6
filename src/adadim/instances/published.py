"""Problems of other papers' experiments: spheres, biased arms, shared contexts, arms with owners."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np

from adadim.backend.arrays import Array, FloatArray, to_torch
from adadim.backend.memory import check_fits
from adadim.checks import between, flag, integer, not_negative, numbers, one_of, positive, require
from adadim.instances.contexts import ContextInstance
from adadim.instances.delay import DelayLike
from adadim.instances.instance import Instance
from adadim.instances.parameters import check_sizes
from adadim.problem import Problem
from adadim.randomness import Draws, Purpose, Streams

__all__ = ["biased_arms", "owned_arms", "shared_contexts", "sphere_rounds"]


class PublishedInstance(ContextInstance):
    """A contextual problem whose rewards are mu_k + <theta, x> plus noise that need not have mean zero.

    Attributes
    ----------
    biases : array (R, K)
        mu_k of every arm.
    noise_mean : float
        Mean of the noise; it is the same for all arms and so no part of the regret, but a learner without an intercept
        is misled by it.
    """

    def __init__(
        self,
        problem: Problem,
        theta: FloatArray,
        biases: Array,
        noise_mean: float,
        draw: Callable[[np.random.Generator], FloatArray],
        seed: int,
        delay: DelayLike = None,
    ) -> None:
        super().__init__(problem, theta, "sphere", seed, delay=delay)
        self.biases, self.noise_mean, self.draw = biases, noise_mean, draw

    def __repr__(self) -> str:
        return f"PublishedInstance({self.problem!r}, noise_mean={self.noise_mean:g})"

    def rounds(self) -> Iterator[FloatArray]:
        """Features (R, K, d) of one round after the other; every call starts from the first."""
        generators = Streams(self.seed, Purpose.CONTEXT, self.problem.replications).generators
        while True:
            yield np.stack([self.draw(g) for g in generators])

    def to(self, device: str) -> ContextInstance:
        """As in `ContextInstance`."""
        moved = super().to(device)
        assert isinstance(moved, PublishedInstance)
        moved.biases = to_torch(self.biases, device)
        return moved

    def means(self, features: Array) -> Array:
        """Mean reward of every arm of a round, (R, K), without the mean of the noise."""
        return super().means(features) + self.biases

    def pull(self, means: Array, arms: Array, draws: Draws) -> Array:
        """Rewards of one round, one arm for each replication."""
        return super().pull(means, arms, draws) + self.noise_mean


def sphere_rounds(
    *,
    arms: int,
    theta: Sequence[float],
    horizon: int,
    noise: float = 1.0,
    noise_mean: float = 0.0,
    replications: Sequence[int] = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> ContextInstance:
    """Arms drawn uniformly from the unit sphere in every round (Pacchiano, Dann and Gentile 2024, experiments 4 and 6).

    Parameters
    ----------
    arms, horizon : int
        Number of arms in a round, and of rounds.
    theta : sequence of float
        The reward parameter, one number for each feature, of any length.
    noise, noise_mean : float
        Standard deviation and mean of the Gaussian noise; the authors' code has a mean of 1 in place of 0.
    replications, seed, delay
        As in `sphere`; the seed draws the features.

    Returns
    -------
    ContextInstance

    Examples
    --------
    >>> instance = sphere_rounds(arms=10, theta=[0.0, 1.0, 2.0], horizon=50)
    >>> next(instance.rounds()).shape
    (1, 10, 3)
    """
    vector = np.array(numbers(theta, "theta"), dtype=float)
    require(vector.size > 0, "theta", "have at least one entry", theta)
    replications = check_sizes(replications, arms=arms, dim=len(vector))
    problem = _problem(arms, len(vector), horizon, noise, replications)
    return PublishedInstance(
        problem,
        np.tile(vector, (len(replications), 1)),
        np.zeros((len(replications), arms)),
        _finite(noise_mean, "noise_mean"),
        lambda generator: _on_sphere(generator, arms, len(vector)),
        seed,
        delay,
    )


def biased_arms(
    *,
    arms: int,
    dim: int,
    horizon: int,
    intrinsic_dim: int | None = None,
    norm: float = 1.0,
    bias: float = 1.0,
    law: Literal["sphere", "gaussian"] = "sphere",
    noise: float = 1.0,
    replications: Sequence[int] = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> ContextInstance:
    """Arms with means of their own and features that may matter: rewards mu_k + <theta, x_k>.

    The problem of Chatterji, Muthukumar and Bartlett (2020) and, with Gaussian features, of Ghosh, Sankararaman and
    Ramchandran (2021).

    Parameters
    ----------
    arms, dim, horizon : int
        Number of arms, of features and of rounds.
    intrinsic_dim : int, optional
        Number of leading features that matter; all by default.
    norm : float
        Norm of theta, whose direction is uniform; 0 if features do not matter.
    bias : float
        The mu_k are uniform in [-bias, bias].
    law : {"sphere", "gaussian"}
        Features uniform on the unit sphere, or standard normal.
    noise : float
        Standard deviation of the Gaussian noise.
    replications, seed, delay
        As in `sphere`; they draw theta, the biases and the features.

    Returns
    -------
    ContextInstance

    Examples
    --------
    >>> instance = biased_arms(arms=5, dim=50, horizon=300, norm=0.0)
    >>> bool((instance.theta == 0).all()), instance.biases.shape
    (True, (1, 5))
    """
    replications = check_sizes(replications, arms=arms, dim=dim)
    used = dim if intrinsic_dim is None else integer(intrinsic_dim, "intrinsic_dim", most=dim)
    one_of(law, "law", ("sphere", "gaussian"))
    norm, bias = not_negative(norm, "norm"), abs(between(bias, "bias", 0, 1e100))  # a zero may have a sign
    generators = Streams(seed, Purpose.INSTANCE, replications).generators
    theta, biases = np.zeros((len(replications), dim)), np.zeros((len(replications), arms))
    for r, generator in enumerate(generators):
        theta[r, :used] = norm * _on_sphere(generator, 1, used)[0]
        biases[r] = generator.uniform(-bias, bias, arms)
    drawn = _on_sphere if law == "sphere" else _gaussian
    problem = _problem(arms, dim, horizon, noise, replications)
    return PublishedInstance(problem, theta, biases, 0.0, lambda g: drawn(g, arms, dim), seed, delay)


def shared_contexts(
    *,
    models: int,
    dim: int,
    horizon: int,
    law: Literal["uniform", "gaussian"] = "gaussian",
    largest: float = 1.0,
    relevant: bool = True,
    noise: float = 1.0,
    replications: Sequence[int] = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> ContextInstance:
    """One context for all arms in each round, and a parameter for each arm (Abbasi-Yadkori, Pacchiano and Phan 2020).

    Arm k has the context in the k-th block of its `models` times `dim` features, and zeros elsewhere.

    Parameters
    ----------
    models, dim, horizon : int
        Number of arms, each with a parameter of its own, of entries of a context, and of rounds.
    law : {"uniform", "gaussian"}
        Entries uniform in [0, 1] or standard normal, the first being 1 always.
    largest : float
        The entries of the parameters are uniform in [0, largest].
    relevant : bool
        False leaves each arm the first entry alone, its mean: the context is then irrelevant.
    noise : float
        Standard deviation of the Gaussian noise.
    replications, seed, delay
        As in `sphere`; they draw the parameters and the contexts.

    Returns
    -------
    ContextInstance

    Examples
    --------
    >>> instance = shared_contexts(models=2, dim=3, horizon=50, law="uniform")
    >>> next(instance.rounds())[0, 1, :4]
    array([0., 0., 0., 1.])
    """
    replications = check_sizes(replications, models=models, dim=dim)
    check_fits(8.0 * len(replications) * models**2 * dim, models=models, dim=dim)  # each has features of its own
    one_of(law, "law", ("uniform", "gaussian"))
    positive(largest, "largest", "the largest entry of a parameter, e.g. 1")
    generators = Streams(seed, Purpose.INSTANCE, replications).generators
    theta = np.stack([generator.uniform(0, largest, (models, dim)) for generator in generators])
    if not flag(relevant, "relevant"):
        theta[:, :, 1:] = 0.0

    def draw(generator: np.random.Generator) -> FloatArray:
        context = generator.uniform(0, 1, dim) if law == "uniform" else generator.standard_normal(dim)
        context[0] = 1.0
        return np.asarray(np.kron(np.eye(models), context), dtype=float)

    problem = _problem(models, models * dim, horizon, noise, replications)
    biases = np.zeros((len(replications), models))
    return PublishedInstance(problem, theta.reshape(len(replications), -1), biases, 0.0, draw, seed, delay)


def owned_arms(
    *,
    best: float,
    horizon: int,
    owners: int = 6,
    replications: Sequence[int] = range(1),
    seed: int = 0,
    delay: DelayLike = None,
) -> Instance:
    """Bernoulli arms of several owners, one of whom has the best arm (Arora, Marinov and Mohri 2021).

    The first ten arms are those of the best owner: one of mean `best`, nine of mean 0.2. Every other owner has five,
    one of mean 0.51 and four of mean 0.5.

    Parameters
    ----------
    best : float
        Mean of the best arm, above 0.51: 0.7 or 0.52 in the source.
    horizon : int
        Number of rounds T.
    owners : int
        Number of owners.
    replications, seed, delay
        As in `sphere`; all replications have the same means.

    Returns
    -------
    Instance
        All arms have the same single feature, which says nothing.

    Examples
    --------
    >>> owned_arms(best=0.7, horizon=100).problem.arms
    35
    """
    integer(owners, "owners", least=2, meaning="learners with arms of their own")
    between(best, "best", 0.51, 1, "(]")
    check_fits(80.0 * owners, owners=owners)
    means = np.array([best] + [0.2] * 9 + ([0.51] + [0.5] * 4) * (owners - 1))
    replications = check_sizes(replications, arms=len(means))
    features = np.broadcast_to(np.ones((1, len(means), 1)), (len(replications), len(means), 1))
    return Instance(features, means=means, horizon=horizon, rewards="bernoulli", replications=replications, delay=delay)


def _problem(arms: int, dim: int, horizon: int, noise: float, replications: Sequence[int]) -> Problem:
    positive(noise, "noise", "the standard deviation of the noise, e.g. 1")
    return Problem(arms=arms, dim=dim, horizon=horizon, noise=noise, replications=replications, sets="iid")


def _finite(value: float, name: str) -> float:
    (checked,) = numbers((value,), name)
    return checked


def _on_sphere(generator: np.random.Generator, arms: int, dim: int) -> FloatArray:
    drawn = generator.standard_normal((arms, dim))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return drawn


def _gaussian(generator: np.random.Generator, arms: int, dim: int) -> FloatArray:
    drawn: FloatArray = generator.standard_normal((arms, dim))
    return drawn
