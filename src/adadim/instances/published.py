"""Problems of published experiments and proofs: the paper's lower bound, and what other papers play on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Literal

import numpy as np

from adadim import theory
from adadim.core.arrays import FloatArray
from adadim.core.checks import (
    between,
    check_fits,
    flag,
    integer,
    is_integer,
    not_negative,
    numbers,
    one_of,
    positive,
    require,
    rounds,
    shown,
)
from adadim.core.deprecated import renamed_parameter
from adadim.core.randomness import check_replications
from adadim.errors import InvalidTypeError, InvalidValueError
from adadim.instances.contexts import ContextInstance, context_problem, draw_features
from adadim.instances.delay import DelayLike
from adadim.instances.instance import Instance, check_sizes, generators, linear_instance

MAX_COEFFICIENT = 1e150  # whose square, and products with features, are numbers


def lower_bound(
    *,
    horizon: int,
    alpha: float,
    alpha_easy: float = 0.0,
    budget: float | None = None,
    delta: float | None = None,
    target: int = 0,
    intrinsic_dim: int | None = None,
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
) -> Instance:
    """One member of the family behind the paper's Theorem 1.

    Parameters
    ----------
    horizon, alpha, alpha_easy, budget, delta
        As in `adadim.theory.lower_bound_family`.
    target : int
        Which reward vector: 0 is the easy problem, i >= 1 hides a better arm i.
    intrinsic_dim : int, optional
        The d* of that member, floor(T^alpha_easy) for target 0 and Kl + i for target i. It changes nothing: in a
        study it is what ``"@intrinsic_dim"`` tells an oracle, and it is checked.
    replications, delay
        As in `sphere`.

    Notes
    -----
    Every member tells the policy the same range of means, Delta. The true ranges, Delta/2 for target 0 and Delta
    for the others, would give away which member it is, and the lower bound is about policies that cannot know.

    Examples
    --------
    >>> easy = lower_bound(horizon=2500, alpha=0.5)
    >>> hard = lower_bound(horizon=2500, alpha=0.5, target=7, intrinsic_dim=32)
    >>> int(easy.means.argmax()), int(hard.means.argmax())
    (0, 7)
    """
    horizon = rounds(horizon)
    family = theory.lower_bound_family(horizon, alpha, alpha_easy=alpha_easy, budget=budget, delta=delta)
    check_fits(8 * 4 * (family.arms_count + 1) * family.dim, horizon=family.horizon)
    is_member = is_integer(target) and 0 <= target <= family.arms_count
    require(is_member, "target", f"be in 0..{family.arms_count}", target)
    theta = family.thetas[target]
    true_dim = int(np.flatnonzero(theta)[-1]) + 1
    agrees = intrinsic_dim is None or (is_integer(intrinsic_dim) and intrinsic_dim == true_dim)
    require(agrees, "intrinsic_dim", f"be {true_dim}, the d* of target {target}", intrinsic_dim)
    replications = check_replications(replications)
    arms = np.broadcast_to(family.features, (len(replications), *family.features.shape))
    return linear_instance(arms, theta, horizon, family.noise, replications, delay, reward_range=family.delta)


def many_best(
    *,
    arms: int,
    horizon: int,
    alpha: float | None = None,
    share: float | None = None,
    top: float = 0.9,
    others: Sequence[float] = (0.1, 0.2, 0.3, 0.4, 0.5),
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> Instance:
    """Unrelated arms with Bernoulli rewards, of which several have the best mean (Zhu and Nowak 2020).

    All arms have the same single feature, which says nothing; the seed draws which arms are the best. The other
    parameters are as in `sphere`.

    Parameters
    ----------
    alpha : float in [0, 1], optional
        Hardness level: ceil(n / (2 T^alpha)) of n arms are best. Give this or `share`.
    share : float in (0, 1], optional
        Share of the best arms; their number is rounded up.
    top : float
        Mean of the best arms.
    others : sequence of float
        Means of the other arms, each about equally often.

    Examples
    --------
    >>> instance = many_best(arms=20_000, horizon=50_000, alpha=0.25)
    >>> int((instance.means == 0.9).sum())
    669
    """
    horizon = rounds(horizon)
    replications = check_sizes(replications, arms=arms, horizon=horizon)
    if alpha is not None and share is None:
        count = math.ceil(arms / (2 * horizon ** between(alpha, "alpha", 0, 1)))
    elif share is not None and alpha is None:
        count = math.ceil(arms * between(share, "share", 0, 1, "(]") - 1e-9)  # 0.07 of 100 arms are 7
    else:
        raise InvalidValueError("give exactly one of alpha (the hardness level) and share (of best arms)")
    between(top, "top", 0, 1)
    others = numbers(others, "others")
    fits = bool(others) and all(0 <= mean <= top for mean in others)
    require(fits, "others", f"be means in [0, top] with top = {top:g}, the mean of the best arms", others)
    values = np.concatenate([np.full(count, float(top)), np.resize(np.array(others, dtype=float), arms - count)])
    means = np.stack([generator.permutation(values) for generator in generators(seed, replications)])
    return _bernoulli(np.ones(arms), means, horizon, replications, delay)


def informative(
    *,
    dim: int,
    horizon: int,
    sparsity: int = 2,
    effect: float = 0.3,
    informative_arms: int = 30,
    cost: float = 1.0,
    noise: float = 0.5,
    positions: Sequence[int] | None = None,
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> Instance:
    """Cheap arms of which a few are good, and costly ones that tell which: optimism pulls no arm for what it tells.

    After Hao, Lattimore and Deng (2021, "Information directed sampling for sparse linear bandits"). In units in which
    features are 1, -1 or 0, theta is `effect` in sparsity - 1 of the first d - 1 coordinates, -`cost` in the last, and
    0 elsewhere. Cheap arms have sparsity - 1 features that are 1 or -1, every such arm, and not the last one: the best
    earns (sparsity - 1) * effect. Costly ones have 1 or -1 in all of the first d - 1, drawn by the seed, and 1 in the
    last. Features are divided by sqrt(d), so that the longest arm has norm 1, and theta is multiplied by it.

    An optimist that knows the cost and that theta is small never pulls a costly arm, and tries the cheap ones one after
    another; `IDS` pulls a few. With a wide prior the costly arms look good to an optimist, and it explores by accident.

    Parameters
    ----------
    sparsity : int
        Coefficients of theta that are not 0, the cost among them; at least 2.
    effect : float
        What each coefficient that is not known adds.
    informative_arms : int
        Number of costly arms.
    cost : float
        What a costly arm costs.
    positions : sequence of int, optional
        Where the effects are; by default they are drawn for each replication.
    dim, horizon, noise, replications, delay, seed
        As in `sphere`.

    Examples
    --------
    >>> instance = informative(dim=10, sparsity=3, effect=0.2, informative_arms=5, horizon=100)
    >>> instance.problem.arms, round(float(instance.best[0]), 9)  # 4 * 9 * 8 / 2 cheap arms
    (149, 0.4)
    """
    dim, sparsity, horizon = integer(dim, "dim", 2), integer(sparsity, "sparsity", 2), rounds(horizon)
    require(sparsity <= dim, "sparsity", f"be at most {dim}, the number of features", sparsity)
    positive(effect, "effect", "what a coefficient adds to the reward")
    not_negative(cost, "cost")
    for name, value in (("effect", effect), ("cost", cost)):
        require(value <= MAX_COEFFICIENT, name, f"be at most {MAX_COEFFICIENT:g}", value)
    costly, chosen = integer(informative_arms, "informative_arms"), sparsity - 1
    cheap = math.comb(dim - 1, chosen) * 2**chosen
    replications = check_sizes(replications, arms=cheap + costly, dim=dim, horizon=horizon)
    features = np.zeros((len(replications), cheap + costly, dim))
    signs = np.array(list(itertools.product((1.0, -1.0), repeat=chosen)))
    for i, at in enumerate(itertools.combinations(range(dim - 1), chosen)):
        features[:, i * len(signs) : (i + 1) * len(signs), at] = signs
    theta = np.zeros((len(replications), dim))
    theta[:, -1], features[:, cheap:, -1] = -cost, 1.0
    fixed = None if positions is None else _checked_positions(positions, chosen, dim)
    for r, generator in enumerate(generators(seed, replications)):
        features[r, cheap:, :-1] = generator.choice([-1.0, 1.0], size=(costly, dim - 1))
        theta[r, generator.permutation(dim - 1)[:chosen] if fixed is None else fixed] = effect
    scale = math.sqrt(dim)
    return linear_instance(features / scale, theta * scale, horizon, noise, replications, delay)


def _checked_positions(positions: Sequence[int], count: int, dim: int) -> list[int]:
    if not isinstance(positions, Sequence | np.ndarray):
        raise InvalidTypeError(f"positions must be a list of integers, got {shown(positions)}")
    found = [integer(at, "positions", 0, most=dim - 2, meaning="features but the last") for at in positions]
    fits = len(set(found)) == len(found) == count
    require(fits, "positions", f"be {count} different features, one less than sparsity", positions)
    return found


def end_of_optimism(
    *,
    horizon: int,
    gap: float = 0.005,
    noise: float = 0.1,
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
) -> Instance:
    """The best arm, one far off that tells it from a third, which is close: optimists pull the one far off too rarely.

    The arms are (1, 0), (0, 1) and (1 - gap, 2 gap), and theta is (1, 0), as in Lattimore and Szepesvári (2017, "The
    end of optimism?"). That costs optimists regret in the long run; in the first ten thousand rounds it spares them
    some. The other parameters are as in `sphere`.

    Parameters
    ----------
    gap : float in (0, 0.5]
        How much the close arm earns less than the best.

    Examples
    --------
    >>> end_of_optimism(horizon=100).means.tolist()
    [[1.0, 0.0, 0.995]]
    """
    gap = between(gap, "gap", 0, 0.5, "(]")
    replications = check_sizes(replications, horizon=(horizon := rounds(horizon)))
    arms = np.tile([[1.0, 0.0], [0.0, 1.0], [1.0 - gap, 2.0 * gap]], (len(replications), 1, 1))
    return linear_instance(arms, np.array([1.0, 0.0]), horizon, noise, replications, delay)


def legendre(
    *,
    horizon: int,
    arms: int = 1000,
    dim: int = 6,
    sparsity: int = 3,
    noise: float = 0.001,
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> Instance:
    """The sum of a few Legendre polynomials at the points of a grid, of which it is not known which they are.

    Arms are points x of [-1, 1], and feature k is the polynomial of degree k at x / 1.1, of norm 1 on [-1, 1]. Each
    replication draws which features matter and their coefficients, uniformly of absolute value 0.01 to 1, and scales
    these to norm 1 (after Kassraie, Emmenegger, Krause and Pacchiano 2023). Then features are divided by the norm of
    the longest arm and theta is multiplied by it. The other parameters are as in `sphere`.

    Parameters
    ----------
    sparsity : int
        How many features matter.

    Examples
    --------
    >>> instance = legendre(horizon=100, arms=50)
    >>> instance.problem.dim, int((instance.theta != 0).sum())
    (6, 3)
    """
    replications = check_sizes(replications, arms=arms, dim=dim, horizon=(horizon := rounds(horizon)))
    integer(sparsity, "sparsity", most=dim, meaning="the number of features that matter")
    points, degrees = np.linspace(-1.0, 1.0, arms), np.arange(dim)
    features = np.polynomial.legendre.legvander(points / 1.1, dim - 1) * np.sqrt(degrees + 0.5)
    longest = float(np.linalg.norm(features, axis=1).max())
    theta = np.zeros((len(replications), dim))
    for row, generator in zip(theta, generators(seed, replications), strict=True):
        matter = generator.permutation(dim)[:sparsity]
        row[matter] = generator.uniform(0.01, 1.0, sparsity) * generator.choice([-1.0, 1.0], sparsity)
        row /= np.linalg.norm(row)
    arms_of_all = np.tile(features / longest, (len(theta), 1, 1))
    return linear_instance(arms_of_all, theta * longest, horizon, noise, replications, delay)


def interval(
    *,
    arms: int,
    horizon: int,
    smoothness: float = 1.0,
    steepness: float = 1.0,
    top: float = 0.9,
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> Instance:
    """Bernoulli rewards with mean max(top - steepness |x - x*|^smoothness, 0) at the points of a grid on [0, 1].

    Arm k of K is the point (k + 1/2) / K, and x* is drawn uniformly from the points in each replication. The other
    parameters are as in `sphere`.

    Parameters
    ----------
    smoothness : float in (0, 1]
        Hoelder exponent of the mean reward.
    steepness : float
        Its Hoelder constant L.
    top : float
        Mean reward at x*.

    Examples
    --------
    >>> instance = interval(arms=100, horizon=500, smoothness=0.5)
    >>> float(instance.best[0]), instance.problem.dim
    (0.9, 1)
    """
    horizon = rounds(horizon)
    replications = check_sizes(replications, arms=arms, horizon=horizon)
    between(smoothness, "smoothness", 0, 1, "(]")
    positive(steepness, "steepness", "the Hoelder constant, e.g. 1")
    between(top, "top", 0, 1)
    points = (np.arange(arms) + 0.5) / arms
    best = np.array([points[generator.integers(arms)] for generator in generators(seed, replications)])
    means = np.maximum(top - steepness * np.abs(points - best[:, None]) ** smoothness, 0.0)
    return _bernoulli(points, means, horizon, replications, delay)


def owned_arms(
    *,
    best: float,
    horizon: int,
    owners: int = 6,
    replications: Sequence[int] | int = range(1),
    seed: int = 0,
    delay: DelayLike = None,
) -> Instance:
    """Bernoulli arms of several owners, one of whom has the best arm (Arora, Marinov and Mohri 2021).

    The first ten arms are those of the best owner: one of mean `best`, nine of mean 0.2. Every other owner has five,
    one of mean 0.51 and four of mean 0.5. All arms have the same single feature, which says nothing, and all
    replications the same means. The other parameters are as in `sphere`.

    Parameters
    ----------
    best : float
        Mean of the best arm, above 0.51: 0.7 or 0.52 in the source.
    owners : int
        Number of owners.

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
    return _bernoulli(np.ones(len(means)), means, horizon, replications, delay)


def sphere_rounds(
    *,
    arms: int,
    theta: Sequence[float],
    horizon: int,
    noise: float = 1.0,
    noise_mean: float = 0.0,
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> ContextInstance:
    """Arms drawn uniformly from the unit sphere in every round (Pacchiano, Dann and Gentile 2024, experiments 4 and 6).

    The other parameters are as in `contexts`.

    Parameters
    ----------
    theta : sequence of float
        The reward parameter, one number for each feature, of any length.
    noise_mean : float
        Mean of the Gaussian noise; the authors' code has 1 in place of 0.

    Examples
    --------
    >>> instance = sphere_rounds(arms=10, theta=[0.0, 1.0, 2.0], horizon=50)
    >>> next(instance.rounds()).shape
    (1, 10, 3)
    """
    vector = np.array(numbers(theta, "theta"), dtype=float)
    require(vector.size > 0, "theta", "have at least one entry", theta)
    replications = check_sizes(replications, arms=arms, dim=len(vector))
    problem = context_problem(arms, len(vector), horizon, noise, replications)
    (noise_mean,) = numbers((noise_mean,), "noise_mean")
    draw = partial(draw_features, shape=(arms, len(vector)), distribution="sphere")
    rows = np.tile(vector, (len(replications), 1))
    return ContextInstance(problem, rows, "sphere", seed, delay=delay, draw=draw, noise_mean=noise_mean)


@renamed_parameter("law", "distribution")
def biased_arms(
    *,
    arms: int,
    dim: int,
    horizon: int,
    intrinsic_dim: int | None = None,
    norm: float = 1.0,
    bias: float = 1.0,
    distribution: Literal["sphere", "gaussian"] = "sphere",
    noise: float = 1.0,
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> ContextInstance:
    """Arms with means of their own and features that may matter: rewards mu_k + <theta, x_k>.

    The problem of Chatterji, Muthukumar and Bartlett (2020) and, with Gaussian features, of Ghosh, Sankararaman and
    Ramchandran (2021). The other parameters are as in `contexts`; the seed draws theta and the biases too.

    Parameters
    ----------
    intrinsic_dim : int, optional
        Number of leading features that matter; all by default.
    norm : float
        Norm of theta, whose direction is uniform; 0 if features do not matter.
    bias : float
        The mu_k are uniform in [-bias, bias].
    distribution : {"sphere", "gaussian"}
        Features uniform on the unit sphere, or standard normal.

    Examples
    --------
    >>> instance = biased_arms(arms=5, dim=50, horizon=300, norm=0.0)
    >>> bool((instance.theta == 0).all()), instance.biases.shape
    (True, (1, 5))
    """
    replications = check_sizes(replications, arms=arms, dim=dim)
    used = dim if intrinsic_dim is None else integer(intrinsic_dim, "intrinsic_dim", most=dim)
    one_of(distribution, "distribution", ("sphere", "gaussian"))
    norm, bias = not_negative(norm, "norm"), abs(between(bias, "bias", 0, 1e100))  # a zero may have a sign
    theta, biases = np.zeros((len(replications), dim)), np.zeros((len(replications), arms))
    for r, generator in enumerate(generators(seed, replications)):
        theta[r, :used] = norm * draw_features(generator, (1, used), "sphere")[0]
        biases[r] = generator.uniform(-bias, bias, arms)

    def draw(generator: np.random.Generator) -> FloatArray:
        if distribution == "sphere":
            return draw_features(generator, (arms, dim), "sphere")
        return generator.standard_normal((arms, dim))

    problem = context_problem(arms, dim, horizon, noise, replications)
    return ContextInstance(problem, theta, distribution, seed, delay=delay, draw=draw, biases=biases)


@renamed_parameter("law", "distribution")
def shared_contexts(
    *,
    models: int,
    dim: int,
    horizon: int,
    distribution: Literal["uniform", "gaussian"] = "gaussian",
    largest: float = 1.0,
    relevant: bool = True,
    noise: float = 1.0,
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> ContextInstance:
    """One context for all arms in each round, and a parameter for each arm (Abbasi-Yadkori, Pacchiano and Phan 2020).

    Arm k has the context in the k-th block of its `models` times `dim` features, and zeros elsewhere. The other
    parameters are as in `contexts`; the seed draws the parameters too.

    Parameters
    ----------
    models, dim : int
        Number of arms, each with a parameter of its own, and of entries of a context.
    distribution : {"uniform", "gaussian"}
        Entries uniform in [0, 1] or standard normal, the first being 1 always.
    largest : float
        The entries of the parameters are uniform in [0, largest].
    relevant : bool
        False leaves each arm the first entry alone, its mean: the context is then irrelevant.

    Examples
    --------
    >>> instance = shared_contexts(models=2, dim=3, horizon=50, distribution="uniform")
    >>> next(instance.rounds())[0, 1, :4]
    array([0., 0., 0., 1.])
    """
    replications = check_sizes(replications, models=models, dim=dim)
    check_fits(8.0 * len(replications) * models**2 * dim, models=models, dim=dim)  # each has features of its own
    one_of(distribution, "distribution", ("uniform", "gaussian"))
    positive(largest, "largest", "the largest entry of a parameter, e.g. 1")
    theta = np.stack([generator.uniform(0, largest, (models, dim)) for generator in generators(seed, replications)])
    if not flag(relevant, "relevant"):
        theta[:, :, 1:] = 0.0

    def draw(generator: np.random.Generator) -> FloatArray:
        context = generator.uniform(0, 1, dim) if distribution == "uniform" else generator.standard_normal(dim)
        context[0] = 1.0
        return np.asarray(np.kron(np.eye(models), context), dtype=float)

    problem = context_problem(models, models * dim, horizon, noise, replications)
    rows, description = theta.reshape(len(replications), -1), f"one {distribution} context for all arms"
    return ContextInstance(problem, rows, description, seed, delay=delay, draw=draw)


def _bernoulli(
    feature: FloatArray, means: FloatArray, horizon: int, replications: Sequence[int], delay: DelayLike
) -> Instance:
    """Clicks of arms that have a single feature, the same in all replications."""
    features = np.broadcast_to(feature[None, :, None], (len(replications), len(feature), 1))
    return Instance(features, means=means, horizon=horizon, rewards="bernoulli", replications=replications, delay=delay)
