"""Certified: its oracles, its theorem on policies that mislead it, late rewards, and what a certificate says."""

import copy
import dataclasses
import math

import numpy as np
import pytest

import adadim
from adadim.policies.base import Learner, Policy
from adadim.policies.certificate import Ellipsoid, default_ridge, rounds_until_promise
from adadim.policies.confidence import oful_radius, root_radius
from refusals import assert_refuses

SMALL_ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, 0.6]])
SMALL_PULLS, SMALL_REWARDS = [0, 1, 2, 0], [0.9, 0.2, 0.7, 1.1]


@dataclasses.dataclass(frozen=True)
class Fixed(Policy):
    """Proposes one arm of each replication, and after some rounds another; learns nothing."""

    arms: tuple = (0,)
    later: tuple = (0,)
    change: int = 10**9

    def learner(self, problem, streams):
        return FixedLearner(self, problem, streams)


class FixedLearner(Learner):
    no_contexts = ""

    def __init__(self, policy, problem, streams):
        super().__init__(problem, streams)
        self.choices, self.change, self.t = (np.array(policy.arms), np.array(policy.later)), policy.change, 0

    def choose(self, rows):
        self.t += 1
        choices = np.broadcast_to(self.choices[self.t > self.change], len(self.problem))
        return rows.of(choices) + 0, {}

    def absorb(self, arms, rewards, rows, memo):
        pass


def one(value):
    return np.array([float(value)])


def bound(t, dim, noise, ridge, spread=2.0, delta=0.01):
    return Ellipsoid(dim, noise, 1.0, ridge, delta).bound(float(t), float(t), one(1), one(spread)).item()


def test_the_certificate_on_four_pulls():
    """H14."""
    problem = adadim.Problem(SMALL_ARMS, horizon=100, noise=0.2)
    learner = adadim.Certified(Fixed(), ridge=0.04, delta=0.01).start(problem)
    learner.learn(SMALL_PULLS, SMALL_REWARDS)
    np.testing.assert_allclose(learner.model.logdet, [7.69666708], rtol=1e-8)
    np.testing.assert_allclose(learner.ellipsoid.radius(learner.model.logdet), [0.846333444], rtol=1e-8)
    np.testing.assert_allclose(oful_radius(0.2, 0.04, 1.0, 0.01, learner.model.logdet), [1.02236263], rtol=1e-8)
    lower, upper, widths = learner.intervals(learner.everyone)
    np.testing.assert_allclose(upper[0], [1.46683637, 0.86120891, 1.35393314], rtol=1e-7)
    np.testing.assert_allclose(np.minimum(2, upper.max() - lower[0]), [1.06724838, 2, 1.1801516], rtol=1e-7)
    np.testing.assert_allclose(np.minimum(2, widths[0]), [1.06724838, 1.47662046, 1.06724838], rtol=1e-7)


@pytest.mark.parametrize(
    ("arm", "gap", "excess"), [(0, 1.06724838, 0.0), (1, 2.0, 0.52337954), (2, 1.1801516, 0.11290323)]
)
def test_what_a_round_is_charged(arm, gap, excess):
    """H14: g and e of each arm."""
    problem = adadim.Problem(SMALL_ARMS, horizon=100, noise=0.2)
    learner = adadim.Certified(Fixed((arm,)), ridge=0.04, delta=0.01).start(problem)
    learner.learn(SMALL_PULLS, SMALL_REWARDS)
    assert learner.select() == arm
    assert learner.gaps[0] == pytest.approx(gap, rel=1e-7)
    assert learner.excess[0] == pytest.approx(excess, rel=1e-7, abs=1e-12)


def test_the_bound():
    """H15; with 2 in the place of 1 / ln 2, as it is often written, the first is 15.9."""
    assert bound(4, 2, 0.2, 0.04) == pytest.approx(13.4728472, rel=1e-8)
    assert bound(4, 2, 0.2, 0.04) * np.sqrt(2 * np.log(2)) == pytest.approx(15.8630653, rel=1e-8)
    assert bound(20000, 20, 0.1, 0.01) == pytest.approx(7994.10576, rel=1e-8)
    assert bound(20000, 60, 0.1, 0.01) == pytest.approx(21401.0434, rel=1e-8)


