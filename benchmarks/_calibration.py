"""Problems whose d* is drawn from the prior, played by several policies: do the probabilities mean what they say?"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import kstest

import adadim
from adadim.dimension import dimension_of_arms
from adadim.models.factor import ArmFactor

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


def collected(instance: adadim.Instance, collector: str, seed: int) -> ArmFactor:
    """What a policy has seen after the horizon, with the evidences of the prior's ridge."""
    problem, rng = instance.problem, np.random.default_rng(seed)
    factor = ArmFactor(problem.actions, RIDGE)
    if collector == "LinUCB":
        seen = adadim.simulate(adadim.LinUCB(ridge=RIDGE), instance, seed=seed, record=1).learner.model.state
        factor.rebuild(seen.counts, seen.sums, seen.squares, factor.everyone)
        return factor
    everyone = np.arange(len(problem))
    means = np.asarray(instance.means)
    for _ in range(problem.horizon):
        if collector == "random":
            arms = rng.integers(problem.arms, size=len(problem))
        else:  # draw d*, then theta: z_1..m^T (w + sigma eps)
            logs = factor.evidences()
            gumbel = -np.log(-np.log(rng.random(logs.shape)))
            kept = np.arange(DIM) <= (logs + gumbel).argmax(axis=1)[:, None]
            sampled = (factor.w + NOISE * rng.standard_normal(factor.w.shape)) * kept
            arms = np.matvec(factor.z.swapaxes(1, 2), sampled).argmax(axis=1)
        factor.absorb(arms, means[everyone, arms] + NOISE * rng.standard_normal(len(problem)), factor.everyone)
    return factor


def posteriors(factor: ArmFactor) -> dict[str, np.ndarray]:
    """P(d* = m), (R, d), with the prior's ridge and with a learned one."""
    logs = factor.evidences()
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    learned = dimension_of_arms(
        factor.actions, np.arange(ARMS), factor.counts, factor.sums, factor.squares, None, "uniform"
    )
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
    found = adadim.Dimension(probabilities, None, None, None, np.arange(1, dim + 1), dim)
    coverage = {}
    for level in (0.5, 0.9):
        low, high = found.interval(level)
        coverage[str(level)] = float(((low <= truth) & (truth <= high)).mean())
    return {
        "bins": bins,
        "worst_standard_errors": max(abs(row["standard_errors"]) for row in bins),
        "ks_p": float(kstest(pit, "uniform").pvalue),
        "coverage": coverage,
        "hits": float((found.mode == truth).mean()),
        "mean_error": float(np.abs(found.mode - truth).mean()),
    }


def calibration(trials: int, horizon: int, seed: int = 0) -> list[dict[str, Any]]:
    """A row for each collector and each way of having the ridge."""
    rows = []
    for number, collector in enumerate(COLLECTORS):
        instance, truth = drawn(trials, horizon, seed + number)
        for ridge, probabilities in posteriors(collected(instance, collector, seed + number)).items():
            rows.append({"collector": collector, "ridge": ridge, "trials": trials, **judged(probabilities, truth)})
    return rows
