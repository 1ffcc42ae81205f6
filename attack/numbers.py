"""Numbers: awkward features, ridges and long runs against arithmetic of 60 digits."""

from __future__ import annotations

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


def _wrong(state: Any, features: Floats, ridge: float, squares: float) -> str:
    """What of a posterior is not right to 1e-8."""
    mean, width2 = exact(features, state.counts[0], state.sums[0], ridge)
    widest = np.abs(state.width2[0] / np.where(width2 > 0, width2, 1.0) - (width2 > 0)).max()
    # |mean| <= width |r|: an error is small against the larger of the two.
    scale = np.maximum(np.abs(mean).max(), 1e-2 * np.sqrt(width2.max() * squares)) or 1.0
    off = np.abs(state.mean[0] - mean).max() / scale
    found = [f"{name} off by {by:.1e}" for name, by in (("widths", widest), ("means", off)) if not by <= 1e-8]
    return ", ".join(found)


def numbers(count: int, folder: Path) -> Tally:
    """Play LinUCB on awkward problems: refused at the start, or right at any time."""
    tally, draw = Tally(), generator(10)
    for case in range(count):
        kind, features = _features(draw)
        ridge, form = float(10 ** draw.uniform(-8, 8)), ("gram", "feature")[int(draw.integers(2))]
        pulls = LONG if case % 25 == 24 else PULLS
        what = f"{kind} {features.shape}, ridge {ridge:.1e}, {form}, {pulls} pulls"
        policy = adadim.LinUCB(ridge=ridge, form=form)  # type: ignore[arg-type]
        learner = tally.attempt(what, lambda: policy.start(adadim.Problem(features, horizon=pulls, noise=0.1)))
        if learner is None:
            continue
        squares = 0.0
        for t in range(1, pulls + 1):
            arm = int(draw.integers(len(features))) if t % 3 else int(learner.select())
            reward = float(draw.standard_normal())
            squares += reward * reward
            learner.learn([arm], [reward])
            if t in (1, 3, 30, pulls):
                wrong = _wrong(learner.posterior, features, ridge, squares)
                tally.expect(not wrong, f"{what}: {wrong} after {t}")
    return tally