@pytest.mark.parametrize(
    ("dim", "ridge", "smallest"), [(20, 0.4747, 6087.21904), (60, 1.4838, 13459.1705), (150, 4.0563, 23983.5574)]
)
def test_the_default_ridge_has_almost_the_smallest_bound(dim, ridge, smallest):
    """H16: the ridge that was found on a grid, and the formula."""
    assert bound(20000, dim, 0.1, ridge) == pytest.approx(smallest, rel=1e-6)
    default = default_ridge(dim, 0.1, 1.0)
    assert default == pytest.approx(0.025 * dim)
    assert smallest <= bound(20000, dim, 0.1, default) < 1.002 * smallest
    grid = np.geomspace(1e-3, 1e2, 400)
    assert min(bound(20000, dim, 0.1, value) for value in grid) > smallest * (1 - 1e-6)


@pytest.mark.parametrize(
    ("dim", "ridge", "rounds"),
    [(20, 0.01, 2085), (60, 0.01, 23634), (150, 0.01, 178351), (20, 1.0, 779), (60, 1.0, 6271), (150, 1.0, 49050)],
)
def test_when_the_promise_says_something(dim, ridge, rounds):
    assert rounds_until_promise(Ellipsoid(dim, 0.1, 1.0, ridge, 0.01), 1.0, one(1), one(2)) == pytest.approx(
        rounds, abs=1
    )


@pytest.mark.parametrize(
    ("logdet", "ridge", "published", "narrow", "of_many"),
    [
        (20, 0.01, 0.64046591, 0.54963934, 0.61704126),
        (100, 0.01, 1.14503751, 1.04981113, 1.08661857),
        (100, 1.0, 2.04503751, 1.44641052, 1.47334311),
        (600, 1.0, 3.46821867, 2.66310034, 2.67782373),
    ],
)
def test_the_radii(logdet, ridge, published, narrow, of_many):
    """H19: as published, the root of the sum, and that for 51 priors at once."""
    known = 0.1, ridge, 1.0
    assert oful_radius(*known, 0.01, one(logdet)).item() == pytest.approx(published, rel=1e-7)
    assert root_radius(*known, 0.01, one(logdet)).item() == pytest.approx(narrow, rel=1e-7)
    assert root_radius(*known, 0.01 / 51, one(logdet)).item() == pytest.approx(of_many, rel=1e-7)


@pytest.mark.parametrize(
    ("weights", "gamma", "theta_hat", "least", "log_mixture", "squared", "of_many"),
    [
        (
            [1.0, 1.0, 1.0],
            7.21071916,
            [0.77663511, 0.03502646, -0.18339602],
            0.0708974962,
            -3.83256789,
            1.52649536,
            2.23422397,
        ),
        (
            [1.0, 2**1.75, 3**1.75],
            4.97823943,
            [0.78516668, -0.01450344, -0.09678337],
            0.080116304,
            -2.76754363,
            1.34871809,
            2.0564467,
        ),
    ],
)
def test_the_radius_is_where_the_mixture_reaches_its_bound(
    weights, gamma, theta_hat, least, log_mixture, squared, of_many
):
    """H18: ln M of the data, by its integral over theta' and by the closed form that the radius rests on."""
    x = np.array([[1.0, 0, 0], [0.6, 0.8, 0], [0, 0.6, 0.8], [0.5, 0.5, 0.5]])
    y, theta, prior = np.array([0.8, 0.5, -0.2, 0.4]), np.array([0.7, 0.1, -0.2]), 0.09 * np.array(weights)
    second = np.diag(prior) + x.T @ x
    found = np.linalg.slogdet(second)[1] - np.log(prior).sum()
    assert found == pytest.approx(gamma, rel=1e-7)
    estimate = np.linalg.solve(second, x.T @ y)
    distance = (theta - estimate) @ second @ (theta - estimate)
    np.testing.assert_allclose(estimate, theta_hat, rtol=1e-6)
    assert y @ y - estimate @ second @ estimate == pytest.approx(least, rel=1e-8)
    closed = -found / 2 + (distance - prior @ theta**2) / (2 * 0.3**2)
    assert closed == pytest.approx(log_mixture, rel=1e-8)
    covariance = 0.09 * np.eye(4) + 0.09 * x @ np.diag(1 / prior) @ x.T  # of y, theta' integrated out
    mixture = -y @ np.linalg.solve(covariance, y) / 2 - np.linalg.slogdet(covariance)[1] / 2
    residual = y - x @ theta
    assert closed == pytest.approx(mixture + residual @ residual / 0.18 + 4 * np.log(0.3), rel=1e-9)
    size = math.sqrt(prior @ theta**2)  # S, for a ridge of 1
    assert root_radius(0.3, 1.0, size, 0.01, one(found)).item() ** 2 == pytest.approx(squared, rel=1e-7)
    assert root_radius(0.3, 1.0, size, 0.01 / 51, one(found)).item() ** 2 == pytest.approx(of_many, rel=1e-7)


