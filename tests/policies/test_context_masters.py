"""SupLinUCB and Smooth Corral where features come with each round: hand-computed games, independence, past policies."""

from __future__ import annotations

import numpy as np
import pytest

import adadim
from adadim.policies.masters import smooth_corral
from adadim.policies.masters.smooth_corral import PastRegression

SETS = np.array(
    [
        [[1, 0], [0, 1], [0.6, 0.8]],
        [[0.8, 0.6], [0, -1], [0.5, 0.5]],
        [[0, 1], [-0.6, 0.8], [0.3, 0.2]],
        [[0.6, -0.8], [0.1, 0.9], [0.7, 0.7]],
        [[1, 0], [0.5, -0.5], [-0.2, 0.9]],
    ]
)
THETA = np.array([0.5, 0.2])


def textbook(rounds, rewards, levels, radius, finest):
    """SupLinUCB as Chu et al. write it, the widest arm explored first, ties to the lowest."""
    d = rounds.shape[2]
    v, b, arms, ended = np.stack([np.eye(d)] * levels), np.zeros((levels, d)), [], []
    for x, gained in zip(rounds, rewards, strict=True):
        alive, chosen_by = np.ones(len(x), dtype=bool), None
        for s in range(levels):
            width = np.where(alive, radius * np.sqrt(np.vecdot(x, np.linalg.solve(v[s], x.T).T)), -np.inf).round(12)
            upper = np.where(alive, x @ np.linalg.solve(v[s], b[s]) + width, -np.inf)
            if width.max() <= finest:
                arm, chosen_by = int(upper.argmax()), -1
                break
            if width.max() > 2.0 ** -(s + 1):
                arm, chosen_by = int(width.argmax()), s
                break
            alive &= upper >= upper.max() - 2.0**-s
        if chosen_by >= 0:
            v[chosen_by] += np.outer(x[arm], x[arm])
            b[chosen_by] += gained[arm] * x[arm]
        arms.append(arm)
        ended.append(chosen_by)
    return arms, [ended.count(s) for s in range(-1, levels)]


@pytest.mark.parametrize("drawn", [False, True])
def test_suplinucb_in_lock_step_with_the_textbook(drawn):
    rounds, noise = np.tile(SETS, (40, 1, 1)), 0.0
    if drawn:
        rng = np.random.default_rng(4)
        rounds, noise = rng.standard_normal((200, 3, 2)) / 2, 0.1 * rng.standard_normal((200, 3))
    rewards = rounds @ THETA + noise
    learner = adadim.SupLinUCB(ridge=1.0, radius=0.3, ties="lowest").start(
        adadim.Problem(arms=3, dim=2, horizon=200, noise=0.1)
    )
    arms = []
    for features, gained in zip(rounds, rewards, strict=True):
        arms.append(learner.select(features))
        learner.update(arms[-1], gained[arms[-1]])
    expected, ended = textbook(rounds, rewards, 6, 0.3, 1 / np.sqrt(200))
    assert arms == expected
    described = learner.describe()
    assert [described["exploit_rounds"], *described["rounds_per_level"]] == ended
    assert min(ended[0], *ended[2:5]) > 0


def test_what_a_level_explores_does_not_depend_on_its_own_rewards():
    """Rewards of level s and above may be anything: rounds that end at s or below end there with the same arm."""
    rng = np.random.default_rng(1)
    rounds = rng.standard_normal((600, 6, 3)) / 2
    noise = rng.standard_normal((2, 600))
    problem = adadim.Problem(arms=6, dim=3, horizon=600, noise=0.1)
    explored = 0
    for level in range(6):
        learners = [adadim.SupLinUCB(radius=0.3, ties="lowest").start(problem) for _ in range(2)]
        for t, features in enumerate(rounds):
            ends = []
            for one, gained in zip(learners, noise[:, t].tolist(), strict=True):
                decision = one.ask(features)
                ended = int(decision.memo["level"][0])
                own = 0 <= ended < level
                one.tell(decision, float(features[decision.arms] @ [0.5, -0.3, 0.2]) if own else gained)
                ends.append((ended, decision.arms) if 0 <= ended <= level else None)
            assert ends[0] == ends[1]
            explored += ends[0] is not None
    assert explored > 200


