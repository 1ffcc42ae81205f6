"""Numbers: awkward features, ridges and long runs against arithmetic of 60 digits."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import mpmath
import numpy as np

import adadim
from adadim.core.rows import Replications
from adadim.models import context_posterior
from attack.damage import generator
from attack.tally import Tally

Floats = np.ndarray[Any, np.dtype[np.float64]]
PULLS = 300
LONG = 100_000


def _powers(features: Floats, draw: np.random.Generator) -> Floats:
    return np.linspace(0, 10 ** draw.uniform(0, 3), len(features))[:, None] ** np.arange(features.shape[1])


def _columns(features: Floats, draw: np.random.Generator) -> Floats:
    features[:, -1] = features[:, 0] + 10 ** draw.uniform(-10, -5) * features[:, -1]
    return features


def _arms(features: Floats, draw: np.random.Generator) -> Floats:
    features[-1] = features[0] + 10 ** draw.uniform(-12, -3) * features[-1]
    return features


def _zeros(features: Floats, draw: np.random.Generator) -> Floats:
    features[draw.random(features.shape) < 0.5] = 0.0
    return features


def _units(features: Floats, draw: np.random.Generator) -> Floats:
    dim = features.shape[1]
    if draw.random() < 0.5:  # some columns in the same large units
        return features * np.where(draw.random(dim) < 0.6, 10 ** draw.uniform(5, 9), 1.0)
    return features * 10 ** draw.uniform(-4, 8, dim)


# In this order, and each with its share of the problems: that columns nearly depend shows only if they do in the end.
KINDS: list[tuple[str, float, Callable[[Floats, np.random.Generator], Floats]]] = [
    ("powers", 0.15, _powers),
    ("zeros", 0.15, _zeros),
    ("near-dependent columns", 0.6, _columns),
    ("near-dependent arms", 0.25, _arms),
    ("raw units", 0.6, _units),
    ("scaled", 0.2, lambda features, draw: features * 10 ** draw.uniform(-6, 6)),
    ("one arm", 0.05, lambda features, draw: features[:1]),
]


def _features(draw: np.random.Generator) -> tuple[str, Floats]:
    """Few or many arms, awkward in several ways at once, and the names of these."""
    most = (6, 30, 60)[int(draw.integers(3))]
    features, names = draw.standard_normal((int(draw.integers(2, most)), int(draw.integers(1, 9)))), []
    for name, share, change in KINDS:
        if draw.random() < share:
            features = change(features, draw)
            names.append(name)
    return " + ".join(names) or "plain", features


def _design(features: Floats, counts: Floats, ridge: float) -> mpmath.matrix:
    """V, in as many digits as mpmath works with."""
    arms, v = mpmath.matrix(features.tolist()), mpmath.mpf(ridge) * mpmath.eye(features.shape[1])
    for k in np.flatnonzero(counts).tolist():
        v += int(counts[k]) * arms[k, :].T * arms[k, :]
    return v


def exact(features: Floats, counts: Floats, sums: Floats, ridge: float) -> tuple[Floats, Floats]:
    """Mean and squared width of every arm."""
    with mpmath.workdps(60):
        arms, inverse = mpmath.matrix(features.tolist()), _design(features, counts, ridge) ** -1
        b = arms.T * mpmath.matrix(sums.tolist())
        mean = [float(m) for m in arms * (inverse * b)]
        width2 = [float((arms[k, :] * inverse * arms[k, :].T)[0]) for k in range(len(features))]
    return np.array(mean), np.array(width2)


def _wrong(
    computed: tuple[Floats, Floats], right: tuple[Floats, Floats], squares: float, most: float, share: float
) -> str:
    """Which of means and squared widths are off by more than `most`, as text; empty if none."""
    (mean, width2), (right_mean, right_width2) = computed, right
    widest = np.abs(width2 / np.where(right_width2 > 0, right_width2, 1.0) - (right_width2 > 0)).max()
    # |mean| <= width |r|: an error is small against the larger of the mean and a share of that.
    scale = np.maximum(np.abs(right_mean).max(), share * np.sqrt(right_width2.max() * squares)) or 1.0
    off = np.abs(mean - right_mean).max() / scale
    wrong = [f"{name} off by {by:.1e}" for name, by in (("widths", widest), ("means", off)) if not by <= most]
    return ", ".join(wrong)


def numbers(count: int, folder: Path) -> Tally:
    """Ridge regression on awkward problems: refused or warned of where float64 cannot hold them, or right at any time.

    The kinds of features, the ridge, few or many arms, NumPy or torch and late rewards are combined at random.
    """
    tally, draw = Tally(), generator(10)
    for i in range(count):
        kind, features = _features(draw)
        ridge, form = (
            float(10 ** draw.uniform(-8, 8 if draw.random() < 0.2 else 2)),
            ("gram", "feature", "contexts")[int(draw.integers(3))],
        )
        pulls, late, library = LONG if i % 25 == 24 else PULLS, draw.random() < 0.3, "numpy"
        if find_spec("torch") and pulls == PULLS and draw.random() < 0.2:
            library = "torch"
        what = f"{kind} {features.shape}, ridge {ridge:.1e}, {form}, {library}, {pulls} pulls{', late' * late}"
        case = _Case(what, features, ridge, library, form)
        tally.attempt(what, lambda case=case, pulls=pulls, late=late: _play(tally, case, pulls, late, draw))
    return tally


class _Case:
    """One regression, fed through the state of a learner's model, beside counts from which the right answer follows."""

    def __init__(self, what: str, features: Floats, ridge: float, library: str, form: str) -> None:
        self.what, self.features, self.ridge, self.form = what, features, ridge, form
        self.as_array: Callable[..., Any] = np.asarray
        if library == "torch":
            import torch  # it need not be installed

            self.as_array = torch.as_tensor
        self.counts, self.sums, self.asked = (np.zeros(len(features)) for _ in range(3))
        self.squares = 0.0

    def start(self, pulls: int) -> None:
        dim = self.features.shape[1]
        if self.form == "contexts":
            self.state: Any = context_posterior(self.as_array(np.zeros(1)), dim, self.ridge)
            self.rows = Replications.all(self.state.theta)
        else:
            problem = adadim.Problem(self.as_array(self.features), horizon=pulls, noise=0.1)
            self.state = adadim.LinUCB(ridge=self.ridge, form=self.form).start(problem).model.regression  # type: ignore[arg-type]
            self.rows = self.state.everyone

    def _pulled(self, arm: int) -> Any:
        return self.as_array(self.features[[arm]] if self.form == "contexts" else np.array([arm]))

    def expect(self, arm: int) -> None:
        self.state.add_pending(self._pulled(arm), self.rows)
        self.asked[arm] += 1

    def answer(self, arm: int, reward: float, expected: bool) -> None:
        learn = self.state.resolve if expected else self.state.absorb
        learn(self._pulled(arm), self.as_array(np.array([reward])), self.rows)
        self.asked[arm] += not expected
        self.counts[arm] += 1
        self.sums[arm] += reward
        self.squares += reward * reward

    def shown(self) -> tuple[Floats, Floats]:
        """Means by the rewards known, and squared widths in which open pulls count."""
        state = self.state
        if self.form == "contexts":
            mean, width2 = state.predict(self.as_array(self.features[None]), self.rows)
        else:
            mean, width2 = state.mean, state.open_width2
        return np.asarray(mean[0]), np.asarray(width2[0])

    def wrong(self) -> str:
        mean, width2 = exact(self.features, self.counts, self.sums, self.ridge)
        if (self.asked != self.counts).any():
            _, width2 = exact(self.features, self.asked, 0.0 * self.sums, self.ridge)
        most, share = 1e-8, 1e-2  # means of fixed arms are more exact than is promised
        if self.form == "contexts":  # see docs/reliability.md
            inflated = max(inflation(self.features, counts, self.ridge) for counts in (self.counts, self.asked))
            most, share = max(most, 8 * self.features.shape[1] * np.finfo(float).eps * inflated), 1.0
        return _wrong(self.shown(), (mean, width2), self.squares, most, share)