def test_ten_rounds_of_the_rule():
    """H17: a policy that always proposes arm 1."""
    policy = adadim.Certified(Fixed((1,)), mu=0.15, ridge=0.04, delta=0.05)
    learner, rewards = policy.start(adadim.Problem(SMALL_ARMS, horizon=10, noise=0.2)), [1, 0.1, 0.8]
    played, budgets = [], []
    for _ in range(10):
        arm = learner.select()
        budgets.append(0.15 * learner.regret_bound(learner.everyone).item())
        learner.update(arm, rewards[arm])
        played.append(arm)
    assert played == [1, 1, 0, 1, 0, 0, 1, 0, 0, 1]
    np.testing.assert_allclose([*budgets[:3], budgets[-1]], [0.82211906, 1.30082985, 1.68643551, 3.5438826], rtol=1e-7)
    assert learner.excess[0] == pytest.approx(3.42860308, rel=1e-8)
    assert learner.gaps[0] == pytest.approx(15.76249218, rel=1e-8)
    assert learner.describe()["overruled"] == 5


def sphere(replications=3, horizon=700, dim=4, **options):
    return adadim.instances.sphere(
        arms=30, dim=dim, intrinsic_dim=dim, horizon=horizon, noise=0.1, replications=range(replications), **options
    )


def worst_later(instance):
    means = np.asarray(instance.means)
    return Fixed(tuple(means.argmax(axis=1).tolist()), tuple(means.argmin(axis=1).tolist()), 500)


