"""Clicks: the expansion against an independent fit by SciPy, and the evidence against numerical integration."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import integrate
from scipy.special import expit

import adadim
from adadim.models.likelihoods import (
    BERNOULLI,
    Told,
    Trials,
    expanded_moments,
    fit,
    last_due,
    prior_precision,
    probability_estimates,
)
from adadim.models.priors import CONSTANT_WIDTH, EXPONENTS, Belief, EvidencePrior, Prior, RidgePrior, log_evidences
from logistic_maps import reference_map


def clicks(n, dim, rng, constant=-1.5, size=0.8):
    x = rng.standard_normal((n, dim))
    y = (rng.random(n) < expit(constant + x @ (size * rng.standard_normal(dim) / np.arange(1, dim + 1)))).astype(float)
    return Trials(x, y, np.ones(n))


def told_of(trials):
    return Told().after(BERNOULLI, trials.rewards)[0]


@dataclass(frozen=True)
class Known(Prior):
    """A prior of these precisions, whatever the data."""

    precision: tuple[float, ...]
    centre: float

    def __call__(self, data, longest, units, pending):
        return Belief(1.0, np.array(self.precision) ** -0.5, self.centre)


def map_of(trials, precision, centre, told=None, folded=None):
    """The MAP that `fit` finds under a prior that is known."""
    basis = 1.0, np.ones(trials.features.shape[1])
    told = told_of(trials) if told is None else told
    return fit(BERNOULLI, [[trials]], Known(tuple(precision), centre), basis, told, folded)[0]


SEPARATED = Trials(np.linspace(-1, 1, 40)[:, None], (np.linspace(-1, 1, 40) > 0).astype(float), np.ones(40))


@pytest.mark.parametrize("precision", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("trials", [clicks(300, 5, np.random.default_rng(1)), SEPARATED])
def test_newton_finds_the_map_that_scipy_finds(trials, precision):
    precisions = np.r_[1 / CONSTANT_WIDTH**2, np.full(trials.features.shape[1], precision)]
    assert map_of(trials, precisions, -1.0) == pytest.approx(reference_map(trials, precisions, -1.0), abs=1e-6)


def test_newton_is_damped_where_undamped_steps_diverge():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((4000, 8)) * 3.0
    trials = Trials(x, (rng.random(4000) < expit(-7.0 + x[:, 0])).astype(float), np.ones(4000))
    precision = np.r_[0.4, np.full(8, 1e-2)]
    far = Told(4000, 3990.0, 10.0)  # it starts at the logit of this rate, where weights vanish
    expected = reference_map(trials, precision, -3.0)
    assert map_of(trials, precision, -3.0, far) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("prior", [RidgePrior(0.5, constant=True), EvidencePrior(EXPONENTS, 20.0, 3.0, True, 1.0)])
def test_the_model_is_the_map_right_after_a_fit(prior):
    trials = clicks(400, 6, np.random.default_rng(5))
    basis = (float(np.vecdot(trials.features, trials.features).max()), np.ones(6))
    (point,) = fit(BERNOULLI, [[trials]], prior, basis, told_of(trials))
    (data,) = expanded_moments(BERNOULLI, trials, point[None], True)
    belief = prior([data], *basis, 0)
    precision = prior_precision(belief)
    extended = data.less(belief.offset).with_constant()
    theta = np.linalg.solve(extended.second + np.diag(precision), extended.moment)
    theta[0] += belief.offset
    assert theta == pytest.approx(reference_map(trials, precision, belief.offset), abs=1e-6)


@pytest.mark.parametrize("dim", [1, 2])
def test_the_evidence_is_that_of_numerical_integration(dim):
    """The ratio of the evidences of two ridges, by Laplace's method, is within 2% of the integral's."""
    rng = np.random.default_rng(dim)
    x = rng.standard_normal((400, dim))
    y = (rng.random(400) < expit(x @ np.array([0.7, -0.4])[:dim])).astype(float)
    trials, ridges = Trials(x, y, np.ones(400)), np.array([0.5, 8.0])

    def log_integral(ridge):
        peak = map_of(trials, np.r_[1e12, np.full(dim, ridge)], 0.0)[1:]

        def log_joint(theta):
            eta = x @ theta
            return float(y @ eta - np.logaddexp(0, eta).sum() - 0.5 * ridge * theta @ theta)

        top = log_joint(peak)
        box = [(one - 1.5, one + 1.5) for one in peak]
        value, _ = integrate.nquad(
            lambda *theta: math.exp(log_joint(np.array(theta)) - top), box, opts={"epsrel": 1e-6}
        )
        return math.log(value) + top + 0.5 * dim * math.log(ridge / (2 * math.pi))

    logs = []
    for ridge in ridges:  # each about its own MAP
        point = map_of(trials, np.r_[1e12, np.full(dim, ridge)], 0.0)
        (data,) = expanded_moments(BERNOULLI, trials, point[None], True)
        form = data.form(np.ones(dim), False, 0.0)
        log, _ = log_evidences([[form]], data.squares, data.n, np.array([ridge]), 1.0)
        eta = np.clip(x @ point[1:], -30, 30)
        # What the sums leave out: the log likelihood at the point, less that of its Gaussian.
        p = expit(eta)
        exact, working = y @ eta - np.logaddexp(0, eta).sum(), (((y - p) ** 2) / (p * (1 - p))).sum()
        logs.append(float(log[0, 0]) + exact + 0.5 * working)
    assert logs[1] - logs[0] == pytest.approx(log_integral(8.0) - log_integral(0.5), abs=0.02)


def test_fits_are_due_when_data_have_grown_by_half():
    due = sorted({last_due(count) for count in range(100)})
    assert due == [0, 1, 2, 3, 5, 8, 12, 18, 27, 41, 62, 93]


def test_sums_that_stand_for_pulls_enter_the_fit_as_they_are():
    trials = clicks(300, 3, np.random.default_rng(8))
    first, second = (Trials(*(part[half] for part in trials[:3])) for half in (slice(0, 150), slice(150, 300)))
    precision = np.r_[0.4, np.ones(3)]
    whole = map_of(trials, precision, 0.0)
    folded = expanded_moments(BERNOULLI, first, whole[None], True)[0]
    assert map_of(second, precision, 0.0, told_of(trials), folded) == pytest.approx(whole, abs=1e-9)


def test_intervals_stay_inside_0_and_1():
    mean, width2 = np.array([-40.0, -5.0, 0.0, 3.0, 40.0]), np.array([100.0, 9.0, 1e6, 4.0, 1e6])
    p, deviation = probability_estimates(mean, width2)
    assert (p - 2 * deviation >= 0).all()
    assert (p + 2 * deviation <= 1).all()


# Learners


def page(kind, rng, horizon=400):
    """A problem of each kind with a truth: what to offer in a round, and the probabilities of clicks."""
    theta = np.array([1.2, -0.8, 0.4, 0.0])
    if kind == "fixed":
        arms = rng.standard_normal((12, 4))
        problem = adadim.Problem(arms, horizon=horizon, rewards="bernoulli")
        return problem, lambda: (None, expit(arms @ theta - 1.5))
    if kind == "contexts":

        def offer():
            arms = rng.standard_normal((6, 4))
            return arms, expit(arms @ theta - 1.5)

        return adadim.Problem(arms=6, dim=4, horizon=horizon, rewards="bernoulli"), offer
    own = rng.standard_normal((3, 4))

    def context():
        x = rng.standard_normal(4)
        return x, expit(own @ x - 1.0)

    return adadim.Problem(arms=3, dim=4, horizon=horizon, rewards="bernoulli", disjoint=True), context


POLICIES = [
    adadim.EvidenceLinUCB(likelihood="bernoulli"),
    adadim.LinUCB(likelihood="bernoulli", scale=0.3),
    adadim.LinTS(likelihood="bernoulli"),
    adadim.Greedy(likelihood="bernoulli"),
    adadim.TaperedLinUCB(likelihood="bernoulli", scale=0.3),
    adadim.LinUCB(likelihood="bernoulli", memory=200.0, scale=0.3),
    adadim.EvidenceLinUCB(likelihood="bernoulli", memory=200.0),
]


@pytest.mark.filterwarnings("ignore::adadim.NormWarning")
@pytest.mark.parametrize("kind", ["fixed", "contexts", "disjoint"])
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{type(policy).__name__}-{policy.memory}")
def test_it_learns_with_late_rewards_in_any_order(policy, kind):
    rng = np.random.default_rng(7)
    problem, offer = page(kind, rng)
    learner, open_decisions, earned, by_chance = policy.start(problem, seed=1), [], [], []
    for _ in range(400):
        offered, p = offer()
        decision = learner.ask() if offered is None else learner.ask(offered)
        earned.append(p[decision.arms])
        by_chance.append(p.mean())
        open_decisions.append((decision, bool(rng.random() < p[decision.arms])))
        if len(open_decisions) > 5:
            learner.tell(*open_decisions.pop(int(rng.integers(len(open_decisions)))))
    assert np.mean(earned[200:]) > 1.15 * np.mean(by_chance[200:])
    described = learner.describe()
    assert described["likelihood"] == "bernoulli"
    assert described["pulls"] == 395


@pytest.mark.filterwarnings("ignore::adadim.NormWarning")
@pytest.mark.parametrize("kind", ["fixed", "contexts", "disjoint"])
def test_the_order_of_rewards_does_not_matter_right_after_a_fit(kind):
    """Rewards told in two orders, the last of which makes a fit due: the same model."""
    scores = []
    for order in (1, -1):
        rng = np.random.default_rng(11)
        problem, offer = page(kind, rng)
        learner = adadim.LinUCB(likelihood="bernoulli").start(problem, seed=1)
        decisions = []
        for _ in range(62):  # at which a fit is due
            offered, p = offer()
            decision = learner.ask() if offered is None else learner.ask(offered)
            decisions.append((decision, float(rng.random() < p[decision.arms])))
        for decision, click in decisions[::order]:
            learner.tell(decision, click)
        offered, _ = offer()
        rows = learner.everyone if offered is None else learner.everyone.with_offer(offered[None], None)
        scores.append(np.stack(learner.model.predict(rows)))
    assert scores[0] == pytest.approx(scores[1], abs=1e-8)


@pytest.mark.filterwarnings("ignore::adadim.NormWarning")
def test_a_learner_is_the_map_after_a_fit_and_near_it_between_two():
    """Measured: between two fits probabilities differ from the MAP by at most 0.005 after 93 rewards."""
    rng = np.random.default_rng(2)
    problem, offer = page("fixed", rng)
    learner = adadim.LinUCB(likelihood="bernoulli", ridge=1.0).start(problem, seed=1)
    worst = 0.0
    for n in range(1, 400):
        _, p = offer()
        decision = learner.ask()
        learner.tell(decision, bool(rng.random() < p[decision.arms]))
        model = learner.model
        mean = model.predict(learner.everyone)[0][0] + model.offset[0]
        trials = model.rewards.trials.of(0, model.offer.staying[0], False)[0]
        if n < 41 or not model.rewards.trials.decided(0):
            continue
        precision = np.r_[1 / CONSTANT_WIDTH**2, np.ones(4)]
        found = map_of(trials, precision, float(model.offset[0]), model.rewards.trials.told(0))
        exact = found[0] + model.offer.staying[0] @ found[1:]
        if model.rewards.trials.fitted[0, 0] == n:
            assert mean == pytest.approx(exact, abs=1e-6)
        off = float(np.abs(expit(mean) - expit(exact)).max())
        worst = max(worst, off if n >= 93 else 0.0)
    assert worst < 0.01


@pytest.mark.parametrize("reward", [-0.1, 1.5, 2, math.nan, "yes", None])
@pytest.mark.parametrize(
    "policy", [adadim.Random(), adadim.EvidenceLinUCB(), adadim.EvidenceLinUCB(likelihood="bernoulli")]
)
def test_other_rewards_are_refused_by_name(policy, reward):
    problem = adadim.Problem(arms=2, dim=2, horizon=9, rewards="bernoulli")
    learner = policy.start(problem)
    decision = learner.ask(np.eye(2))
    with pytest.raises((adadim.InvalidValueError, adadim.InvalidTypeError), match="rewards must be"):
        learner.tell(decision, reward)
    learner.tell(decision, True)  # nothing was learned from the other


@pytest.mark.parametrize("reward", [0, 1, True, False, 0.25, np.float32(0.5), np.True_])
def test_clicks_and_shares_are_taken(reward):
    learner = adadim.EvidenceLinUCB(likelihood="bernoulli").start(adadim.Problem(arms=2, dim=2, horizon=9))
    learner.update(learner.select(np.eye(2)), reward)
    assert learner.describe()["pulls"] == 1


def test_an_unknown_kind_of_rewards_is_refused():
    with pytest.raises(adadim.InvalidValueError, match="rewards must be 'gaussian' or 'bernoulli', got 'poisson'"):
        adadim.Problem(arms=2, dim=2, horizon=9, rewards="poisson")
    with pytest.raises(adadim.InvalidValueError, match="likelihood"):
        adadim.LinUCB(likelihood="poisson")


def test_the_recommended_policy_follows_the_problem():
    problem = adadim.Problem(arms=2, dim=2, horizon=9, rewards="bernoulli")
    assert adadim.recommended(problem).likelihood == "bernoulli"
    assert adadim.recommended(adadim.Problem(arms=2, dim=2, horizon=9)).likelihood == "gaussian"
    disjoint = adadim.Problem(arms=2, dim=2, horizon=9, rewards="bernoulli", disjoint=True)
    assert adadim.recommended(disjoint).likelihood == "bernoulli"


RARE = {
    "1 in 10,000": lambda t, arm: t % 9973 == 5,
    "none": lambda t, arm: False,
    "always": lambda t, arm: True,
    "one arm has them all": lambda t, arm: arm == 3,
    "separated": lambda t, arm: arm >= 5,
}


@pytest.mark.filterwarnings("ignore::adadim.NormWarning")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["fixed", "contexts"])
@pytest.mark.parametrize("rare", RARE)
def test_rare_clicks_do_not_break_it(rare, kind):
    rng, rounds = np.random.default_rng(1), 10_500 if rare in ("1 in 10,000", "none") and kind == "fixed" else 600
    arms = np.hstack([np.eye(8), rng.standard_normal((8, 2))])
    if kind == "fixed":
        problem = adadim.Problem(arms, horizon=rounds, rewards="bernoulli")
    else:
        problem = adadim.Problem(arms=8, dim=10, horizon=rounds, rewards="bernoulli")
    learner = adadim.recommended(problem).start(problem, seed=2)
    pulls = np.zeros(8)
    for t in range(rounds):
        decision = learner.ask() if kind == "fixed" else learner.ask(arms)
        pulls[decision.arms] += t >= rounds // 2
        learner.tell(decision, RARE[rare](t, decision.arms))
    means, deviations = learner.estimates(*([] if kind == "fixed" else [arms]))
    assert np.isfinite(means).all()
    assert np.isfinite(deviations).all()
    if rare in ("1 in 10,000", "none"):
        assert means.max() < 0.02
        assert (pulls > 0).all()  # it goes on looking everywhere
    elif rare == "always":
        assert means.min() > 0.9
    elif rare == "one arm has them all":
        assert pulls[3] > 0.9 * pulls.sum()
        assert means[3] > 0.9
    else:
        assert pulls[5:].sum() > 0.9 * pulls.sum()


@pytest.mark.parametrize("policy", [POLICIES[0], POLICIES[3]], ids=lambda policy: type(policy).__name__)
@pytest.mark.parametrize("rates", [(0.5, 0.2), (0.04, 0.02)])
def test_costs_are_in_units_of_probability(policy, rates):
    """The better of two arms is worth at most the difference of their rates, whatever the logits say."""
    problem = adadim.Problem(arms=2, dim=2, horizon=None, rewards="bernoulli")
    learner, pulls = policy.start(problem), 4000
    clicks = [np.arange(pulls) < round(rate * pulls) for rate in rates]
    learner.learn(np.repeat(np.eye(2), pulls, axis=0), np.concatenate(clicks).astype(float))
    difference = rates[0] - rates[1]
    for cost, chosen in ((0.5 * difference, 0), (1.9 * difference, 1)):
        rows = learner.everyone.with_offer(np.eye(2)[None], None, np.array([cost, 0.0]))
        assert int(learner.choose(rows)[0][0]) == chosen


@pytest.mark.parametrize("as_array", [True, False])
def test_pulls_of_rounds_predicted_together_count_as_one_at_a_time(as_array):
    rng = np.random.default_rng(6)
    x, rounds = rng.standard_normal((300, 3)), rng.standard_normal((5, 8, 3))
    clicks = (rng.random(300) < expit(2 * x[:, 0] - 1)).astype(float)
    together, alone = (
        POLICIES[0].start(adadim.Problem(arms=8, dim=3, horizon=None, rewards="bernoulli")) for _ in "ab"
    )
    for learner in (together, alone):
        learner.learn(x, clicks)
    predicted = together.model.predict_in_turn(rounds if as_array else list(rounds))
    mean, width2 = next(predicted)
    for at, arms in enumerate(rounds):
        expected = alone.model.predict(alone.everyone.with_offer(arms[None], None))
        np.testing.assert_allclose([mean, width2], [one[0] for one in expected], rtol=1e-9)
        if at + 1 == len(rounds):
            break
        alone.expect_features(arms[at])
        mean, width2 = predicted.send([at])


@pytest.mark.filterwarnings("ignore::adadim.NormWarning")
@pytest.mark.parametrize("kind", ["fixed", "contexts", "disjoint"])
@pytest.mark.parametrize("policy", [POLICIES[0], POLICIES[2], POLICIES[5]], ids=lambda policy: type(policy).__name__)
def test_a_saved_learner_goes_on_as_it_was(policy, kind, tmp_path):
    rng = np.random.default_rng(4)
    problem, offer = page(kind, rng)
    learner = policy.start(problem, seed=1)
    open_decision = None
    for _ in range(70):
        offered, p = offer()
        decision = learner.ask() if offered is None else learner.ask(offered)
        open_decision = open_decision or decision
        if decision is not open_decision:
            learner.tell(decision, bool(rng.random() < p[decision.arms]))
    learner.save(tmp_path / "learner.npz")
    other = adadim.load(tmp_path / "learner.npz", problem)
    for one in (learner, other):
        one.tell(open_decision, 1)
    for _ in range(60):
        offered, p = offer()
        asked = [one.ask() if offered is None else one.ask(offered) for one in (learner, other)]
        assert asked[0].arms == asked[1].arms
        for one, decision in zip((learner, other), asked, strict=True):
            one.tell(decision, float(asked[0].number % 3 == 0))


@pytest.mark.filterwarnings("ignore::adadim.NormWarning")
@pytest.mark.parametrize("kind", ["fixed", "contexts", "disjoint"])
@pytest.mark.parametrize("policy", POLICIES[:5], ids=lambda policy: type(policy).__name__)
def test_torch_plays_as_numpy_does(policy, kind):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(9)
    problem, offer = page(kind, rng)
    learners = [policy.start(one, seed=1) for one in (problem, problem.to("cpu"))]
    for _ in range(40):
        offered, p = offer()
        arms = []
        for learner, wrap in zip(learners, (np.asarray, torch.as_tensor), strict=True):
            decision = learner.ask() if offered is None else learner.ask(wrap(offered))
            arms.append(int(decision.arms))
            learner.tell(decision, float(p[arms[0]] > 0.4))
        assert arms[0] == arms[1]


@pytest.mark.filterwarnings("ignore::adadim.NormWarning")
def test_masks_and_arriving_arms():
    arms = np.vstack([np.eye(3), np.ones((1, 3))])
    problem = adadim.Problem(arms, horizon=60, arrives=[1, 1, 1, 20], arms=5, rewards="bernoulli")
    learner = adadim.recommended(problem).start(problem, seed=1)
    seen = []
    for t in range(60):
        if t == 30:
            learner.add_arms([[2.0, 0.0, 2.0]])
        decision = learner.ask(allowed=np.array([True, False, True, True, True]))
        seen.append(decision.arms)
        learner.tell(decision, decision.arms == 4)
    assert 1 not in seen
    assert 3 not in seen[:19]
    assert 4 not in seen[:30]
    assert seen[-10:].count(4) >= 9


def test_gaussian_rewards_are_refused_in_simulations():
    instance = adadim.instances.sphere(arms=5, dim=2, intrinsic_dim=1, horizon=50, replications=range(2))
    with pytest.raises(adadim.InvalidValueError, match=r"rewards must be 0, 1 or a share in \[0, 1\]"):
        adadim.simulate(adadim.LinUCB(likelihood="bernoulli"), instance)