def inflation(features: Floats, counts: Floats, ridge: float) -> float:
    """The largest V_jj (V^-1)_jj."""
    with mpmath.workdps(60):
        v = _design(features, counts, ridge)
        inverse = v**-1
        return max(float(v[j, j] * inverse[j, j]) for j in range(features.shape[1]))


def _play(tally: Tally, case: _Case, pulls: int, late: bool, draw: np.random.Generator) -> None:
    """Pull arms at random and the widest; where rewards are late, each comes some pulls after its decision."""
    waiting: list[tuple[int, float]] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        case.start(pulls)
        for t in range(1, pulls + 1):
            arm = int(draw.integers(len(case.features))) if t % 3 else int(case.shown()[1].argmax())
            reward = float(draw.standard_normal())
            if late:
                case.expect(arm)
                waiting.append((arm, reward))
                if len(waiting) > 5:
                    case.answer(*waiting.pop(int(draw.integers(5))), expected=True)
            else:
                case.answer(arm, reward, expected=False)
            if t in (1, 3, 10, 30, 100, pulls):
                if any(warning.category is adadim.PrecisionWarning for warning in caught):
                    wrong = "" if np.isfinite(case.shown()).all() else "NaN"
                else:
                    wrong = case.wrong()
                tally.expect(not wrong, f"{case.what}: {wrong} after {t}")
