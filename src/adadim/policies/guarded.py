"""Guarded: play any policy, and provably lose not much more than a guard that has a guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

from adadim.core.arrays import Array, as_numpy, clamp
from adadim.core.checks import integer
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.policies.base import AnyPolicy, Learner, Memo, Policy
from adadim.policies.linear.evidence import recommended
from adadim.policies.masters.base import CountingMasterLearner
from adadim.policies.parameters import Delta
from adadim.policies.plusplus.linucbpp import LinUCBPlusPlus, LinUCBPlusPlusCorral

POLICY, PROBES, GUARD = range(3)  # the bases


@dataclass(frozen=True)
class Guarded(Policy):
    """Play a policy without a guarantee, beside a guard that has one, and drop the policy if the guard does better.

    One round in `every` is the guard's, the first among them; the others are the policy's. As soon as the guard's mean
    reward is above the policy's by more than the noise can explain, the policy is dropped, and the guard plays alone
    for the rest, from scratch. The first sqrt(`every` T) rounds are not judged: a policy that explores loses most then,
    and a guard can be lucky. Use it where the policy is believed to be good and a proof is wanted all the same.

    Parameters
    ----------
    policy : Policy, optional
        What plays; by default ``adadim.recommended(problem)``. It learns from the guard's rounds too, if it can.
    guard : Policy, optional
        What has a guarantee; it learns from its own rounds alone. By default `LinUCBPlusPlus` on an action set closed
        under truncation (with ``solver="suplinucb", ridge=1, radius="paper"`` for the letter of its theorem), and
        `LinUCBPlusPlusCorral` on others.
    every : int
        m: one round in so many is the guard's.
    delta : float, optional
        Chance that the comparison errs; 1/T by default.

    Notes
    -----
    Theorem. Let the arms stay, the noise be sigma-sub-Gaussian given the past, no arm be worse than the best by more
    than D, and B(n) bound the expected regret of the guard on n rounds, told n. With m = `every` and
    L = ln(2 pi^2 T^2 / (3 delta)), whatever the policy does,

        E R_T <= m B(ceil(T/m)) + B(T) + 2 sigma sqrt(2 L T) (1 + sqrt(m - 1)) + D (1 + t_0 + delta T),

    where t_0 = ceil(sqrt(m T)) is the first round that is judged.

    Proof. Let w(n) = sigma sqrt(2 ln(2 pi^2 n^2 / (3 delta)) / n). Until the policy is dropped the schedule is fixed,
    so the noise of the first n rounds of either is a martingale, and with probability 1 - delta all their means are
    within w(n) of the means of the arms pulled, by a union bound over n, both of them and both sides: 2 * 2 * sum_n
    3 delta / (2 pi^2 n^2) = delta. While the test finds nothing, mean_S - w(n_S) <= mean_F + w(n_F) for the guard S and
    the policy F, so the policy's average regret is at most the guard's plus 2 w(n_S) + 2 w(n_F). Times n_F <= (m - 1)
    n_S this is (m - 1) R_S(n_S) + 2 sigma sqrt(2 L T) (1 + sqrt(m - 1)). The guard's rounds are a run of the guard by
    itself, since the noise does not depend on the learner; its regret never falls, so R_S(n_S) <= R_S(ceil(T/m)), which
    B bounds. What is not judged costs at most D t_0, the round of the drop D, the guard's new run B(T), and the event
    of probability delta D T.

    For `LinUCBPlusPlus` B(n) is of order n^beta + n^(1-beta) d*, up to logarithms, so m B(T/m) is at most m^beta B(T):
    with beta = 1/2 the bound is 1 + sqrt(m) times that of the guard alone, and the rate is the same Pareto optimal one.
    A policy whose average regret from round t_0 on never exceeds the guard's is dropped with probability at most delta;
    what it then costs is the guard's share, R_T = R_F + R_S(ceil(T/m)). Needs sigma, T and arms that stay.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=100, dim=40, intrinsic_dim=3, horizon=640)
    >>> outcome = adadim.simulate(adadim.Guarded(), instance)
    >>> outcome.learner.describe()[0]["rounds_of_each_base"]
    [630, 10, 0]
    """

    policy: AnyPolicy | None = None
    guard: AnyPolicy | None = None
    every: Annotated[int, partial(integer, least=2, meaning="one round in so many is the guard's")] = 64
    delta: Delta | None = None
    reward_scale: ClassVar[float] = 1.0  # means are compared in the units of the rewards

    def policies(self, problem: Problem) -> list[Policy]:
        """The policy, the guard in its share of the rounds, and the guard alone."""
        default = LinUCBPlusPlus() if problem.actions.expressive else LinUCBPlusPlusCorral()
        guard = self.guard or default
        return [self.policy or recommended(problem), guard, guard]

    def learner(self, problem: Problem, streams: Streams) -> GuardedLearner:
        return GuardedLearner(self, problem, streams)


class GuardedLearner(CountingMasterLearner):
    """State of `Guarded`: plays and rewards of the policy and of the guard, and whether the policy was dropped."""

    no_allowed = "the guarantee of Guarded compares averages over different rounds, which needs the same arms in each"
    no_contexts = no_allowed + ": use adadim.recommended(problem) where features come with each round"
    policy: Guarded

    def __init__(self, policy: Guarded, problem: Problem, streams: Streams) -> None:
        self.noise, self.delta = problem.noise, policy.delta or 1.0 / problem.horizon
        super().__init__(policy, problem, streams)
        self.first_judged = math.ceil(math.sqrt(policy.every * problem.horizon))
        self.bases.masked = False  # the policy learns from the guard's rounds besides
        self.dropped = self.zeros(integers=True)

    def base_learners(self, problem: Problem, children: Any) -> list[Learner]:
        share = problem.with_horizon(math.ceil(problem.horizon / self.policy.every))
        starts = zip(self.policies, (problem, share, problem), children, strict=True)
        return [base.learner(part, streams) for base, part, streams in starts]

    def next_base(self, rows: Replications) -> Array:
        xp, dropped = self.xp, rows.of(self.dropped)
        rounds = xp.sum(rows.of(self.plays), axis=-1)
        turn = xp.astype(rounds % self.policy.every == 0, xp.int64)  # 1 is PROBES
        return xp.where(dropped == 1, dropped * GUARD, turn * PROBES)

    def scores(self, rows: Replications) -> Array:
        """Upper value of the policy's mean reward, lower values of the guard's, (n, 3)."""
        n = clamp(rows.of(self.plays), 1.0)
        width = self.noise * self.xp.sqrt(2 * self.xp.log(2 * math.pi**2 * n * n / (3 * self.delta)) / n)
        means = self.means(rows)
        return self.xp.where(self.numbers == POLICY, means + width, means - width)

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        super().absorb(arms, rewards, rows, memo)
        learner = self.bases.learners[POLICY]
        if isinstance(learner, Learner) and learner.takes_any_arm:
            for base, members, at in rows.split(as_numpy(memo["base"])):
                if base == PROBES:
                    learner.absorb(arms[at], rewards[at], members, {})

    def judge(self, chosen: Array, rewards: Array, rows: Replications) -> None:
        xp, plays, values = self.xp, rows.of(self.plays), self.scores(rows)
        judged = xp.sum(plays, axis=-1) >= self.first_judged
        worse = judged & (values[:, PROBES] > values[:, POLICY])
        rows.put(self.dropped, xp.maximum(rows.of(self.dropped), xp.astype(worse, xp.int64)))

    def descriptions(self) -> list[dict[str, Any]]:
        return self.describe_counts(policy_dropped=self.xp.astype(self.dropped, self.xp.bool))
