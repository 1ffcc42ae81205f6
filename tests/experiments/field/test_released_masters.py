"""The masters beside D3RB in the table of Pacchiano, Dann and Gentile 2024: by hand, and against plain versions."""

import math

import numpy as np
import pytest

import adadim
from adadim.experiments import field
from adadim.experiments.field.learners import BalancingGrid, CappedUCB, DiscountedEXP3, ReleasedCorral, masters
from counting_runs import bases, play_bases, plays
from reference import CorralMaster
from stepping import ScriptedDraws

ROUNDS = 300
BALANCED = {"reward_scale": 1.0, "delta": 0.01, "variant": "released"}


def noisy(means, spread=2.0):
    """Rewards of bases with these means, as a function of base and round."""
    noise = np.random.default_rng(7).standard_normal((ROUNDS + 1, len(means)))
    return lambda base, t: means[base] + spread * noise[t, base]


def replay(policy, rewards, plain, rounds=ROUNDS):
    """A master and its plain version on the same rewards, ties to the lowest: the same bases; gives those played."""
    played = []
    for t, chosen, learner in play_bases(policy, rewards, rounds):
        assert plain.pick() == chosen
        plain.update(chosen, rewards(chosen, t))
        played.append(chosen)
        yield learner
    assert len(set(played)) > 1


def test_all_seven_are_compared_in_three_experiments():
    names = ["d3rb", "ed2rb", "corral", "rb-grid", "ucb", "greedy", "exp3"]
    assert list(masters(bases(2), "released")) == names
    assert list(masters(bases(2), "printed")) == names[:2]
    table = field.TABLES["d3rb24"]
    compared = {entry.policy for entry in (*table.reported, *table.on_sphere)}
    for experiment in ("exp4", "exp5", "exp6"):
        assert {f"{experiment}-released-{name}" for name in names} <= compared
        assert {f"{experiment}-printed-{name}" for name in names} & compared == {
            f"{experiment}-printed-{name}" for name in names[:2]
        }


# UCB and greedy


def after_two_rounds(policy, rewards):
    """A learner over three bases, of which the first two were played once."""
    learner = policy.start(adadim.Problem(np.full((2, 4), 0.1), horizon=9, noise=0.1))
    for uniform, reward in zip((0.1, 0.5), rewards, strict=True):
        learner.draws = ScriptedDraws(uniform)
        learner.tell(learner.ask(), reward)
    assert plays(learner) == (1, 1, 0)
    return learner


def test_index_by_hand():
    """After two rounds the width of a base played once is 2 sqrt(ln 30), sqrt(ln 30) being 1.844233548568."""
    learner = after_two_rounds(CappedUCB(bases=bases(3)), (0.2, -3.0))
    assert learner.scores(learner.everyone)[0] == pytest.approx([1.0, -3 + 2 * 1.844233548568, 1.0], abs=1e-9)
    greedy = after_two_rounds(CappedUCB(bases=bases(3), radius=0.0), (1.7, -3.0))
    assert greedy.scores(greedy.everyone)[0].tolist() == [1.0, -3.0, 0.0]


def test_the_first_two_bases_and_ties_are_drawn():
    """A base whose mean is above 1 does not win against another: both have the index 1."""
    problem = adadim.Problem(np.full((400, 2, 4), 0.1), horizon=9, noise=0.1)
    learner = CappedUCB(bases=bases(3), radius=0.0).start(problem)
    first = learner.ask()
    assert np.bincount(first.memo["base"]).min() > 100
    learner.tell(first, np.full(400, 5.0))
    second = learner.ask()
    assert np.bincount(second.memo["base"]).min() > 100  # not the greedy choice yet
    learner.tell(second, np.full(400, 2.0))
    third = learner.ask().memo["base"]
    two = np.flatnonzero(first.memo["base"] != second.memo["base"])
    assert ((third == first.memo["base"]) | (third == second.memo["base"]))[two].all()
    assert 0.35 < (third == first.memo["base"])[two].mean() < 0.65


