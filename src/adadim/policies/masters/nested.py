"""LinUCB in nested dimensions as the bases of a master, all at once (torch)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TypeGuard

import numpy as np

from adadim.backend.arrays import Array, as_numpy, like, namespace
from adadim.backend.rows import Rows
from adadim.backend.ties import argmax
from adadim.policies.base import Memo, Policy
from adadim.policies.linucb import LinUCB
from adadim.policies.masters.bases import Bases
from adadim.posterior.base import check_precision
from adadim.posterior.lanes import Lanes
from adadim.problem import Problem
from adadim.randomness import DeviceDraws, Streams

__all__ = ["NestedLinUCB", "are_nested"]


def are_nested(policies: Sequence[Policy]) -> TypeGuard[Sequence[LinUCB]]:
    """Whether the policies are LinUCB with equal hyper-parameters in different dimensions."""
    first = policies[0]
    if not isinstance(first, LinUCB) or first.radius == "oful":
        return False
    return all(type(p) is type(first) and replace(p, dim=first.dim) == first for p in policies)


class NestedLinUCB(Bases):
    """The bases of a master that are `LinUCB` up to their dimension; does what `Bases` does, with `Lanes`.

    Parameters
    ----------
    policies : sequence of LinUCB
        The bases.
    problem : Problem
        With torch tensors.
    streams : sequence of Streams
        One for each base.
    """

    def __init__(self, policies: Sequence[LinUCB], problem: Problem, streams: Sequence[Streams]) -> None:
        super().__init__((), problem.reference)
        self.policy = policies[0]
        dims = [problem.dim if p.dim is None else p.dim for p in policies]
        check_precision(problem.actions, self.policy.ridge, problem.horizon)
        self.lanes = Lanes(problem.actions, dims, self.policy.ridge)
        excluded, radii = np.ones((len(dims), problem.arms), dtype=bool), []
        for lane, dim in enumerate(dims):
            seen, pull = problem.actions.truncate(dim, supported=self.policy.only_supported)
            excluded[lane, as_numpy(pull)] = False
            radii.append(self.policy.width_multiplier(problem, seen.arms))
        self.radii = like(np.asarray(radii), self.reference)
        self.excluded = like(excluded, self.reference) if excluded.any() else None
        if self.policy.ties == "random":
            self.draws = DeviceDraws(streams, self.reference, problem.horizon)

    def __len__(self) -> int:
        return len(self.lanes.dims)

    def choose(self, chosen: Array, rows: Rows) -> tuple[Array, Memo]:
        """Arms that the chosen bases propose, one for each replication in `rows`."""
        lanes, at = self.lanes, (rows.positions, chosen)
        scores = self.policy.scores(lanes.mean[at], lanes.width2[at], self.radii[chosen][:, None], lanes.pulls[at])
        xp = namespace(scores)
        if self.excluded is not None:
            scores = xp.where(self.excluded[chosen], xp.full_like(scores, -np.inf), scores)
        if rows.allowed is not None:
            scores = xp.where(rows.allowed, scores, xp.full_like(scores, -np.inf))
        return argmax(scores, self.draws.uniforms(rows, chosen) if self.policy.ties == "random" else None), {}

    def absorb(self, chosen: Array, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        """Let the chosen bases, and only them, learn from the rewards."""
        masked, chosen, arms, rewards = rows.masked(chosen, arms, rewards)
        self.lanes.absorb(chosen, arms, rewards, masked)

    def sequence(self) -> Hashable:
        """As `Learner.sequence`."""
        return type(self).__name__
