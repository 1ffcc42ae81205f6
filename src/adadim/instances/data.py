"""Real data, its features ordered by principal components."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from scipy.linalg import eigh

from adadim.backend.arrays import FloatArray
from adadim.checks import flag, integer, one_of
from adadim.errors import InvalidValueError
from adadim.instances.delay import DelayLike
from adadim.instances.instance import Instance
from adadim.instances.parameters import check_sizes, linear_instance
from adadim.randomness import Purpose, Streams

__all__ = ["pca"]

Data = Literal["breast_cancer", "diabetes", "digits", "wine"]
DATA = ("breast_cancer", "diabetes", "digits", "wine")
Kernel = Literal["linear", "rbf"]

RANK = 1e-9  # components with less than this share of the first one's variance are rounding


def pca(
    *,
    data: Data,
    arms: int,
    dim: int,
    intrinsic_dim: int,
    horizon: int,
    noise: float = 0.1,
    kernel: Kernel = "linear",
    linear: bool = True,
    replications: Sequence[int] = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> Instance:
    """Real samples as arms, their principal components, largest variance first, as features.

    Each replication draws `arms` of the samples, and for data with classes the class it rewards. Columns have equal
    variance before the components are taken, and the longest sample has norm 1. Needs scikit-learn, which brings
    the data along: ``pip install 'adadim[data]'``.

    Parameters
    ----------
    data : {"breast_cancer", "diabetes", "digits", "wine"}
        Which of scikit-learn's bundled sets.
    arms : int
        Number of arms K, at most the number of samples.
    dim : int
        Number of components d.
    intrinsic_dim : int
        Number d* of leading components that matter: theta is the least-squares fit of the target in these, scaled to
        norm 1.
    horizon : int
        Number of rounds T.
    noise : float
        Standard deviation of the Gaussian noise.
    kernel : {"linear", "rbf"}
        Ordinary principal components, or those of a Gaussian kernel, of which there are as many as samples.
    linear : bool
        False takes the target itself as the mean reward, scaled to a range of 1: no prefix of the features explains it,
        and `intrinsic_dim` is only what an oracle is told.
    replications, seed, delay
        As in `sphere`; the seed draws samples and classes.

    Returns
    -------
    Instance

    Examples
    --------
    >>> instance = pca(data="wine", arms=50, dim=13, intrinsic_dim=3, horizon=100)
    >>> instance.problem.actions
    ActionSet(1 x 50 arms, dim=13)
    """
    replications = check_sizes(replications, arms=arms, dim=dim)
    one_of(data, "data", DATA)
    one_of(kernel, "kernel", ("linear", "rbf"))
    flag(linear, "linear")
    scores, targets = _components(data, kernel)
    if arms > len(scores):
        raise InvalidValueError(f"arms must be at most {len(scores)}, the samples of {data!r}, got {arms!r}")
    if dim > scores.shape[1]:
        raise InvalidValueError(f"dim must be at most {scores.shape[1]}, the components of {data!r}, got {dim!r}")
    integer(intrinsic_dim, "intrinsic_dim", most=dim, meaning="the number of features")
    features = scores[:, :dim] / np.sqrt(np.vecdot(scores[:, :dim], scores[:, :dim]).max())
    base = np.empty((len(replications), arms, dim))
    means, vectors = np.empty(base.shape[:2]), np.zeros((len(replications), dim))
    head = features[:, :intrinsic_dim]
    for r, generator in enumerate(Streams(seed, Purpose.INSTANCE, replications).generators):
        target = targets[generator.integers(len(targets))]
        chosen = generator.choice(len(features), arms, replace=False)
        base[r], means[r] = features[chosen], target[chosen]
        fit = head.T @ target / np.vecdot(head.T, head.T)  # components are orthogonal: one regression each
        vectors[r, :intrinsic_dim] = fit / np.linalg.norm(fit)
    if linear:
        return linear_instance(base, vectors, horizon, noise, replications, delay)
    return Instance(base, means=means, horizon=horizon, noise=noise, replications=replications, delay=delay)


@functools.lru_cache
def _components(data: Data, kernel: Kernel) -> tuple[FloatArray, FloatArray]:
    """Scores of all samples, (n, components), and the targets, one row for each class, centred and of range 1."""
    raw, labels = _load(data)
    kept = raw[:, raw.std(axis=0) > 0]
    columns = (kept - kept.mean(axis=0)) / kept.std(axis=0)
    gram = columns @ columns.T
    if kernel == "rbf":
        squares = np.diag(gram)
        gram = np.exp((2 * gram - squares[:, None] - squares) / columns.shape[1])
        gram = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    variances, directions = (x[..., ::-1] for x in eigh(gram))
    count = int((variances > RANK * variances[0]).sum())
    scores = directions[:, :count] * np.sqrt(variances[:count])
    scores *= np.sign(scores[abs(scores).argmax(axis=0), np.arange(count)])  # eigenvectors come with either sign
    targets = labels[None] if data == "diabetes" else (labels == np.unique(labels)[:, None])
    targets = (targets - targets.mean(axis=1, keepdims=True)) / np.ptp(targets.astype(float), axis=1)[:, None]
    for shared in (scores, targets):
        shared.setflags(write=False)
    return scores, targets


def _load(data: Data) -> tuple[FloatArray, np.ndarray[Any, Any]]:
    try:
        from sklearn import datasets
    except ImportError as error:
        raise ImportError("instances of kind 'pca' need scikit-learn: pip install 'adadim[data]'") from error
    raw, labels = getattr(datasets, f"load_{data}")(return_X_y=True)
    return np.asarray(raw, dtype=float), np.asarray(labels)
