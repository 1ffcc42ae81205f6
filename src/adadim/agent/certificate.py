"""What is certain of an agent's regret: its log, replayed beside the ellipsoid of `adadim.Certified`."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, replace

import numpy as np

from adadim.agent.log import LoggedDecision, Round
from adadim.agent.reading import Reader
from adadim.core.arrays import Array, FloatArray
from adadim.core.problem import Problem
from adadim.core.randomness import Streams
from adadim.core.rows import Replications
from adadim.errors import InvalidValueError
from adadim.policies.base import Choice, Learner, Memo, Policy
from adadim.policies.certificate import Certificate, rounds_until_promise
from adadim.policies.certified import Certified, CertifiedLearner
from adadim.policies.parameters import MAX_FACTOR


@dataclass(frozen=True)
class Logged(Policy):
    """Proposes what the log says was chosen."""

    def learner(self, problem: Problem, streams: Streams) -> LoggedLearner:
        return LoggedLearner(problem, streams)


class LoggedLearner(Learner):
    """Proposes the arm at `position`."""

    no_contexts = ""
    position = 0

    def choose(self, rows: Replications) -> Choice:
        return Choice(np.array([self.position]), {})

    def absorb(self, arms: Array, rewards: Array, rows: Replications, memo: Memo) -> None:
        return


def certify(reader: Reader, policy: Certified, noise: float | None, compared: Round | None, now: float) -> Certificate:
    """The certificate of the agent's decisions so far, and of the arms of a round; in a transaction of the log."""
    reader.log.place()  # there may be more features by now
    settings = reader.log.settings
    kind = settings.rewards  # of clicks the noise is known
    problem = Problem(arms=settings.arms, dim=settings.dim, horizon=None, noise=noise, rewards=kind)
    # Nobody is overruled: what was played is known.
    learner = replace(policy, policy=Logged(), mu=MAX_FACTOR).start(problem)
    assert isinstance(learner, CertifiedLearner)
    replay = _Replay(reader, learner)
    for decisions in reader.decisions():
        for decision in decisions:
            replay.learn_until(decision.time)
            replay.decide(decision)
    replay.learn_until(now)
    if replay.unknown and not replay.known:
        raise InvalidValueError(
            "the log says what was chosen and not among which arms, so nothing is certain of the regret: make agents "
            'with keep="all", or offer arms of the catalogue'
        )
    mu, found = policy.mu, learner.certificate()
    assert isinstance(found, Certificate)
    at = rounds_until_promise(learner.ellipsoid, mu, learner.longest, learner.spread) if found.rounds else None
    found = replace(found, promised=math.inf, says_something_at=at)
    if compared is None:
        return found
    offered = learner.everyone.with_offer(replay.features(compared)[None], None, _costs(compared))
    ((best,), (arms,)) = learner.possible_arms(offered)
    return replace(found, can_be_best=tuple(compared.names[k] for k in best), arms=arms)


class _Replay:
    """Decisions and rewards of a log in the order of their times."""

    def __init__(self, reader: Reader, learner: CertifiedLearner) -> None:
        self.learner, self.settings = learner, reader.log.settings
        self.known = self.unknown = 0  # decisions of which the log says among which arms they chose, and others
        self.rewards = {one.number: one for batch in reader.timed_rewards(0) for one in batch}  # the last of each
        self.coming: list[tuple[float, int, float, FloatArray, Memo | None]] = []  # rewards of decisions replayed

    def features(self, asked: Round) -> FloatArray:
        """Features (K, d) of the arms of a round; those that were added since are 0 in it, as in the model."""
        features, design = asked.features, self.settings.design
        if asked.design is None or design is None or asked.design == design:
            return features
        moved = np.zeros((len(features), self.settings.dim))
        moved[:, asked.design.positions_in(design)] = features
        return moved

    def decide(self, decision: LoggedDecision) -> None:
        """Charge a decision, or learn from one of another system."""
        learner, memo = self.learner, None
        if decision.policy is None:
            if decision.reward is not None:
                learner.learn_logged(decision.features[None], np.array([decision.reward]))
            return
        asked = decision.asked
        if asked is not None and decision.arm in asked.names:
            assert isinstance(learner.inner, LoggedLearner)
            learner.inner.position = list(asked.names).index(decision.arm)
            offered = learner.everyone.with_offer(self.features(asked)[None], None, _costs(asked))
            _, memo, *_ = learner.choose(offered)
        self.known, self.unknown = self.known + (memo is not None), self.unknown + (memo is None)
        told = self.rewards.get(decision.number)
        if told is not None:
            timeout = self.settings.expire_after or 0.0
            # Where silence counts as a reward, all rewards count from the time-out on: they must not decide when.
            counts_from = told.decision_time + (timeout if self.settings.expired_reward is not None else 0.0)
            arrival = counts_from if told.reward_time is None else max(counts_from, told.reward_time)
            heapq.heappush(self.coming, (arrival, decision.number, told.reward, decision.features, memo))

    def learn_until(self, time: float) -> None:
        """Learn the rewards that came before a time."""
        learner = self.learner
        while self.coming and self.coming[0][0] < time:
            _, _, reward, features, memo = heapq.heappop(self.coming)
            if memo is None:
                learner.learn_logged(features[None], np.array([reward]))
            else:
                learner.absorb(memo["arm"], np.array([reward]), learner.everyone, memo)


def _costs(asked: Round) -> FloatArray | None:
    return None if asked.costs is None else np.asarray(asked.costs, dtype=float)
