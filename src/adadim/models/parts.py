"""What the parts of a linear model that can be exchanged have to answer: likelihood, memory, and how it predicts.

Each class here is also the plainest part of its kind, which leaves everything as it is: rewards that are taken as they
come, pulls that all count alike, means and widths as the regression has them. Another part is a class that overrides
what it changes. Policies name likelihoods and memories: `likelihoods` and `fading` end their classes with these names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adadim.core.arrays import Array, FloatArray
from adadim.core.problem import Problem
from adadim.core.rewards import GAUSSIAN
from adadim.core.rows import Replications
from adadim.core.state import stateless
from adadim.models.statistics import Moments

if TYPE_CHECKING:
    from adadim.models.offers import Memo, Offer
    from adadim.models.priors import Belief, Prior

Numbers = np.ndarray[Any, np.dtype[np.int64]]


class Due(NamedTuple):
    """The replications of which something has to be found again."""

    beliefs: Sequence[int] = ()  # the belief, by the sums as they are
    sums: Sequence[int] = ()  # the sums too: `Memory.sums`, or what the likelihood makes of the pulls


NOTHING_DUE = Due()


class Remade(NamedTuple):
    """Sums over the data of a replication that were made again."""

    data: Sequence[Moments]  # of each parameter
    number: int  # the decision that counts 1 in them
    waiting: float | None = None  # how much waits for its reward; None for the number of pending decisions


@stateless
class Likelihood:
    """What a reward says about the mean of its arm: Gaussian rewards are taken as they are.

    Pure functions, which models and agents share. A likelihood that is not Gaussian is one of
    `likelihoods.ExpandedLikelihood`.
    """

    kind = GAUSSIAN  # of the rewards
    noise: float | None = None  # of what is regressed on, where the likelihood says it
    expands = False  # whether pulls and rewards are weighed about a point

    def played(self, problem: Problem) -> tuple[Problem, Problem]:
        """The problem with rewards of this kind, and as the model sees it."""
        return problem, problem

    def rewards(self, count: int, offer: Any) -> Rewards:
        """What a model of so many replications keeps of the rewards."""
        return Rewards()

    def weights(self, point: FloatArray | None, features: FloatArray) -> FloatArray | None:
        """Weights (n,) of pulls of features (n, d) about a point (1 + d,); None for 1."""
        return None

    def working(self, point: FloatArray | None, features: FloatArray, rewards: FloatArray) -> FloatArray:
        """The rewards (n,) of the linear model in the place of these."""
        return rewards

    def in_reward_units(self, scores: Array, costs: Array, offset: Any) -> Array:
        """Scores (..., K) in units of rewards, in which the costs (n, K) of the arms are; the offset gives (n, 1)."""
        return scores

    def estimates(self, mean: FloatArray, width2: FloatArray, noise: Any) -> tuple[FloatArray, FloatArray]:
        """Estimated mean rewards and standard deviations, by mean, squared width and noise of the linear model."""
        return mean, noise * np.sqrt(np.maximum(width2, 0.0))


class Rewards:
    """What a model keeps of the rewards beside its regression: nothing."""

    fits = False  # whether it keeps pulls, and says when the sums are made again from them, and the belief with these

    def keep(self, arms: Array, rewards: Array | None, rows: Replications, memo: Memo) -> None:
        """Keep pulls; without rewards, as pending."""
        return

    def resolve(self, rewards: Array, rows: Replications, memo: Memo) -> None:
        """Give pending pulls their rewards."""
        return

    def clear_pending(self) -> None:
        """Forget pending pulls."""
        return

    def expand(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> tuple[Array | None, Array]:
        """Roots of the weights of pulls (n,), None for 1, and the rewards of the linear model in the place of these."""
        return None, rewards

    def roots(self, arms: Array, rows: Replications, memo: Memo) -> Array | None:
        """The first of `expand`, of pulls without rewards."""
        return None

    def roots_in_turn(self, rounds: Iterable[Array]) -> Iterable[Array | None]:
        """Roots (K,) of the weights of arms (K, d) of several rounds, in one replication."""
        return repeat(None)

    def due(self, rows: Replications) -> Sequence[int]:
        """The replications whose sums have to be made again."""
        return ()

    def recount(self, r: int, memory: Memory, number: int) -> None:
        """From now on, count what a replication was told by the weights of its decisions."""
        return

    def sums(self, r: int, prior: Prior, memory: Memory, number: int) -> Remade:
        """The sums over the data of a replication as of a decision."""
        return memory.sums(r, number)

    def restart(self, sums: Moments) -> None:
        """Begin with these sums (one replication)."""
        return

    def unweighted(self, data: list[Moments], pulls: Sequence[float]) -> list[Moments]:
        """Sums, one for each replication, with weights that are 1 on average."""
        return data

    def squares(self) -> FloatArray | None:
        """Sums of squared rewards of every replication, (R,), where the regression has those of others."""
        return None

    def describe(self, r: int) -> dict[str, Any]:
        """Entries of `Learner.describe`."""
        return {}


class Memory:
    """How much a pull counts by its age: all pulls count alike."""

    forgets = False  # whether pulls count differently: arms that stay are taken as rows then
    half_life: float | None = None  # of the sums of a regression at the start; None where they do not fade
    on_host = False  # whether the model has to compute with NumPy
    each_decision = False  # whether a learned prior is found for every decision, not after 1, 2, 4, ... rewards

    def begin(self, offer: Offer, decisions: Array) -> None:
        """Begin with what is offered; `decisions` counts those of each replication, (R,)."""
        return

    def prepare(self, rows: Replications) -> Due:
        """Bring the pulls to their weights in the next decision."""
        return NOTHING_DUE

    def dated(self, inputs: Any, memo: Memo) -> Any:
        """What the regression takes of a pull: its inputs, with the decision if their sums fade."""
        return inputs

    def add_pending(self, arms: Array, rows: Replications, memo: Memo) -> None:
        """Count pulls whose rewards are pending."""
        return

    def count_beside_pending(self, arms: Array, rows: Replications, memo: Memo) -> None:
        """Count pulls that are answered at once, beside pending ones."""
        return

    def clear_pending(self) -> None:
        """Forget pending pulls."""
        return

    def learn(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> Due:
        """Learn the rewards of pulls, after the regression has."""
        return NOTHING_DUE

    def sums(self, r: int, number: int) -> Remade:
        """The sums over the data of a replication as of a decision, where `Due.sums` has named it."""
        raise NotImplementedError

    def loaded(self, r: int, number: int) -> None:
        """Take note that the sums of a replication were made again as of a decision."""
        return

    def weights(self, r: int, numbers: Numbers, number: int) -> FloatArray | None:
        """Weights of the pulls of decisions `numbers` (n,) as of a later one; None for 1."""
        return None

    def describe(self, r: int) -> dict[str, Any]:
        """Entries of `Learner.describe`."""
        return {}


class Prediction(ABC):
    """Mean and squared width of arms; an `offers.Offer` is the one that has those of the regression."""

    @abstractmethod
    def predict(self, rows: Replications) -> tuple[Array, Array]:
        """Mean and squared width of every arm offered to `rows`, (n, K); pending pulls count in the width."""

    def prepare(self, rows: Replications) -> None:
        """Bring a regression that keeps its sums alone to the decision to be made."""
        return

    def follow(self, r: int, belief: Belief) -> None:
        """Take note of a new belief."""
        return

    def describe(self, r: int) -> dict[str, Any]:
        """Entries of `Learner.describe`."""
        return {}
