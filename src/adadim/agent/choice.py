"""Which arm a learner chooses, and with which probability; the randomness is that of the decision's number."""

from __future__ import annotations

from typing import Any

import numpy as np

from adadim.backend.ties import Ties, argmax, tied_for_first
from adadim.policies.sums import LearnsFromSums
from adadim.randomness import Purpose, Streams

__all__ = ["choose"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

DRAWS = 1000  # further draws, from which the probability of a random choice is estimated


def choose(
    learner: LearnsFromSums, features: FloatArray, costs: FloatArray | None, ties: Ties, seed: int, number: int
) -> tuple[int, float]:
    """Position of the arm chosen among arms (K, d), and the probability that it was to be chosen.

    Exact where the scores are not random: 1, or 1 / k if k arms tie for the first place. Where they are drawn, the
    share of draws that choose this arm, the one that decided and 1000 more; it is never 0.
    """
    generator = Streams(seed, Purpose.POLICY, [number]).generators[0]
    uniform = np.array([generator.random()])
    scores = learner.scores_of(features, number - 1, generator, 1 + DRAWS if learner.draws_scores else 1)
    if costs is not None:
        scores = scores - costs
    chosen = int(argmax(scores[:1], uniform if ties == "random" else None)[0])
    tied = tied_for_first(scores)
    if ties == "lowest":
        return chosen, float((tied.argmax(axis=1) == chosen).mean())
    return chosen, float((tied[:, chosen] / tied.sum(axis=1)).mean())
