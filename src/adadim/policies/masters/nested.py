"""LinUCB in nested dimensions as the bases of a master, all at once (torch)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TypeGuard

import numpy as np

from adadim.arrays import Array, Rows, as_numpy, indices, like, masked, take
from adadim.policies.base import Policy
from adadim.policies.confidence import optimism
from adadim.policies.linucb import LinUCB
from adadim.policies.masters.bases import Bases
from adadim.policies.ties import argmax
from adadim.posterior.lanes import Lanes
from adadim.problem import Problem
from adadim.randomness import Streams

__all__ = ["NestedLinUCB", "are_nested"]


def are_nested(policies: Sequence[Policy]) -> TypeGuard[Sequence[LinUCB]]:
    """Whether the policies are LinUCB with equal hyper-parameters in different dimensions."""
    first = policies[0]
    if not isinstance(first, LinUCB) or first.radius == "oful":
        return False
    return all(isinstance(p, LinUCB) and replace(p, dim=first.dim) == first for p in policies)


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
        super().__init__((), problem.actions.base)
        self.policy, self.xp = policies[0], problem.xp
        dims = [problem.dim if p.dim is None else p.dim for p in policies]
        self.lanes = Lanes(problem.actions, dims, self.policy.ridge)
        excluded, radii = np.ones((len(dims), problem.arms), dtype=bool), []
        for lane, dim in enumerate(dims):
            seen, pull = problem.actions.truncate(dim, supported=self.policy.arms == "supported")
            excluded[lane, as_numpy(pull)] = False
            radii.append(self.policy.width_multiplier(problem, seen.arms))
        self.radii = like(np.asarray(radii), self.reference)
        self.excluded = like(excluded, self.reference) if excluded.any() else None
        self._ids = indices(self.reference)
        if self.policy.ties == "random":
            tables = np.stack([stream.table(problem.horizon) for stream in streams], axis=1)
            self._uniforms = like(tables, self.reference)

    def __len__(self) -> int:
        return len(self.lanes.dims)

    def ask(self, chosen: Array, rows: Rows) -> Array:
        """Arms that the chosen bases propose, one for each replication in `rows`."""
        xp, ids = self.xp, take(self._ids, rows)
        lanes = self.lanes
        radius = self.radii[chosen][:, None]
        scores = optimism(lanes.mean[ids, chosen], lanes.width2[ids, chosen], radius, self.policy.bonus)
        played = lanes.pulls[ids, chosen]
        if self.policy.first_pull == "uniform":
            scores = xp.where((played > 0)[:, None], scores, xp.zeros_like(scores))
        if self.excluded is not None:
            scores = xp.where(self.excluded[chosen], xp.full_like(scores, -np.inf), scores)
        # A base draws once for each of its rounds, so the number of those is where its stream has come to (and starts
        # anew in case somebody plays on after the horizon).
        draws = self._uniforms[ids, chosen, played % self._uniforms.shape[2]] if self.policy.ties == "random" else None
        return argmax(scores, draws)

    def teach(self, chosen: Array, arms: Array, rewards: Array, rows: Rows) -> None:
        """Tell the chosen bases, and only them, what came of it."""
        mask, chosen, arms, rewards = masked(rows, len(self._ids), chosen, arms, rewards)
        self.lanes.absorb(chosen, arms, rewards, mask)

    def advance(self, rows: Rows) -> None:
        """Do nothing: no operation is put off."""

    def phase(self) -> Hashable:
        """As `Learner._phase`."""
        return type(self).__name__