def test_past_policies_are_those_that_played():
    """The five policies of LinUCB before each round, asked about another set."""
    problem = adadim.Problem(arms=4, dim=2, horizon=20, noise=0.1)
    learner = adadim.LinUCB(ridge=1.0, radius=1.0, ties="lowest").start(problem)
    past = PastRegression(1, 2, ridge=1.0)
    arms = []
    for features in SETS:
        arm = learner.select(features)
        arms.append(arm)
        learner.update(arm, float(features[arm] @ THETA))
        past.add(0, features[arm], float(features[arm] @ THETA))
    assert arms == [0, 0, 0, 2, 0]
    fresh = np.array([[[0.9, 0.1], [0.1, 0.9], [-0.5, 0.6], [0.4, 0.4]]])
    rows = learner.everyone.with_offer(fresh, None)
    chosen = []
    for state in (past.after(0, n) for n in range(5)):
        scores = learner.rule.past_scores(*state.predict(rows.features, learner.everyone), state.logdet, state.pulls)
        chosen.append(int(learner.largest(scores, rows, "lowest")[0]))
    assert chosen == [0, 1, 1, 0, 0]


def test_past_regressions_are_exact():
    rng = np.random.default_rng(2)
    past, x, rewards = PastRegression(2, 5, 0.3), rng.standard_normal((2, 200, 5)), rng.standard_normal((2, 200))
    for n in range(200):
        past.add(0, x[0, n], rewards[0, n])
        if n % 3 == 0:
            past.add(1, x[1, n // 3], rewards[1, n // 3])
    for r, n in ((0, 0), (0, 1), (0, 31), (0, 32), (0, 33), (0, 64), (0, 65), (0, 199), (0, 200), (1, 40), (1, 67)):
        seen, state = x[r, :n], past.after(r, n)
        v = 0.3 * np.eye(5) + seen.T @ seen
        np.testing.assert_allclose(state.theta[0], np.linalg.solve(v, seen.T @ rewards[r, :n]), atol=1e-12)
        np.testing.assert_allclose(state.inverse[0], np.linalg.inv(v), atol=1e-12)
        assert state.logdet[0] == pytest.approx(np.linalg.slogdet(v / 0.3)[1], abs=1e-10)


def test_replays_ask_a_past_policy_of_the_base(monkeypatch):
    """Step 2 of every round is what one of the base's regressions so far says about the new arms."""
    monkeypatch.setattr(smooth_corral, "CHECKPOINT_INTERVAL", 4)
    instance = adadim.instances.contexts(arms=5, dim=8, intrinsic_dim=2, horizon=120, replications=[3])
    learner = adadim.SmoothCorral(base=adadim.LinUCB(ties="lowest"), loss_range=(-0.5, 0.5)).start(instance.problem)
    rounds, rng, logs, replays = instance.rounds(), np.random.default_rng(0), {}, 0
    radius = 0.1 * np.sqrt(2 * np.log(2 * 120**1.5 * 5))
    for t in range(120):
        features = next(rounds)
        decision = learner.ask(features)
        arm = int(decision.arms[0])
        reward = float(instance.means(features)[0, arm] + 0.1 * rng.standard_normal())
        if t % 2 == 0:
            base = int(decision.memo["base"][0])
            logs.setdefault(base, []).append((features[0, arm, : 2**base], reward))
        else:
            could = set()
            for n in range(len(logs[base])):
                x, gained = np.zeros((0, 2**base)), np.zeros(0)
                if n:
                    x, gained = (np.array(part) for part in zip(*logs[base][:n], strict=True))
                v, now = 0.1 * np.eye(2**base) + x.T @ x, features[0, :, : 2**base]
                width = np.sqrt(np.vecdot(now, np.linalg.solve(v, now.T).T))
                could.add(int(np.argmax(now @ np.linalg.solve(v, x.T @ gained) + radius * width)))
            assert arm in could
            replays += len(could) < 5
        learner.tell(decision, [reward])
    assert replays > 30
