"""The certificate: an ellipsoid that holds theta at all times, and what follows from it about regret.

`Ellipsoid` has the quantities of the theorem of `adadim.Certified`, `Certificate` what it says of a run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from adadim.core.arrays import Array, clamp, namespace
from adadim.core.problem import Problem
from adadim.policies.confidence import root_radius

MAX_ROUNDS = 2**60  # no certificate is awaited for longer
SAYS_NOTHING = 0.99  # a bound above this share of the largest possible regret


@dataclass(frozen=True)
class Ellipsoid:
    """Sets ||theta - theta_hat||_V <= b_t, which all hold theta with probability 1 - delta, and bounds by them.

    Parameters
    ----------
    dim : int
        Number of parameters d.
    noise, theta_norm, ridge, delta : float
        sigma, S, lambda and delta.
    reward_bounds : (float, float), optional
        Between which all means lie.
    """

    dim: int
    noise: float
    theta_norm: float
    ridge: float
    delta: float
    reward_bounds: tuple[float, float] | None = None

    def radius(self, logdet: Array) -> Array:
        """Radius b_t, given gamma_t = ln det(V / ridge)."""
        return root_radius(self.noise, self.ridge, self.theta_norm, self.delta, logdet)

    def spread(self, longest: Array) -> Array:
        """How far two means of a round can be apart, D, for arms of norm at most `longest`."""
        length = 2 * self.theta_norm * longest
        return length if self.reward_bounds is None else clamp(length, -math.inf, self._between)

    @property
    def _between(self) -> float:
        assert self.reward_bounds is not None
        return self.reward_bounds[1] - self.reward_bounds[0]

    def information(self, pulls: Array, longest: Array) -> Array:
        """Gamma: the largest that gamma can be after so many pulls of arms of norm at most `longest`."""
        xp = namespace(longest)
        return self.dim * xp.log1p(pulls * longest**2 / (self.dim * self.ridge))

    def bound(self, rounds: Array, pulls: Array, longest: Array, spread: Array) -> Array:
        """B(t) = 2 max(D/2, b) sqrt(t Gamma / ln 2), with Gamma and b after `pulls`, at least t, logged ones too."""
        xp = namespace(longest)
        most = self.information(pulls, longest)
        return 2 * xp.maximum(spread / 2, self.radius(most)) * xp.sqrt(rounds * most / math.log(2))

    def delayed_bound(
        self, rounds: Array, pulls: Array, longest: Array, spread: Array, delay: Array, lost: Array
    ) -> Array:
        """What the widths of all rounds sum up to at most, where rewards come at most `delay` rounds late.

        `lost` rounds are those whose reward the ridge never learns, or whose arm another has chosen.
        """
        xp = namespace(longest)
        prompt, most = self.bound(rounds, pulls, longest, spread), self.information(pulls, longest)
        late = math.sqrt(2) * prompt + spread * delay * most / math.log(2)
        return xp.where(delay > 0, late, prompt) + spread * lost

    def intervals(self, mean: Array, width2: Array, logdet: Array) -> tuple[Array, Array, Array]:
        """Lower and upper bounds on the means of all arms, (n, K), within the bounds on rewards; and 2 b_t w."""
        xp = namespace(mean)
        half = self.radius(logdet)[:, None] * xp.sqrt(clamp(width2, 0.0))
        lower, upper = mean - half, mean + half
        if self.reward_bounds is not None:
            low, high = self.reward_bounds
            lower, upper = clamp(lower, low, high), clamp(upper, low, high)
        return lower, upper, 2 * half


def default_ridge(dim: int, noise: float, theta_norm: float) -> float:
    """2.5 d sigma^2 / S^2, close to the ridge for which B is smallest: the usual sigma^2 doubles it."""
    return float(2.5 * dim * (noise / theta_norm) ** 2)


def parameter_count(problem: Problem) -> int:
    """How many parameters a problem has."""
    return problem.dim * (problem.arms if problem.disjoint else 1)


@dataclass(frozen=True)
class Certificate:
    """What is certain of the regret of a run so far, with probability 1 - `delta` for all rounds at once.

    Attributes
    ----------
    rounds : int
        Decisions so far, T.
    regret_at_most : float
        C_T, a bound on their regret.
    promised : float
        What `regret_at_most` cannot exceed, known without the data: (mu + 1) B(T) where rewards come at once.
        Infinite where another policy decides.
    largest_possible : float
        The regret of the worst arm in every round, at most.
    overruled : int
        Decisions in which the certificate's arm was played in the place of the policy's.
    delta : float
        Probability that the certificate is wrong.
    can_be_best : tuple, or None
        Arms that can still be the best: their numbers, or their names. None where it was not told the arms.
    arms : int
        How many arms there were to compare.
    dim : int
        Number of parameters.
    says_something_at : int, or None
        From how many decisions on the promise is smaller than `largest_possible`; None where there is no promise.

    Examples
    --------
    >>> import adadim, numpy as np
    >>> learner = adadim.Certified().start(adadim.Problem(np.eye(3), horizon=None, noise=0.1))
    >>> learner.update(learner.select(), 0.5)
    >>> print(str(learner.certificate()).partition(". With")[0])
    Says nothing yet: after 1 decision no bound on the regret is below the largest possible, 2
    """

    rounds: int
    regret_at_most: float
    promised: float
    largest_possible: float
    overruled: int
    delta: float
    can_be_best: tuple[Any, ...] | None
    arms: int
    dim: int
    says_something_at: int | None

    @property
    def says_nothing(self) -> bool:
        """Whether the bound is no better than what is known without any data."""
        return self.regret_at_most >= SAYS_NOTHING * self.largest_possible

    def __str__(self) -> str:
        return " ".join([self._bound_in_words(), *self._arms_in_words()])

    def _bound_in_words(self) -> str:
        if not self.rounds:
            return "Says nothing yet: there is no decision so far."
        decisions = f"{self.rounds:,} decision{'' if self.rounds == 1 else 's'}"
        if self.says_nothing:
            words = (
                f"Says nothing yet: after {decisions} no bound on the regret is below the largest possible, "
                f"{_rounded_text(self.largest_possible)}."
            )
            if self.says_something_at is None:
                return words
            about = _rounded_text(self.says_something_at, 2)
            return (
                f"{words} With {self.dim:,} feature{'' if self.dim == 1 else 's'} it will at about {about} decisions."
            )
        words = (
            f"After {decisions} the regret is at most {_rounded_text(self.regret_at_most)} with probability "
            f"{1 - self.delta:g}; the largest possible is {_rounded_text(self.largest_possible)}."
        )
        if self.overruled:
            words += f" The policy was overruled in {self.overruled:,}."
        return words

    def _arms_in_words(self) -> list[str]:
        if self.can_be_best is None:
            return []
        return [f"{len(self.can_be_best):,} of {self.arms:,} arms can still be best."]

    def _repr_html_(self) -> str:
        return f"<p>{self}</p>"


def rounds_until_promise(ellipsoid: Ellipsoid, mu: float, longest: Array, spread: Array) -> int | None:
    """From how many rounds on (mu + 1) B(t) is below D t; None where it never is. `longest` and `spread` are (1,)."""

    def holds(t: int) -> bool:
        promised = (mu + 1) * ellipsoid.bound(float(t), float(t), longest, spread)
        return bool(promised[0] < spread[0] * t)

    high = 1
    while not holds(high):
        high *= 2
        if high > MAX_ROUNDS:
            return None
    low = high // 2
    while high - low > 1:  # B(t) / t falls in t
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _rounded_text(value: float, digits: int = 4) -> str:
    """A number with so many significant digits, thousands separated."""
    if value <= 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = digits - 1 - math.floor(math.log10(value))
    text = f"{round(value, decimals):,.{max(0, decimals)}f}"
    return text.rstrip("0").rstrip(".") if decimals > 0 else text