class PlainUCB:
    def __init__(self, count, radius):
        self.n, self.u, self.radius = [0] * count, [0.0] * count, radius

    def pick(self):
        t = sum(self.n)
        if t < 2:
            return 0
        indices = []
        for n, u in zip(self.n, self.u, strict=True):
            mean = u / n if n else 0.0
            indices.append(min(1.0, mean + self.radius * math.sqrt(math.log(10 * (t + 1)) / (n + 1e-10))))
        return max(range(len(indices)), key=lambda i: indices[i])

    def update(self, chosen, reward):
        self.n[chosen] += 1
        self.u[chosen] += reward


@pytest.mark.parametrize("radius", [2.0, 0.0])
def test_index_in_lock_step(radius):
    for learner in replay(
        CappedUCB(bases=bases(4), radius=radius), noisy((-1.5, -1.0, -0.4, 0.1)), plain := PlainUCB(4, radius)
    ):
        assert plays(learner) == tuple(plain.n)


# The grid of regret bounds


def test_grid_by_hand():
    """Two bases and T = 30: three copies each. A play costs d sqrt(n ln(100 n)): 2.146, 4.292, 8.584 at first."""
    policy = BalancingGrid(bases=bases(2), **BALANCED)
    seen = [(chosen, learner.potential[0].copy()) for _, chosen, learner in play_bases(policy, lambda *_: 0.0, 30)]
    assert len(seen[0][1]) == 6
    assert [chosen for chosen, _ in seen[:9]] == [0, 3, 1, 4, 0, 3, 0, 3, 2]
    assert seen[3][1] == pytest.approx([2.145966, 4.291932, 4, 2.145966, 4.291932, 4], abs=1e-6)
    assert seen[4][1][0] == pytest.approx(math.sqrt(2 * math.log(200)))
    assert BalancingGrid.copies(1000) == 6
    assert BalancingGrid.copies(20_000) == 9


def test_the_grid_drops_a_base_for_ever():
    """T = 3: one copy. After 100 and -100 base 1 has at most -100 + 2.30 + 2.15, and base 0 at least 97.7."""
    policy = BalancingGrid(bases=bases(2), **BALANCED)
    *_, (_, _, learner) = play_bases(policy, (100.0, -100.0), 3)
    assert plays(learner) == (2, 1)
    *_, (_, _, learner) = play_bases(policy, (100.0, -100.0), 500, horizon=3)
    assert plays(learner) == (499, 1)
    assert learner.potential[0, 1] == math.inf


class PlainGrid:
    def __init__(self, count, copies):
        self.d = [2.0**k for _ in range(count) for k in range(copies)]
        self.phi, self.n, self.u = list(self.d), [0] * len(self.d), [0.0] * len(self.d)

    def pick(self):
        return self.phi.index(min(self.phi))

    def update(self, i, reward):
        self.n[i] += 1
        self.u[i] += reward
        lower = []
        for n, u in zip(self.n, self.u, strict=True):
            lower.append((u - math.sqrt(n * math.log((n + 1) / 0.01))) / math.sqrt(n) if n else 0.0)
        n = self.n[i]
        upper = (self.u[i] + math.sqrt(n * math.log((n + 1) / 0.01))) / math.sqrt(n)
        claimed = self.d[i] * math.sqrt(n * math.log(n / 0.01))
        self.phi[i] = math.inf if upper + claimed < max(lower) else claimed


def test_grid_in_lock_step():
    rewards = noisy([m for m in (-6.0, 0.5, 8.0) for _ in range(5)])
    for learner in replay(BalancingGrid(bases=bases(3), **BALANCED), rewards, plain := PlainGrid(3, 5)):
        assert learner.potential[0].tolist() == pytest.approx(plain.phi, rel=1e-10)
    dropped = sum(phi == math.inf for phi in plain.phi)
    assert 0 < dropped < len(plain.phi)


# Masters that draw


def drawn(policy, uniforms, rewards, horizon=50):
    """A learner after rounds in which the master's uniforms were these; yields it after each."""
    learner = policy.start(adadim.Problem(np.full((2, 4), 0.1), horizon=horizon, noise=0.1))
    for uniform, reward in zip(uniforms, rewards, strict=True):
        learner.draws = ScriptedDraws(uniform)
        decision = learner.ask()
        learner.tell(decision, reward)
        yield int(decision.memo["base"][0]), learner