def median_for_ever(instance):
    means = np.asarray(instance.means)
    return Fixed(tuple(np.argsort(means, axis=1)[:, means.shape[1] // 2].tolist()))


MISLEADING = {
    "the worst arm after 500 rounds": worst_later,
    "the median arm for ever": median_for_ever,
    "the certificate's own arm": lambda instance: adadim.Certified(Fixed(), mu=1e-9),
    "greedy": lambda instance: adadim.Greedy(),
    "at random": lambda instance: adadim.Random(),
    "a policy that cannot learn from other arms": lambda instance: adadim.SupLinUCB(),
}


@pytest.mark.parametrize("mu", [0.1, 1.0])
@pytest.mark.parametrize("name", MISLEADING)
def test_the_theorem_on_policies_that_mislead(name, mu):
    """R_T <= C_T <= (mu + 1) B(T) after every round."""
    instance = sphere()
    means, rng = np.asarray(instance.means), np.random.default_rng(1)
    learner = adadim.Certified(MISLEADING[name](instance), mu=mu).start(instance.problem)
    regret, everyone = np.zeros(len(means)), np.arange(len(means))
    for t in range(1, 701):
        arms = learner.select()
        value = means[everyone, arms]
        learner.update(arms, value + 0.1 * rng.standard_normal(len(means)))
        regret += means.max(axis=1) - value
        allowed = (mu + 1) * bound(t, 4, 0.1, learner.ellipsoid.ridge)
        assert (regret <= learner.gaps).all()
        assert (learner.gaps <= allowed * (1 + 1e-9)).all()
    if name == "the certificate's own arm":
        assert not learner.overruled.any()
    assert (learner.excess <= mu * bound(700, 4, 0.1, learner.ellipsoid.ridge)).all()
    for r, certificate in enumerate(learner.certificate()):
        assert means[r].argmax() in certificate.can_be_best
        assert certificate.regret_at_most == learner.gaps[r]
        assert certificate.promised == pytest.approx(allowed)


def test_a_bad_policy_is_overruled_and_a_good_one_is_not():
    instance = sphere(2, horizon=3000)
    bad = adadim.simulate(adadim.Certified(median_for_ever(instance), mu=0.1), instance)
    alone = adadim.simulate(median_for_ever(instance), instance)
    assert (bad.final < 0.7 * alone.final).all()
    assert all(row["overruled"] > 50 for row in bad.learner.describe())
    good = adadim.simulate(adadim.Certified(), instance)
    assert all(row["overruled"] == 0 for row in good.learner.describe())


def test_sets_chosen_by_an_adversary():
    """Sets that depend on the learner's state and grow: the arms that it has not seen, ever longer."""
    rng, theta = np.random.default_rng(3), np.array([0.5, -0.5, 0.5])
    learner = adadim.Certified(adadim.Greedy(), mu=0.2, theta_norm=0.9).start(
        adadim.Problem(arms=6, dim=3, horizon=None, noise=0.2)
    )
    regret = 0.0
    for t in range(1, 601):
        directions = rng.normal(size=(6, 3))
        widths = np.linalg.norm(directions - directions.mean(axis=0), axis=1)
        arms = directions / np.linalg.norm(directions, axis=1)[:, None] * (0.2 + 0.001 * t)
        arms[widths.argmin()] = 0.0
        arm = learner.select(arms)
        learner.update(arm, arms[arm] @ theta + 0.2 * rng.choice([-1.0, 1.0]))
        regret += (arms @ theta).max() - arms[arm] @ theta
        certificate = learner.certificate(arms)
        assert regret <= certificate.regret_at_most <= certificate.promised
        assert (arms @ theta).argmax() in certificate.can_be_best
    assert certificate.largest_possible == pytest.approx(600 * 2 * 0.9 * 0.8)


@pytest.mark.parametrize("delay", [7, 40])
def test_late_rewards(delay):
    """Widths are those of answered rounds, and the promise has the price of the delay."""
    rng, instance = np.random.default_rng(0), sphere(1, horizon=800)
    means = np.asarray(instance.means)[0]
    problem = adadim.Problem(instance.problem.actions.dense(0), horizon=800, noise=0.1)
    learner = adadim.Certified(mu=0.3).start(problem)
    waiting, regret, longest = [], 0.0, 0
    for t in range(800):
        logdet = learner.model.logdet.copy()
        decision = learner.ask()
        assert learner.model.logdet == logdet
        regret += means.max() - means[decision.arms]
        waiting.append((t + int(rng.integers(delay)), t, decision))
        for _, made, one_decision in [w for w in waiting if w[0] <= t]:
            learner.tell(one_decision, means[one_decision.arms] + 0.1 * rng.standard_normal())
            longest = max(longest, t - made)
        waiting = [w for w in waiting if w[0] > t]
        certificate = learner.certificate()
        assert regret <= certificate.regret_at_most <= certificate.promised
    assert learner.delay == longest
    ellipsoid = learner.ellipsoid
    prompt = bound(800, 4, 0.1, ellipsoid.ridge)
    late = max(longest, max((800 - 1 - made for _, made, _ in waiting), default=0))
    expected = (0.3 + math.sqrt(2)) * prompt + 2 * late * ellipsoid.information(800.0, one(1)).item() / math.log(2)
    assert certificate.promised == pytest.approx(expected)


def test_decisions_that_are_forgotten_stay_in_the_certificate():
    """Their arms may have been played."""
    learner = adadim.Certified().start(adadim.Problem(SMALL_ARMS, horizon=100, noise=0.2))
    before, decision = learner.certificate(), learner.ask()
    learner.forget(decision)
    after = learner.certificate()
    assert (before.rounds, after.rounds) == (0, 1)
    assert after.regret_at_most == 2
    assert after.promised == pytest.approx(2 * bound(1, 2, 0.2, learner.ellipsoid.ridge) + 2)


def test_another_arm_than_was_chosen_counts_as_the_worst():
    learner = adadim.Certified(Fixed((0,))).start(adadim.Problem(SMALL_ARMS, horizon=100, noise=0.2))
    for _ in range(50):
        learner.select()
        learner.update(0, 1.0)
    learner.select()
    before = learner.gaps.item() - float(learner._selected[0][2]["gap"][0])
    learner.update(1, 0.1)
    assert learner.gaps.item() == pytest.approx(before + 2)
    assert learner.certificate().promised == pytest.approx(2 * bound(51, 2, 0.2, learner.ellipsoid.ridge) + 2)


def test_bounded_rewards_need_no_noise():
    problem = adadim.Problem(SMALL_ARMS, horizon=200)
    assert_refuses(ValueError, "noise", adadim.Certified().start, problem)
    learner = adadim.Certified(reward_bounds=(0.0, 1.0)).start(problem)
    assert learner.ellipsoid.noise == 0.5
    assert learner.ellipsoid.ridge == pytest.approx(2.5 * 2 * 0.25)
    rng = np.random.default_rng(0)
    for _ in range(200):
        arm = learner.select()
        learner.update(arm, float(rng.random() < [0.9, 0.1, 0.8][arm]))
    lower, upper, _ = learner.intervals(learner.everyone)
    assert lower.min() >= 0
    assert upper.max() <= 1
    assert learner.certificate().largest_possible == 200  # means are at most 1 apart
    clicks = adadim.Problem(SMALL_ARMS, horizon=200, rewards="bernoulli")
    assert adadim.Certified().start(clicks).ellipsoid == learner.ellipsoid
    known = adadim.Problem(SMALL_ARMS, horizon=200, noise=0.1)
    assert adadim.Certified(reward_bounds=(0.0, 1.0)).start(known).ellipsoid.noise == 0.1


def test_a_policy_learns_from_the_rounds_in_which_it_is_overruled():
    """In contexts too: the ridge inside is that of the arms played."""
    rng, problem = np.random.default_rng(2), adadim.Problem(arms=5, dim=3, horizon=200, noise=0.1)
    learner = adadim.Certified(adadim.Greedy(ridge=0.5), mu=1e-4).start(problem)
    second = np.eye(3) * 0.5
    for _ in range(100):
        arms = rng.normal(size=(5, 3)) / 3
        arm = learner.select(arms)
        learner.update(arm, arms[arm] @ [0.5, 0.5, 0.5] + 0.1 * rng.standard_normal())
        second += np.outer(arms[arm], arms[arm])
    assert learner.describe()["overruled"] > 0
    _, width2 = learner.inner.model.predict_answered(np.eye(3))
    np.testing.assert_allclose(width2, np.diag(np.linalg.inv(second)), rtol=1e-9)


def test_masks_and_costs():
    problem = adadim.Problem(SMALL_ARMS, horizon=100, noise=0.2)
    learner = adadim.Certified(mu=1e-6).start(problem)
    for allowed in ([True, False, True], [False, True, False], [False, False, True]) * 10:
        arm = learner.select(allowed=allowed)
        assert allowed[arm]
        learner.update(arm, [1.0, 0.0, 0.8][arm])
    certificate = learner.certificate(allowed=[False, True, True])
    assert certificate.can_be_best == (2,)
    assert certificate.arms == 2


def test_a_saved_learner_goes_on_alike(tmp_path):
    instance = sphere(1)
    problem = adadim.Problem(instance.problem.actions.dense(0), horizon=300, noise=0.1)
    learner, rng = adadim.Certified(adadim.LinTS(), mu=1e-3).start(problem, seed=3), np.random.default_rng(0)
    for _ in range(60):
        decision = learner.ask()
        if rng.random() < 0.7:
            learner.tell(decision, rng.normal())
    learner.save(tmp_path / "learner.npz")
    others = [adadim.load(tmp_path / "learner.npz", problem), copy.deepcopy(learner)]
    assert [other.certificate() for other in others] == [learner.certificate()] * 2
    for _ in range(40):
        decisions = [each.ask() for each in (learner, *others)]
        assert len({decision.arms for decision in decisions}) == 1
        for each, decision in zip((learner, *others), decisions, strict=True):
            each.tell(decision, 0.3)
    assert len({each.certificate().regret_at_most for each in (learner, *others)}) == 1
    assert learner.certificate().overruled > 0


def test_torch_has_the_same_certificate():
    torch = pytest.importorskip("torch")
    instance = sphere(3, horizon=300)
    policy = adadim.Certified(adadim.LinUCB(ties="lowest"), mu=1e-3)
    learners = [policy.start(instance.problem), policy.start(instance.problem.to("cpu"))]
    rng = np.random.default_rng(0)
    for _ in range(100):
        rewards = rng.normal(size=3)
        arms = learners[0].select()
        assert learners[1].select().tolist() == arms.tolist()
        learners[0].update(arms, rewards)
        learners[1].update(torch.as_tensor(arms), torch.as_tensor(rewards))
    np.testing.assert_allclose(learners[1].gaps.numpy(), learners[0].gaps, rtol=1e-9)
    assert learners[0].overruled.max() > 0


def test_parameters_of_each_arm():
    """The norm is that of all parameters together, and so is their number."""
    rng, theta = np.random.default_rng(5), np.array([[0.3, 0.0], [0.0, 0.6], [0.2, 0.2]])
    learner = adadim.Certified(adadim.LinUCB(), mu=1e-3).start(
        adadim.Problem(arms=3, dim=2, horizon=500, noise=0.1, disjoint=True)
    )
    regret = 0.0
    for _ in range(400):
        context = rng.uniform(0, 1, 2)
        arm = learner.select(context)
        learner.update(arm, theta[arm] @ context + 0.1 * rng.standard_normal())
        regret += (theta @ context).max() - theta[arm] @ context
    certificate = learner.certificate(context)
    assert certificate.dim == 6
    assert regret <= certificate.regret_at_most <= certificate.promised
    assert certificate.overruled > 0


def test_what_a_certificate_says_in_words():
    learner = adadim.Certified().start(adadim.Problem(np.eye(20), horizon=None, noise=0.1))
    assert (
        str(learner.certificate()) == "Says nothing yet: there is no decision so far. 20 of 20 arms can still be best."
    )
    learner.update(learner.select(), 0.5)
    assert "after 1 decision " in str(learner.certificate())
    assert "With 20 features it will at about 720 decisions." in str(learner.certificate())
    for _ in range(1500):
        arm = learner.select()
        learner.update(arm, float(arm == 3))
    certificate = learner.certificate()
    assert not certificate.says_nothing
    assert str(certificate) == (
        f"After 1,501 decisions the regret is at most {certificate.regret_at_most:.1f} with probability 0.99; the "
        "largest possible is 3,002. 1 of 20 arms can still be best."
    )


def test_policies_without_a_certificate_say_so():
    learner = adadim.LinUCB().start(adadim.Problem(np.eye(3), horizon=9, noise=0.1))
    assert_refuses(TypeError, "docs/guarantees.md", learner.certificate)


@pytest.mark.parametrize(
    "options",
    [
        {"policy": 3},
        {"mu": 0},
        {"mu": math.nan},
        {"ridge": 0},
        {"delta": 1},
        {"delta": 0},
        {"theta_norm": 0},
        {"reward_bounds": (1, 0)},
        {"reward_bounds": 3},
    ],
)
def test_wrong_parameters(options):
    assert_refuses((ValueError, TypeError), next(iter(options)), lambda: adadim.Certified(**options))


def test_a_ridge_that_cannot_be_held_names_what_it_is_made_of():
    problem = adadim.Problem(np.eye(4), horizon=20, noise=0.1)
    with pytest.raises(adadim.InvalidValueError, match=r"theta_norm 9.22337e\+18.*a ridge of 1.17549e-39"):
        adadim.Certified(theta_norm=2**63).start(problem)
    with pytest.raises(adadim.InvalidValueError, match=r"^float64 cannot hold a ridge of 1e-200"):
        adadim.Certified(ridge=1e-200).start(problem)
