"""Numbers: awkward features, ridges and long runs against arithmetic of 60 digits."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import mpmath
import numpy as np

import adadim
from attack.damage import generator
from attack.tally import Tally

Floats = np.ndarray[Any, np.dtype[np.float64]]
PULLS = 300
LONG = 100_000


def _features(draw: np.random.Generator) -> tuple[str, Floats]:
    """Arms of one of several awkward kinds, and its name."""
    arms, dim = int(draw.integers(2, 30)), int(draw.integers(1, 9))
    kind = ["powers", "near-collinear columns", "near-collinear arms", "units", "scale", "few arms", "zeros"][
        int(draw.integers(7))
    ]
    features = draw.standard_normal((arms, dim))
    if kind == "powers":
        features = np.linspace(0, 10 ** draw.uniform(0, 3), arms)[:, None] ** np.arange(dim)
    elif kind == "near-collinear columns":
        features[:, -1] = features[:, 0] + 10 ** draw.uniform(-12, -3) * features[:, -1]
    elif kind == "near-collinear arms":
        features[-1] = features[0] + 10 ** draw.uniform(-12, -3) * features[-1]
    elif kind == "units":
        features *= 10 ** draw.uniform(-6, 6, dim)
    elif kind == "scale":
        features *= 10 ** draw.uniform(-6, 6)
    elif kind == "few arms":
        features = features[:1]
    else:
        features[draw.random(features.shape) < 0.5] = 0.0
    return kind, features


def exact(features: Floats, counts: Floats, sums: Floats, ridge: float) -> tuple[Floats, Floats]:
    """Mean and squared width of every arm."""
    with mpmath.workdps(60):
        arms = mpmath.matrix(features.tolist())
        v = mpmath.mpf(ridge) * mpmath.eye(features.shape[1])
        b = mpmath.matrix(features.shape[1], 1)
        for k in np.flatnonzero(counts).tolist():
            v += int(counts[k]) * arms[k, :].T * arms[k, :]
            b += mpmath.mpf(float(sums[k])) * arms[k, :].T
        inverse = v**-1
        mean = [float(m) for m in arms * (inverse * b)]
        width2 = [float((arms[k, :] * inverse * arms[k, :].T)[0]) for k in range(len(features))]
    return np.array(mean), np.array(width2)


def _wrong(computed: tuple[Floats, Floats], right: tuple[Floats, Floats], squares: float, most: float = 1e-8) -> str:
    """Which of means and squared widths are off by more than `most`, as text; empty if none."""
    (mean, width2), (right_mean, right_width2) = computed, right
    widest = np.abs(width2 / np.where(right_width2 > 0, right_width2, 1.0) - (right_width2 > 0)).max()
    # |mean| <= width |r|: an error is small against the larger of the two.
    scale = np.maximum(np.abs(right_mean).max(), 1e-2 * np.sqrt(right_width2.max() * squares)) or 1.0
    off = np.abs(mean - right_mean).max() / scale
    wrong = [f"{name} off by {by:.1e}" for name, by in (("widths", widest), ("means", off)) if not by <= most]
    return ", ".join(wrong)


def numbers(count: int, folder: Path) -> Tally:
    """Play LinUCB on awkward problems: refused or warned of where float64 cannot hold them, or right at any time."""
    tally, draw = Tally(), generator(10)
    for i in range(count):
        kind, features = _features(draw)
        ridge, form = float(10 ** draw.uniform(-8, 8)), ("gram", "feature", "contexts")[int(draw.integers(3))]
        pulls = LONG if i % 25 == 24 else PULLS
        what = f"{kind} {features.shape}, ridge {ridge:.1e}, {form}, {pulls} pulls"
        if form == "contexts":
            case = what, features, ridge, pulls, draw
            tally.attempt(what, lambda case=case: _contexts(tally, *case), ("nothing is wrong",))
        else:
            policy = adadim.LinUCB(ridge=ridge, form=form)  # type: ignore[arg-type]
            _fixed(tally, what, features, policy, pulls, draw)
    return tally


def _fixed(
    tally: Tally, what: str, features: Floats, policy: adadim.LinUCB, pulls: int, draw: np.random.Generator
) -> None:
    learner = tally.attempt(what, lambda: policy.start(adadim.Problem(features, horizon=pulls, noise=0.1)))
    if learner is None:
        return
    squares = 0.0
    for t in range(1, pulls + 1):
        arm = int(draw.integers(len(features))) if t % 3 else int(learner.select())
        reward = float(draw.standard_normal())
        squares += reward * reward
        learner.learn([arm], [reward])
        if t in (1, 3, 30, pulls):
            state = learner.model.regression
            right = exact(features, state.counts[0], state.sums[0], policy.ridge)
            wrong = _wrong((state.mean[0], state.width2[0]), right, squares)
            tally.expect(not wrong, f"{what}: {wrong} after {t}")


def _contexts(tally: Tally, what: str, features: Floats, ridge: float, pulls: int, draw: np.random.Generator) -> None:
    """The same arms, some of them offered in each round: as exact as is said, or warned of and finite."""
    learner = adadim.LinUCB(ridge=ridge).start(
        adadim.Problem(arms=len(features), dim=features.shape[1], horizon=pulls, noise=0.1)
    )
    state, counts, sums, squares = learner.model.regression, np.zeros(len(features)), np.zeros(len(features)), 0.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for t in range(1, pulls + 1):
            offered = np.flatnonzero(draw.random(len(features)) < 0.7)
            offered = offered if len(offered) else np.arange(len(features))
            arm = int(offered[int(learner.select(features[offered])) if t % 3 == 0 else 0])
            reward = float(draw.standard_normal())
            squares, counts[arm], sums[arm] = squares + reward * reward, counts[arm] + 1, sums[arm] + reward
            learner.learn(features[[arm]], [reward])
            if t in (1, 3, 30, pulls):
                mean, width2 = state.predict(features[None], learner.everyone)
                if any(warning.category is adadim.PrecisionWarning for warning in caught):
                    wrong = "" if np.isfinite([mean, width2]).all() else "NaN"
                else:
                    most = max(1e-8, 8 * features.shape[1] * np.finfo(float).eps * state.variance_inflation(0).max())
                    wrong = _wrong((mean[0], width2[0]), exact(features, counts, sums, ridge), squares, most)
                tally.expect(not wrong, f"{what}: {wrong} after {t}")
