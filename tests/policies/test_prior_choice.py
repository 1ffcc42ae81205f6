"""PriorElimination and PriorBalancing: the sheet's numbers, textbook versions in lock-step, and who is dropped."""

from __future__ import annotations

import numpy as np
import pytest

import adadim
from adadim.core.randomness import Purpose, Streams
from adadim.policies.linear.prior_choice import noise_term
from refusals import assert_refuses

Z = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.6]])
THETA = np.array([0.1, -0.6, 0.7, 0.2])


def three_priors(kind, noise, delta, decided):
    """A learner with three priors after so many decisions."""
    learner = kind(dims=(2,), sizes=(0.5, 1.0, 2.0), delta=delta).start(
        adadim.Problem(Z, horizon=100, noise=noise), seed=1
    )
    learner.rule.clock.decided[:] = decided
    return learner


def answer(learner, prior, reward, mean, half):
    """Let it learn the reward of a round of `prior`, which predicted `mean` up to `half`."""
    memo = {"prior": prior, "mean": mean, "half": half}
    learner.absorb(np.array([0]), np.array([reward]), learner.everyone, {k: np.array([v]) for k, v in memo.items()})


@pytest.mark.parametrize(("total", "kept"), [(2.0, True), (3.5285636, True), (3.5285638, False), (-3.5285638, False)])
def test_the_test_of_elimination(total, kept):
    """Three rounds with posterior deviations 0.3, 0.2 and 0.15 and beta = 2; residuals 0.9, 0.4 and the rest."""
    assert noise_term(0.3, 3, 10, 0.05) == pytest.approx(1.65549871, rel=1e-8)
    learner = three_priors(adadim.PriorElimination, 0.3, 0.05, decided=10)
    for residual, deviation in zip((0.9, 0.4, total - 1.3), (0.3, 0.2, 0.15), strict=True):
        answer(learner, 1, 0.25 + residual, 0.25, 2 * deviation)
    assert learner.rule.active.tolist() == [[True, kept, True]]


ROUNDS = [
    (0, 0.5, 0.4), (0, 0.7, 0.3), (1, 0.2, 0.1), (1, 0.1, 0.05), (1, 0.3, 0.05), (2, 0.9, 0.8),
]  # fmt: skip
"""Prior, reward and half the length of the interval."""


@pytest.mark.parametrize(("more", "kept"), [(0.0, True), (-0.0753623, True), (-0.0753626, False)])
def test_the_test_of_balancing(more, kept):
    """The second prior's upper end is 0.5260673 and the reference 0.450704928; `more` is what its mean has more."""
    assert noise_term(0.1, 3, 7, 0.01) == pytest.approx(0.201866062, rel=1e-8)
    learner = three_priors(adadim.PriorBalancing, 0.1, 0.01, decided=7)
    for prior, reward, half in ROUNDS:
        answer(learner, prior, reward + (more if prior == 1 else 0.0), 0.0, half)
    assert learner.rule.active.tolist() == [[True, kept, True]]
    if not more:
        lower, upper = learner.rule.limits(learner.everyone)
        assert lower.max() == pytest.approx(0.450704928, rel=1e-8)
        np.testing.assert_allclose(upper[0], [1.26769959, 0.5260673, 2.14929507], rtol=1e-7)


def test_the_last_prior_stays():
    learner = three_priors(adadim.PriorElimination, 0.3, 0.05, decided=10)
    for prior in (2, 0, 1):
        answer(learner, prior, 99.0, 0.0, 0.1)
    assert learner.rule.active.tolist() == [[False, True, False]]


def test_of_priors_that_are_all_below_a_dropped_one_the_best_stays():
    learner = three_priors(adadim.PriorBalancing, 0.1, 0.01, decided=7)
    learner.rule.active[0, 0] = False
    for prior, reward in ((0, 9.0), (1, 0.2), (2, 0.1)):
        answer(learner, prior, reward, 0.0, 0.1)
    assert learner.rule.active.tolist() == [[False, True, False]]


