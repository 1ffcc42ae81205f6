"""Prefix LinUCB: optimism or Thompson sampling with predictions averaged over how many features matter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from adadim.core.arrays import Array, as_numpy, like
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Rows
from adadim.core.ties import Ties
from adadim.models.averaged import AveragedPrefixes
from adadim.models.evidence import RAW, RIDGES
from adadim.policies.base import Learner, Memo, Policy, pull_counts
from adadim.policies.confidence import noise_radius
from adadim.policies.parameters import BayesFactor, Decay, RadiusScale, Taper

__all__ = ["PrefixLearner", "PrefixLinUCB"]


@dataclass(frozen=True)
class PrefixLinUCB(Policy):
    """Learn in all prefixes of the features at once and weigh each by how likely it is that d* is its length.

    Like `EvidenceLinUCB` it need not be told d*, the noise or the range of the means. It is better where the signal
    ends after few features, d* = 1 above all, and worse where it fades slowly or hides; docs/which-policy.md has both.

    Parameters
    ----------
    rule : {"optimism", "thompson"}
        Pull the arm with the largest mean plus radius times width; or draw d* and the parameters from their posterior
        and pull the arm that is best for them.
    taper : float
        Exponent s of the ridge lambda j^s inside every prefix.
    decay : float
        P(d* = m) is m^-decay beforehand, up to a constant.
    scale : float, optional
        Factor on the radius, by default 0.35; for "thompson" on the standard deviation of the draw, by default 0.7.
    factor : float
        Bayes factor that rules a ridge out. The smallest ridge not ruled out is used, as in `EvidenceLinUCB`.
    ties : {"random", "lowest"}
        How equal scores are resolved.

    Notes
    -----
    With L the Cholesky factor of V, z = L^-1 a, w = L^-1 b and tail_j = P(d* >= j | data), the average over all
    prefixes of an arm's mean is sum_j tail_j z_j w_j, its variance given d* sigma^2 sum_j tail_j z_j^2, and the
    variance of the mean between prefixes is added to that. One factor holds all of it, and features whose tail has
    vanished cost nothing. Nothing is proved about its regret.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=100, dim=40, intrinsic_dim=1, horizon=300, replications=range(4))
    >>> averaged = adadim.simulate(adadim.PrefixLinUCB(), instance)
    >>> bool(averaged.final.mean() < adadim.simulate(adadim.LinUCB(), instance).final.mean() / 3)
    True
    """

    rule: Literal["optimism", "thompson"] = "optimism"
    taper: Taper = 0.0
    decay: Decay = 0.0
    scale: RadiusScale | None = None
    factor: BayesFactor = 20.0
    ties: Ties = "random"

    def learner(self, problem: Problem, streams: Streams) -> Learner:
        return PrefixLearner(self, problem, streams)


class PrefixLearner(Learner):
    """State of `PrefixLinUCB`: the averaged regressions of each replication, on the host."""

    def __init__(self, policy: PrefixLinUCB, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy = policy
        first = problem.first_arms  # arms that have not arrived do not set the scale
        actions = problem.actions.in_like_units(RAW, first).rescaled(first)
        self.models = [
            AveragedPrefixes(as_numpy(actions.dense(r)), RIDGES[::2], policy.factor, policy.taper, policy.decay)
            for r in range(len(problem))
        ]
        thompson = policy.rule == "thompson"
        self.scale = policy.scale if policy.scale is not None else 0.7 if thompson else 0.35
        self.normal_streams = streams.child(0) if thompson else None
        self.radius = self.scale * noise_radius(1.0, problem.horizon, problem.arms)

    def scores(self, r: int) -> np.ndarray[Any, Any]:
        """Score of every arm in one replication."""
        model = self.models[r]
        noise2 = model.noise2 if model.noise2 > 0 else 1.0
        if self.normal_streams is not None:
            generator = self.normal_streams.generators[r]
            uniform, normals = generator.random(), generator.standard_normal(self.problem.dim)
            return model.drawn(uniform, normals, self.scale * math.sqrt(noise2))
        mean, variance = model.predict(noise2)
        return np.asarray(mean + self.radius * np.sqrt(variance))

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        scores = like(np.array([self.scores(r) for r in rows.ids.tolist()]), self.problem.reference)
        return self.largest(scores, rows, self.policy.ties), {}

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        pulls = zip(rows.ids.tolist(), as_numpy(arms).tolist(), as_numpy(rewards).tolist(), strict=True)
        for r, arm, reward in pulls:
            self.models[r].absorb(arm, reward)

    def expect(self, arms: Array, rows: Rows, memo: Memo) -> None:
        for r, arm in zip(rows.ids.tolist(), as_numpy(arms).tolist(), strict=True):
            self.models[r].expect(arm)

    def answer(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        pulls = zip(rows.ids.tolist(), as_numpy(arms).tolist(), as_numpy(rewards).tolist(), strict=True)
        for r, arm, reward in pulls:
            self.models[r].answer(arm, reward)

    def drop_expected(self) -> None:
        for model in self.models:
            model.drop_expected()

    def pull_sums(self) -> tuple[Array, Array, Array]:
        counts, sums = (np.array([getattr(m, name) for m in self.models]) for name in ("counts", "sums"))
        return counts, sums, np.array([m.squares for m in self.models])

    def descriptions(self) -> list[dict[str, Any]]:
        """Pulls, the likeliest d*, and the ridge and noise believed in, of each replication."""
        return [
            {
                "replication": r,
                "dim": int(np.argmax(model.chances)) + 1,
                "features_in_use": model.active,
                **pull_counts(model.counts),
                "ridge": model.ridge,
                "noise": None if math.isnan(model.noise2) else math.sqrt(model.noise2),
            }
            for r, model in zip(self.problem.replications, self.models, strict=True)
        ]
