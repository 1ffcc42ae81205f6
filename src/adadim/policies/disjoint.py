"""LinUCB with a model for each arm, where the round brings one context for all of them.

The same as LinUCB on the products of every arm with every covariate, whose V is block diagonal with a block for each
arm: a decision costs K d^2 in place of K (K d)^2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from adadim.backend.arrays import Array
from adadim.backend.rows import Rows
from adadim.policies.base import Learner, Memo
from adadim.posterior.context import ContextPosterior
from adadim.problem import Problem
from adadim.randomness import Streams

if TYPE_CHECKING:
    from adadim.policies.linucb import LinUCB

__all__ = ["DisjointLinUCBLearner"]


class DisjointLinUCBLearner(Learner):
    """State of `LinUCB` on a problem with ``disjoint=True``: a regression for each arm of each replication."""

    no_contexts = ""
    no_disjoint = ""
    takes_any_arm = False

    def __init__(self, policy: LinUCB, problem: Problem, streams: Streams) -> None:
        super().__init__(problem, streams)
        self.policy = policy
        self.dim = policy.checked_dim(problem)
        self.posterior = ContextPosterior(len(problem) * problem.arms, self.dim, policy.ridge)
        self.clock = policy.clock(problem)
        self._radius = np.asarray(policy.width_multiplier(problem, problem.arms)) if self.clock is None else None

    def radius(self, rows: Rows) -> Any:
        """Current multiplier of the width; one per replication for "oful" and without end."""
        policy, problem = self.policy, self.problem
        if self.clock is None and policy.radius != "oful":
            return self._radius
        shape, t = (len(problem), problem.arms), None
        if self.clock is not None:
            t = self.clock.now(rows, self.posterior.pulls.reshape(shape).sum(axis=1))
        if policy.radius == "oful":  # det(V) is the product over the blocks
            return policy.adaptive_radius(problem, rows.of(self.posterior.logdet.reshape(shape).sum(axis=1)), t)
        return policy.width_multiplier(problem, problem.arms, t)

    def predict(self, contexts: Array, rows: Rows) -> tuple[Array, Array]:
        """Mean and squared width of every arm, (n, K), in the contexts (n, d) of `rows`."""
        state, arms = self.posterior, self.problem.arms
        if len(contexts) == 1:
            mean, width2 = state.predict_each(contexts[0], rows.ids.item(0) * arms, arms)
            return mean[None], width2[None]
        known = [state.predict_each(c, r * arms, arms) for r, c in zip(rows.ids.tolist(), contexts, strict=True)]
        return np.stack([mean for mean, _ in known]), np.stack([width2 for _, width2 in known])

    def choose(self, rows: Rows) -> tuple[Array, Memo]:
        assert rows.features is not None
        contexts = rows.features[:, : self.dim].copy()
        mean, width2 = self.predict(contexts, rows)
        scores = self.policy.scores(mean, width2, self.radius(rows), rows.ids)
        chosen = self.largest(scores, rows, self.policy.ties)
        if self.clock is not None:
            self.clock.tick(rows)
        return chosen, {"context": contexts}

    def absorb(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        self._pull(self.posterior, arms, rewards, rows, memo)
        if self.posterior.asked is not None:
            self._pull(self.posterior.asked, arms, rewards * 0.0, rows, memo)

    def expect(self, arms: Array, rows: Rows, memo: Memo) -> None:
        if self.posterior.asked is None:
            self.posterior.asked = self.posterior.without_rewards()
        self._pull(self.posterior.asked, arms, np.zeros(len(arms)), rows, memo)

    def answer(self, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        self._pull(self.posterior, arms, rewards, rows, memo)

    def drop_expected(self) -> None:
        self.posterior.drop_expected()

    def _pull(self, state: ContextPosterior, arms: Array, rewards: Array, rows: Rows, memo: Memo) -> None:
        count, contexts, chosen, gained = self.problem.arms, memo["context"], arms.tolist(), rewards.tolist()
        for i, r in enumerate(rows.ids.tolist()):
            state.pull(r * count + chosen[i], contexts[i], gained[i])

    def descriptions(self) -> list[dict[str, Any]]:
        """Dimension and pulls of each arm, in each replication."""
        pulls = self.posterior.pulls.reshape(len(self.problem), -1)
        numbers = zip(self.problem.replications, pulls.tolist(), strict=True)
        return [{"replication": r, "dim": self.dim, "pulls": sum(n), "pulls_of_each_arm": n} for r, n in numbers]