def test_bounds_are_those_of_the_optimistic_algorithm():
    """2 max(D/2, b) sqrt(n Gamma / ln 2) with d = 1, size 0.5 and noise 0.1, after 8 rounds of arms of norm 1."""
    learner = adadim.PriorBalancing(dims=(1, 2)).start(adadim.Problem(Z, horizon=100, noise=0.1))
    learner.rule.longest[:], learner.rule.rounds[0, 0] = 1.0, 7
    most = np.log1p(8 / 0.04)
    b = np.sqrt(0.01 * (most + 2 * np.log(100)) + 0.04 * 0.25)
    found = learner.rule.bounds(learner.everyone)[0]
    assert found[0] == pytest.approx(2 * max(0.5, b) * np.sqrt(8 * most / np.log(2)))
    most = 2 * np.log1p(1 / 0.08)
    assert found[1] == pytest.approx(np.sqrt(2) * np.sqrt(most / np.log(2)))


class Textbook:
    """Every prior with its own ridge regression, for a single replication; ties take the first."""

    def __init__(self, priors, arms, noise, delta):
        self.priors, self.noise, self.delta, self.arms = priors, noise, delta, arms
        self.pulls, self.rewards, self.t = [], [], 0
        self.active = [True] * len(priors)
        self.charged = [[] for _ in priors]  # rewards, predictions and half lengths of its answered rounds

    def xi(self):
        return 2 * self.noise**2 * np.log(len(self.priors) * np.pi**2 * self.t**2 / (6 * self.delta))

    def posterior(self, m):
        dim, size = self.priors[m]
        a = np.array(self.pulls).reshape(-1, len(THETA))[:, :dim]
        v = (self.noise / size) ** 2 * np.eye(dim) + a.T @ a
        return np.linalg.solve(v, a.T @ np.array(self.rewards)), v

    def intervals(self, x, m):
        """Means of the arms `x` and half the lengths of their intervals."""
        mean, v = self.posterior(m)
        x = x[:, : len(mean)]
        beta = np.sqrt(2 * np.log(self.arms * len(self.priors) * np.pi**2 * self.t**2 / (6 * self.delta)))
        return x @ mean, beta * self.noise * np.sqrt(np.einsum("kd,de,ke->k", x, np.linalg.inv(v), x))

    def play(self, x, m, arm):
        mean, half = self.intervals(x, m)
        return m, arm, mean[arm], half[arm]

    def learn(self, x, reward, m, mean, half):
        self.pulls.append(x)
        self.rewards.append(reward)
        self.charged[m].append((reward, mean, half))
        self.drop(m)


class Elimination(Textbook):
    def choose(self, x, normals):
        """`normals` (M, 1, d), or none for optimism."""
        self.t += 1
        best = -np.inf, 0, 0
        for m in np.flatnonzero(self.active).tolist():
            mean, v = self.posterior(m)
            if normals is None:
                scores = np.add(*self.intervals(x, m))
            else:
                drawn = np.linalg.solve(np.linalg.cholesky(v).T, normals[m, 0, : len(mean)])
                scores = x[:, : len(mean)] @ (mean + self.noise * drawn)
            best = max(best, (scores.max(), m, int(scores.argmax())), key=lambda one: one[0])
        return self.play(x, *best[1:])

    def drop(self, m):
        residual = abs(sum(y - mean for y, mean, _ in self.charged[m]))
        slack = np.sqrt(len(self.charged[m]) * self.xi()) + sum(half for *_, half in self.charged[m])
        if residual > slack and sum(self.active) > 1:
            self.active[m] = False


class Balancing(Textbook):
    def choose(self, x, normals):
        self.t += 1
        self.longest = max(getattr(self, "longest", 0.0), np.sqrt((x**2).sum(axis=1)).max())
        bounds = []
        for m, (dim, size) in enumerate(self.priors):
            n, ridge, norm = len(self.charged[m]) + 1, (self.noise / size) ** 2, size * np.sqrt(dim)
            gamma = dim * np.log(1 + n * self.longest**2 / (dim * ridge))
            b = np.sqrt(self.noise**2 * (gamma + 2 * np.log(1 / self.delta)) + ridge * norm**2)
            bounds.append(2 * max(norm * self.longest, b) * np.sqrt(n * gamma / np.log(2)))
        m = int(np.where(self.active, bounds, np.inf).argmin())
        return self.play(x, m, int(np.add(*self.intervals(x, m)).argmax()))

    def drop(self, m):
        if not all(self.charged):
            return
        mean, width = ([np.mean([one[i] for one in rounds]) for rounds in self.charged] for i in (0, 2))
        radius = [np.sqrt(self.xi() / len(rounds)) for rounds in self.charged]
        least = max(a - r for a, r in zip(mean, radius, strict=True))
        upper = [a + w + r for a, w, r in zip(mean, width, radius, strict=True)]
        likeliest = max(np.flatnonzero(self.active).tolist(), key=lambda m: upper[m])
        for m in np.flatnonzero(self.active).tolist():
            if upper[m] < least and m != likeliest:
                self.active[m] = False


