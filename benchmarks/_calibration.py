"""Problems whose d* is drawn from the prior, played by several policies: do the probabilities mean what they say?"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import kstest

import adadim
from adadim.core.rows import Replications
from adadim.dimension import dimension_of_arms
from adadim.models.priors import log_evidence
from adadim.models.sums import SumsRegression

DIM, ARMS, RIDGE, NOISE = 40, 60, 0.1, 0.1
COLLECTORS = ("LinUCB", "Thompson", "random")
BINS = np.linspace(0.0, 1.0, 11)


def drawn(trials: int, horizon: int, seed: int) -> tuple[adadim.Instance, np.ndarray]:
    """Problems with d* uniform on 1..40 and Gaussian theta of the prior's ridge; and these d*."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((trials, ARMS, DIM))
    features /= np.linalg.norm(features, axis=-1, keepdims=True)
    truth = rng.integers(1, DIM + 1, size=trials)
    theta = rng.standard_normal((trials, DIM)) * NOISE / np.sqrt(RIDGE) * (np.arange(DIM) < truth[:, None])
    return adadim.Instance(features, theta=theta, horizon=horizon, noise=NOISE, replications=range(trials)), truth


def collected(instance: adadim.Instance, collector: str, seed: int) -> tuple[np.ndarray, ...]:
    """What a policy has seen after the horizon: pulls and sums of rewards of every arm, and sums of squared rewards."""
    problem, rng = instance.problem, np.random.default_rng(seed)
    if collector == "LinUCB":
        state = adadim.simulate(adadim.LinUCB(ridge=RIDGE), instance, seed=seed, record=1).learner.model.regression
        return state.counts, state.sums, state.squares
    features, means, trials = problem.actions.base, np.asarray(instance.means), np.arange(len(problem))
    counts, sums = np.zeros(means.shape, dtype=np.int64), np.zeros(means.shape)
    factor, everyone = SumsRegression(features, DIM, RIDGE), Replications.all(features)
    for _ in range(problem.horizon):
        if collector == "random":
            arms = rng.integers(problem.arms, size=len(problem))
        else:  # draw d*, then theta: z_1..m^T (w + sigma eps)
            logs = evidences(factor)
            gumbel = -np.log(-np.log(rng.random(logs.shape)))
            kept = np.arange(DIM) <= (logs + gumbel).argmax(axis=1)[:, None]
            sampled = (factor.w + NOISE * rng.standard_normal(factor.w.shape)) * kept
            arms = np.matvec(factor.whiten(features, everyone).swapaxes(1, 2), sampled).argmax(axis=1)
        rewards = means[trials, arms] + NOISE * rng.standard_normal(len(problem))
        factor.absorb((features[trials, arms], None), rewards, everyone)
        counts[trials, arms] += 1
        sums[trials, arms] += rewards
    return counts, sums, factor.squares


def evidences(factor: SumsRegression) -> np.ndarray:
    """Log evidence of every prefix in each trial, (R, d)."""
    factor.factorise(Replications.all(factor.w))
    logdets = -2.0 * np.cumsum(np.log(np.diagonal(factor.inverse, axis1=1, axis2=2) * np.sqrt(RIDGE)), axis=1)
    residuals = np.maximum(factor.squares[:, None] - np.cumsum(factor.w**2, axis=1), 0.0)
    statistics = zip(logdets, residuals, factor.pulls.tolist(), factor.squares.tolist(), strict=True)
    return np.array([log_evidence(*one) for one in statistics])


def posteriors(actions: adadim.ActionSet, counts: np.ndarray, sums: np.ndarray, squares: np.ndarray) -> dict[str, Any]:
    """P(d* = m), (R, d), with the prior's ridge and with a learned one."""
    factor, features = SumsRegression(actions.base, DIM, RIDGE), actions.base
    factor.second[:] = features.swapaxes(1, 2) @ (counts[:, :, None] * features)
    factor.b[:], factor.squares[:], factor.pulls[:] = np.vecmat(sums, features), squares, counts.sum(axis=1)
    logs = evidences(factor)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    learned = dimension_of_arms(actions, counts, sums, squares)
    return {"given": weights / weights.sum(axis=1, keepdims=True), "learned": learned.probabilities}


def judged(probabilities: np.ndarray, truth: np.ndarray, seed: int = 0) -> dict[str, Any]:
    """Reliability by bins of the probability, a KS test of the randomised PIT of d*, and the coverage of intervals."""
    trials, dim = probabilities.shape
    hit = np.arange(1, dim + 1) == truth[:, None]
    bins = []
    which = np.clip(np.digitize(probabilities, BINS) - 1, 0, 9)
    for b in range(10):
        inside = which == b
        mass = (probabilities * inside).sum(axis=1)  # d* is in this bin with that probability, in each trial
        error = np.sqrt((mass * (1 - mass)).sum())
        hits, said = int((hit & inside).sum()), float(mass.sum())
        bins.append({"said": said, "hits": hits, "standard_errors": float((hits - said) / error) if error > 0 else 0.0})
    below = (probabilities * (np.arange(1, dim + 1) < truth[:, None])).sum(axis=1)
    pit = below + np.random.default_rng(seed).random(trials) * probabilities[hit]
    posterior = adadim.Dimension(probabilities, None, None, None, np.arange(1, dim + 1), dim)
    coverage = {}
    for level in (0.5, 0.9):
        low, high = posterior.interval(level)
        coverage[str(level)] = float(((low <= truth) & (truth <= high)).mean())
    return {
        "bins": bins,
        "worst_standard_errors": max(abs(row["standard_errors"]) for row in bins),
        "ks_p": float(kstest(pit, "uniform").pvalue),
        "coverage": coverage,
        "hits": float((posterior.mode == truth).mean()),
        "mean_error": float(np.abs(posterior.mode - truth).mean()),
    }


def calibration(trials: int, horizon: int, seed: int = 0) -> list[dict[str, Any]]:
    """A row for each collector and each way of having the ridge."""
    rows = []
    for number, collector in enumerate(COLLECTORS):
        instance, truth = drawn(trials, horizon, seed + number)
        sums = collected(instance, collector, seed + number)
        for ridge, probabilities in posteriors(instance.problem.actions, *sums).items():
            rows.append({"collector": collector, "ridge": ridge, "trials": trials, **judged(probabilities, truth)})
    return rows
