"""What LinUCB++, MOSS++ and their kin share: a schedule of iterations with falling dimension, and mixture-arms.

Iteration i runs a fresh solver in d_i features for DeltaT_i rounds, beside the mixture-arms of the iterations before;
what it did becomes mixture-arm i (lines 1-5 of the paper's Algorithms 1 and 2), a distribution over real arms.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from adadim.core.arrays import Array, as_numpy, clamp, like, namespace, zeros
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.recording import on_host
from adadim.core.rows import Replications
from adadim.core.state import check_positions, saved_keys
from adadim.core.ties import draw_indices
from adadim.errors import InvalidValueError
from adadim.policies.base import Choice, Learner, Memo
from adadim.policies.player import Solver, merged, part_of
from adadim.theory import Iteration, schedule


class Mixtures:
    """The mixture-arms nu_1, nu_2, ... of R replications, flattened to distributions over real arms.

    A mixture may contain earlier ones; with phat_j its empirical frequencies, it flattens to

        q_j = phat_j[:K] + sum_{l<j} phat_j[K+l] q_l,

    which has the law of drawing from phat_j until a real arm comes up. `q` has these (R, K), zero where a mixture is
    not finished yet, and `cumulative` (R, count, K) their cumulative sums.
    """

    def __init__(self, reference: Array, arms: int, count: int) -> None:
        self.arms = arms
        self.q: list[Array] = []
        self.cumulative = zeros(reference, reference.shape[0], count, arms)

    def prepare_restore(self, saved: Mapping[str, Any]) -> None:
        """Make room for the mixtures that a saved state has."""
        self.q = [self.cumulative[:, 0] * 0.0 for _ in saved_keys(saved["q"])]

    def add(self, j: int, real: Array, virtual: Array, rows: Replications) -> None:
        """Make mixture `j` (from 0) of `rows` out of pull counts of the real and the earlier virtual arms."""
        xp = namespace(real)
        while len(self.q) <= j:
            self.q.append(self.cumulative[:, 0] * 0.0)
        total = xp.sum(real, axis=-1) + xp.sum(virtual, axis=-1)
        flat = real / total[:, None]
        for earlier in range(virtual.shape[1]):
            flat = flat + (virtual[:, earlier] / total)[:, None] * rows.of(self.q[earlier])
        rows.put(self.q[j], flat)
        rows.put(self.cumulative[:, j], xp.cumulative_sum(flat, axis=-1))

    def draw(self, j: Array, uniforms: Array, rows: Replications) -> Array:
        """Real arm drawn from mixture ``j[i]`` in the i-th of `rows`."""
        return draw_indices(rows.at(self.cumulative, j), uniforms)


class IteratedLearner(Learner):
    """Runs one solver per iteration and turns each finished iteration into a mixture-arm."""

    needs_sets = "persistent"
    takes_any_arm = False
    takes_late_rewards = False  # a reward belongs to the iteration that it was earned in
    no_contexts = (
        "a mixture-arm replays arms of earlier rounds, so this policy needs arms that stay; this problem has others "
        "in each round; use adadim.recommended(problem)"
    )
    no_allowed = (
        "a mixture-arm replays arms of earlier rounds, so this policy needs all arms in every round; use "
        "adadim.recommended(problem) with allowed="
    )

    def __init__(self, beta: float, problem: Problem, streams: Streams, size: int | None = None) -> None:
        """`size` takes the part of the dimension d in the schedule; d itself by default."""
        super().__init__(problem, streams)
        count = len(problem)
        self.schedule = schedule(problem.horizon, beta, problem.dim if size is None else size)
        self.mixtures = Mixtures(problem.reference, problem.arms, self.schedule.p)
        self.mixture_streams = streams.child(0)
        self.solvers: dict[int, Solver] = {}
        self.iteration = np.zeros(count, dtype=np.int64)
        self.rounds = np.zeros(count, dtype=np.int64)
        # Pulls of this iteration (real and virtual), of each mixture before it, and this iteration's (n, sum, sum of
        # squares) of rewards.
        self.counts = self.zeros(problem.arms + self.schedule.p)
        self.drawn = self.zeros(self.schedule.p)
        self.moments = self.zeros(3)
        self.scales = self.zeros(self.schedule.p)
        if problem.reward_range is not None:
            scale = np.sqrt(problem.noise**2 + (problem.reward_range / 2) ** 2)
            self.scales[...] = like(scale, problem.reference)[:, None]

    @abstractmethod
    def make_solver(self, iteration: Iteration) -> Solver:
        """A new solver for an iteration, with the mixtures so far among its arms."""

    def virtual_noise(self, earlier: int) -> Array:
        """Sub-Gaussian scale of the first mixture-arms, (R, earlier), a view; see the notes of `LinUCBPlusPlus`."""
        return self.scales[:, :earlier]

    def solver(self, i: int) -> Solver:
        """Solver of iteration `i` (counted from 0), made when first asked for."""
        if i not in self.solvers:
            self.solvers[i] = self.make_solver(self.schedule.iterations[i])
        return self.solvers[i]

    def prepare_restore(self, saved: Mapping[str, Any]) -> None:
        """Make the solvers that a saved state has."""
        for i in saved_keys(saved["solvers"]):
            self.solver(i)

    def check_restored(self) -> None:
        super().check_restored()
        check_positions(self, iteration=len(self.schedule.iterations))

    def choose(self, rows: Replications) -> Choice:
        parts = []
        for i, members, at in rows.split(self.iteration[rows.ids]):
            choice, memo, *_ = self.solver(i).choose(members)
            parts.append((at, {"arms": self._realise(choice, members), "choice": choice, **memo}))
        memo = dict(merged(parts, len(rows)))
        return Choice(memo.pop("arms"), memo)

    def _realise(self, choice: Array, rows: Replications) -> Array:
        """Real arms behind the choices: a mixture-arm draws one."""
        real = self.problem.arms
        draws = self.mixture_streams.source(self.problem.horizon)
        if rows.on_host:
            virtual = np.flatnonzero(choice >= real)
            if not virtual.size:
                return choice
            members, arms = rows.pick(virtual), choice.copy()
            arms[virtual] = self.mixtures.draw(choice[virtual] - real, draws.uniforms(members), members)
            return arms
        if not self.mixtures.q:
            return choice
        masked, wide = rows.masked(choice)
        members = masked.only(wide >= real)
        draw_indices = self.mixtures.draw(clamp(wide - real, 0), draws.uniforms(members), members)
        return self.xp.where(choice >= real, rows.of(draw_indices), choice)

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        parts = list(rows.split(self.iteration[rows.ids]))
        for i, members, at in parts:
            part, earned = part_of(memo, at), rewards[at]
            self.solvers[i].absorb(part["choice"], earned, members, part)
            members.add(self.counts, part["choice"], 1.0)
            self.moments[members.index, 0] += 1.0
            self.moments[members.index, 1] += earned
            self.moments[members.index, 2] += earned * earned
        on_host(self._count_round, parts)

    def _count_round(self, parts: Sequence[tuple[int, Replications, Any]]) -> None:
        for i, members, _ in parts:
            self.rounds[members.ids] += 1
            iteration = self.schedule.iterations[i]
            done = members.ids[self.rounds[members.ids] == iteration.stop]
            if iteration.complete and done.size:
                self.finish(i, Replications.some(done, self.problem.reference))

    def sequence(self) -> Hashable:
        first = int(self.iteration[0])
        if (self.iteration != first).any():
            return None
        # The first round of an iteration makes its solver, which is not an operation to record.
        within = self.solvers[first].sequence() if first in self.solvers else None
        return None if within is None else (first, within)

    def finish(self, i: int, rows: Replications) -> None:
        """Turn iteration `i` of `rows` into a mixture-arm."""
        real, index = self.problem.arms, rows.index
        self.mixtures.add(i, self.counts[index, :real], self.counts[index, real : real + i], rows)
        self.drawn[index] += self.counts[index, real:]
        self.counts[index] = 0.0
        if self.problem.reward_range is None:
            xp, moments = self.xp, self.moments[index]
            n, total, squares = moments[:, 0], moments[:, 1], moments[:, 2]
            spread = xp.sqrt(clamp(squares / n - (total / n) ** 2, 0.0))
            self.scales[index, i] = clamp(spread, self.problem.noise)
        self.moments[index] = 0.0
        if i + 1 < len(self.schedule.iterations):
            self.iteration[rows.ids] += 1
            if (self.iteration > i).all():
                self.solvers.pop(i)
            self.begin(i + 1, rows)

    def begin(self, i: int, rows: Replications) -> None:
        """Start iteration `i` of `rows`: by default from nothing."""

    def descriptions(self) -> list[dict[str, Any]]:
        pulls = (as_numpy(self.drawn) + as_numpy(self.counts)[:, self.problem.arms :]).astype(int)
        current = [self.schedule.iterations[i] for i in self.iteration]
        return self.described(
            iteration=[one.index for one in current],
            dim=[one.dim for one in current],
            rounds=self.rounds,
            rounds_of_this_iteration=self.rounds - np.array([one.start for one in current]),
            draws_of_each_mixture_arm=[n[: one.index - 1].tolist() for n, one in zip(pulls, current, strict=True)],
        )


def check_expressive(expressive: bool | None, problem: Problem) -> bool:
    """Whether to pull truncated arms: as asked, or as the action set allows."""
    if expressive is None:
        return problem.actions.expressive
    if expressive and not problem.actions.expressive:
        raise InvalidValueError(
            "expressive=True needs an action set that is closed under truncation: build it with "
            "ActionSet(features, levels=[...]) or instances.sphere(..., expressive=True)"
        )
    return expressive