@pytest.mark.parametrize("late", [0, 4], ids=["at once", "late"])
@pytest.mark.parametrize("offer", ["fixed", "contexts"])
@pytest.mark.parametrize("kind", ["thompson", "optimism", "balancing"])
def test_in_lock_step_with_the_textbook(kind, offer, late):
    """A prior of one feature is wrong here, and dropped; a late reward is charged with the prediction of its time."""
    rng = np.random.default_rng(5)
    rounds = rng.standard_normal((200, 7, 4)) / 2
    if offer == "fixed":
        rounds[:] = rounds[0]
    sizes = {"features": rounds[0]} if offer == "fixed" else {"arms": 7, "dim": 4}
    options = {"dims": (1, 4), "sizes": (0.5, 1.0), "ties": "lowest", "delta": 0.9}
    pairs = [(dim, size) for dim in (1, 4) for size in (0.5, 1.0)]
    problem = adadim.Problem(**sizes, horizon=None, noise=0.1)
    if kind == "balancing":
        learner, textbook = adadim.PriorBalancing(**options).start(problem, seed=2), Balancing(pairs, 7, 0.1, 0.9)
    else:
        learner = adadim.PriorElimination(rule=kind, **options).start(problem, seed=2)
        textbook = Elimination(pairs, 7, 0.1, 0.9)
    (generator,) = Streams(2, Purpose.POLICY, [0]).child(0).generators
    waiting = []
    for x in rounds:
        drawn = generator.standard_normal((4, 1, 4)) if kind == "thompson" else None
        m, arm, mean, half = textbook.choose(x, drawn)
        decision = learner.ask(*[] if offer == "fixed" else [x])
        assert (decision.arms, decision.memo["prior"].item()) == (arm, m)
        np.testing.assert_allclose([decision.memo[name].item() for name in ("mean", "half")], [mean, half], atol=1e-9)
        waiting.append((decision, x[arm], m, mean, half, x[arm] @ THETA + 0.1 * rng.standard_normal()))
        if len(waiting) > late:
            decision, pulled, m, mean, half, reward = waiting.pop(0)
            learner.tell(decision, reward)
            textbook.learn(pulled, reward, m, mean, half)
            assert learner.rule.active[0].tolist() == textbook.active
    assert not all(textbook.active)
    assert learner.rule.rounds[0].tolist() == [len(one) for one in textbook.charged]


def test_the_right_prior_is_kept():
    """theta is drawn from the prior of all features; the wrong ones predict 0 for the others."""
    rng, kept, dropped = np.random.default_rng(7), 0, 0
    for seed in range(20):
        theta, x = rng.standard_normal(3), rng.standard_normal((12, 3)) / 5
        learner = adadim.PriorElimination(sizes=(1.0,), delta=0.3).start(
            adadim.Problem(x, horizon=150, noise=0.05), seed
        )
        for _ in range(150):
            arm = learner.select()
            learner.update(arm, float(x[arm] @ theta + 0.05 * rng.standard_normal()))
        kept += learner.rule.active[0, -1]
        dropped += not learner.rule.active[0, 0]
    assert kept == 20
    assert dropped > 5