def probabilities(learner):
    return learner.master.probabilities(learner.everyone)[0]


def test_exp3_by_hand():
    """T = 50, M = 2: eta = sqrt(ln 2 / 100). Only the sum of the base that was played is discounted."""
    eta = math.sqrt(math.log(2) / 100)
    first = 2 / 0.5
    steps = drawn(DiscountedEXP3(bases=bases(2)), (0.1, 0.1, 0.99), (2.0, -1.0, 3.0))
    chosen, learner = next(steps)
    p = 1 / (1 + math.exp(-eta * first))
    assert chosen == 0
    assert probabilities(learner) == pytest.approx([p, 1 - p])
    next(steps)
    second = 0.9 * first - 1 / p
    p = 1 / (1 + math.exp(-eta * second))
    assert probabilities(learner) == pytest.approx([p, 1 - p])
    chosen, _ = next(steps)
    assert chosen == 1
    third = 3 / (1 - p)
    assert probabilities(learner)[0] == pytest.approx(1 / (1 + math.exp(eta * (third - second))))


def test_exp3_with_huge_rewards_stays_a_distribution():
    *_, (_, learner) = drawn(DiscountedEXP3(bases=bases(3)), (0.1,) * 40, (1e6,) * 40)
    assert probabilities(learner) == pytest.approx([1.0, math.exp(-100), math.exp(-100)])


def two_point_step(p, weighted, eta):
    """Log-barrier step over two bases, the loss on the first: the larger root x of the quadratic, x = -eta lambda."""
    a, b, c = 1 / p, 1 / (1 - p), eta * weighted
    half = (a + b + c - 2) / 2
    x = -half + math.sqrt(half**2 - ((a + c) * b - (a + b + c)))
    return 1 / (a + c + x)


def test_corral_by_hand():
    """T = 50, eta = 0.1 / sqrt(T). Rewards of -4 and 3 are losses of 5 and -2; the second step starts smoothed."""
    eta = 0.1 / math.sqrt(50)
    steps = drawn(ReleasedCorral(bases=bases(2)), (0.1, 0.1), (-4.0, 3.0))
    _, learner = next(steps)
    smooth = 0.98 * two_point_step(0.5, 5 / 0.5, eta) + 0.01
    assert probabilities(learner)[0] == pytest.approx(smooth, rel=1e-9)
    assert smooth < 0.5
    next(steps)
    again = 0.98 * two_point_step(smooth, -2 / smooth, eta) + 0.01
    assert probabilities(learner)[0] == pytest.approx(again, rel=1e-9)
    assert again > smooth


class PlainCorral(CorralMaster):
    """The textbook's, with smoothed probabilities fed back and thresholds cut to whole numbers."""

    def update(self, i, loss):
        super().update(i, loss)
        self.p, self.rho = self.pbar.copy(), np.trunc(self.rho)


def test_corral_in_lock_step():
    rng = np.random.default_rng(3)
    uniforms, plain, raised = rng.random(ROUNDS), PlainCorral(3, 0.1 / math.sqrt(ROUNDS), ROUNDS), False
    rewards = noisy((-4.0, 1.0, 9.0))
    learner = ReleasedCorral(bases=bases(3)).start(adadim.Problem(np.full((2, 4), 0.1), horizon=ROUNDS, noise=0.1))
    for t, uniform in enumerate(uniforms):
        learner.draws = ScriptedDraws(uniform)
        decision = learner.ask()
        chosen = int(np.searchsorted(np.cumsum(plain.pbar), uniform))
        assert int(decision.memo["base"][0]) == chosen
        reward = rewards(chosen, t)
        learner.tell(decision, reward)
        plain.update(chosen, 1 - reward)
        for name in ("pbar", "rho", "eta"):
            np.testing.assert_allclose(getattr(learner.master, name)[0], getattr(plain, name), rtol=1e-8, err_msg=name)
        raised = raised or plain.rho.max() > 6
    assert raised
    assert (plain.rho == np.floor(plain.rho)).all()