def test_each_arm_with_a_parameter_of_its_own():
    """Means and widths are those of an arm's own pulls."""
    problem = adadim.Problem(arms=2, dim=2, horizon=50, noise=0.5, disjoint=True)
    learner = adadim.PriorElimination(sizes=(1.0,), rule="optimism").start(problem, seed=1)
    learner.absorb(np.array([1]), np.array([0.9]), learner.everyone, {"features": np.array([[0.8, 0.6]])})
    x = np.array([1.0, 0.5])
    decision = learner.ask(x)
    found = {}
    for m, dim in enumerate((1, 2)):
        for arm in (0, 1):
            v = 0.25 * np.eye(dim) + arm * np.outer([0.8, 0.6][:dim], [0.8, 0.6][:dim])
            mean = x[:dim] @ np.linalg.solve(v, 0.9 * arm * np.array([0.8, 0.6])[:dim])
            beta = np.sqrt(2 * np.log(2 * 2 * np.pi**2 * 2**2 / (6 * 0.05)))  # the second round
            found[m, arm] = mean, beta * 0.5 * np.sqrt(x[:dim] @ np.linalg.solve(v, x[:dim]))
    m, arm = max(found, key=lambda key: sum(found[key]))
    assert (decision.memo["prior"].item(), decision.arms) == (m, arm)
    np.testing.assert_allclose([decision.memo["mean"].item(), decision.memo["half"].item()], found[m, arm])


def test_masks_and_costs():
    learner = adadim.PriorElimination(rule="optimism", ties="lowest").start(adadim.Problem(Z, horizon=9, noise=0.1))
    allowed = np.array([[False, True, True]])
    assert learner.choose(learner.everyone.with_offer(None, allowed)).arms.tolist() == [1]
    dear = learner.everyone.with_offer(None, np.ones((1, 3), bool), np.array([0.0, 9.0, 0.0]))
    chosen = learner.choose(dear)
    assert chosen.arms.tolist() == [0]
    learner.absorb(chosen.arms, np.array([0.4]), dear, chosen.memo)
    assert learner.rule.residuals.max() == pytest.approx(0.4)  # of the reward, whatever the arm costs


@pytest.mark.parametrize("kind", [adadim.PriorElimination, adadim.PriorBalancing])
def test_a_pull_of_another_arm_is_charged_to_no_prior(kind):
    learner = kind().start(adadim.Problem(Z, horizon=9, noise=0.1))
    learner.learn([0, 1], [0.5, 0.2])
    arm = learner.select()
    learner.update((arm + 1) % 3, 0.3)
    assert learner.rule.rounds.sum() == learner.rule.halves.sum() == 0
    learner.update(learner.select(), 0.3)
    assert learner.rule.rounds.sum() == 1
    assert learner.model.pulls.tolist() == [4]


def test_of_two_replications_one_pulls_another_arm():
    problem = adadim.Problem(np.stack([Z, Z]), horizon=9, noise=0.1)
    learner, told = (adadim.PriorElimination(rule="optimism", ties="lowest").start(problem) for _ in range(2))
    pulled = (learner.select() + np.array([0, 1])) % 3
    learner.update(pulled, [0.3, 0.4])
    assert learner.rule.rounds.sum(axis=1).tolist() == [1, 0]
    told.learn(pulled, [0.3, 0.4])
    np.testing.assert_array_equal(learner.model.regression.b, told.model.regression.b)


def test_an_agent_says_why_it_cannot_play_it(tmp_path):
    policy = adadim.PriorElimination()
    with pytest.raises(adadim.InvalidValueError, match="keeps more than a regression"):
        adadim.agent.Agent.create(tmp_path / "a.db", dim=2, policy=policy, noise=0.5)


def test_on_torch_it_decides_the_same(torch):
    instance = adadim.instances.sphere(arms=20, dim=4, intrinsic_dim=2, horizon=80, replications=range(2))
    for policy in (adadim.PriorElimination(), adadim.PriorBalancing()):
        ours, theirs = (adadim.simulate(policy, which, seed=2) for which in (instance, instance.to("cpu")))
        np.testing.assert_array_equal(ours.pulls, theirs.pulls)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sizes": ()}, r"sizes must be a tuple of positive numbers, e.g. \(0.5,\), got \(\)"),
        ({"dims": (2, 1)}, "dims must increase"),
        ({"delta": 1.0}, r"delta must be a number in \(0, 1\), got 1.0"),
    ],
)
@pytest.mark.parametrize("kind", [adadim.PriorElimination, adadim.PriorBalancing])
def test_bad_parameters(kind, options, message):
    assert_refuses((ValueError, TypeError), message, kind, **options)


def test_other_bad_parameters():
    assert_refuses(ValueError, "rule must be", adadim.PriorElimination, rule="greedy")
    with pytest.warns(adadim.SetsWarning, match="fixed or i.i.d."):
        adadim.PriorBalancing().start(adadim.Problem(arms=3, dim=2, horizon=9, noise=0.1, sets="adversarial"))
