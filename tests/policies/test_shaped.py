"""Models with a free constant and exponents to choose from, against regressions written out here."""

import math

import numpy as np
import pytest
from scipy.integrate import dblquad

import adadim
from adadim.models.priors import CONSTANT_WIDTH as WIDE
from adadim.models.priors import RELATIVE_RIDGES as RIDGES
from adadim.models.priors import EvidencePrior
from adadim.policies.confidence import noise_radius
from adadim.policies.linear.rules import probes_next
from evidences import evidence_of_rows

EXPONENTS = (0.0, 0.9, 1.75)
ROUNDS, PROBES = 150, 3
DOUBT = 3.0
POLICY = adadim.EvidenceLinUCB(taper=EXPONENTS, intercept=True, doubt=DOUBT, probes=PROBES)


def shape(exponent, dim):
    return np.arange(1.0, dim + 1) ** (-exponent / 2)


def marginal(x, r, ridge):
    """ln of the density of rewards, a flat constant and the noise integrated out, up to a constant; and S / (n - 1)."""
    covariance, ones = np.eye(len(r)) + x @ x.T / ridge, np.ones(len(r))
    solved = np.linalg.solve(covariance, np.column_stack([r, ones]))
    spread = r @ solved[:, 0] - (ones @ solved[:, 0]) ** 2 / (ones @ solved[:, 1])
    log = -np.linalg.slogdet(covariance)[1] / 2 - np.log(ones @ solved[:, 1]) / 2
    return log - (len(r) - 1) / 2 * np.log(spread), spread / (len(r) - 1)


def centred(x, r):
    return x - x.mean(axis=0), r - r.mean()


def test_evidence_with_a_flat_constant_is_that_of_centred_data():
    rng = np.random.default_rng(0)
    x, r = rng.normal(size=(9, 4)) + 3.0, rng.normal(size=9) + 50.0
    for exponent in EXPONENTS:
        tapered, told = centred(x * shape(exponent, 4), r)
        logs, variances = evidence_of_rows(tapered, told, float(told @ told), 8)
        wanted = [marginal(x * shape(exponent, 4), r, ridge) for ridge in RIDGES]
        np.testing.assert_allclose(variances, [s for _, s in wanted], rtol=1e-7)
        differences = logs - np.array([log for log, _ in wanted])
        np.testing.assert_allclose(differences, math.log(9) / 2, rtol=1e-6)  # the same whatever ridge and exponent


def test_the_flat_constant_against_numerical_integration():
    """The density of three rewards, integrated over the constant and the logarithm of the noise by quadrature."""
    x, r = np.array([[0.3], [-0.8], [1.1]]), np.array([0.4, -0.9, 1.6])

    def density(ridge):
        covariance = np.eye(3) + x @ x.T / ridge
        inverse, root = np.linalg.inv(covariance), math.sqrt(np.linalg.det(covariance))
        a, b, c = inverse.sum(), (inverse @ r).sum(), r @ inverse @ r

        def given(constant, log_noise):
            spread = c - 2 * b * constant + a * constant**2
            return math.exp(-3 * log_noise - spread / (2 * math.exp(2 * log_noise))) / root

        def far(log_noise):
            return 10 * math.exp(log_noise) / math.sqrt(a)

        return dblquad(given, -5, 9, lambda s: b / a - far(s), lambda s: b / a + far(s), epsabs=1e-12)[0]

    found = math.log(density(0.1) / density(10.0))
    assert found == pytest.approx(marginal(x, r, 0.1)[0] - marginal(x, r, 10.0)[0], rel=1e-3)


class Textbook:
    """One replication, round by round, from all the data: the constant is a column with a prior of its own."""

    def __init__(self, arms, longest, horizon, count, in_contexts=False):
        self.in_contexts = in_contexts
        self.arms, self.dim, self.longest, self.horizon, self.count = arms, arms.shape[1], longest, horizon, count
        self.x, self.r, self.offset = [], [], 0.0
        self.ridge, self.exponent, self.noise = 1e-6, EXPONENTS[-1], math.nan

    def behind_constant(self, x):
        column = WIDE * max(1.0, math.sqrt(self.ridge))
        return np.column_stack([np.full(len(x), column), x / self.longest * shape(self.exponent, self.dim)])

    def scores(self):
        n = len(self.r)
        design, arms = self.ridge * np.eye(self.dim + 1), self.behind_constant(self.arms)
        total = np.zeros(self.dim + 1)
        if n:
            x = self.behind_constant(np.array(self.x))
            design, total = design + x.T @ x, x.T @ (np.array(self.r) - self.offset)
        inverse = np.linalg.inv(design)
        width = np.sqrt(np.einsum("kd,de,ke->k", arms, inverse, arms)) * math.sqrt(self.ridge)
        factor = 1.0 if probes_next(np.array(n), PROBES) else 0.35
        radius = factor * self.noise * math.sqrt(2 * math.log(2 * self.horizon**1.5 * self.count))
        radius = 1.0 if math.isnan(self.noise) else radius
        return arms @ inverse @ total + radius * width / math.sqrt(self.ridge)

    def add(self, x, reward):
        self.x.append(x)
        self.r.append(reward)
        n = len(self.r)
        if n & (n - 1):
            return
        x, r, before = np.array(self.x) / self.longest, np.array(self.r), (self.exponent, self.ridge)
        if n > 1:
            self.look(x, r, n)
        if n <= 64 or self.in_contexts or before != (self.exponent, self.ridge):
            self.offset = r.mean()

    def look(self, x, r, n):
        found = {s: [marginal(x * shape(s, self.dim), r, ridge) for ridge in RIDGES] for s in EXPONENTS}
        totals = {s: np.logaddexp.reduce([log for log, _ in each]) for s, each in found.items()}
        alike = max(totals.values()) - min(totals.values()) < 1e-6
        self.exponent = min(s for s in EXPONENTS if totals[s] >= max(totals.values()) - math.log(DOUBT))
        self.exponent = EXPONENTS[-1] if alike else self.exponent
        logs = [log for log, _ in found[self.exponent]]
        i = next(i for i, log in enumerate(logs) if log >= max(logs) - math.log(20))
        self.ridge = RIDGES[i]
        self.noise = math.sqrt(found[self.exponent][i][1] * (1 + math.sqrt(2 / (n - 1))))


def drawn(expressive, **changes):
    settings = {"arms": 40, "dim": 12, "intrinsic_dim": 4, "horizon": ROUNDS, "replications": range(2), "seed": 3}
    levels = [2, 6, 12] if expressive else None
    return adadim.instances.ball(**{**settings, **changes}, expressive=expressive, levels=levels)


@pytest.mark.parametrize("form", ["gram", "feature"])
@pytest.mark.parametrize("expressive", [False, True])
@pytest.mark.parametrize("device", [None, "cpu"])
def test_on_fixed_arms_it_is_the_textbook(form, expressive, device):
    instance = drawn(expressive)
    if device is not None:
        instance = instance.to(device)
    policy = adadim.EvidenceLinUCB(taper=EXPONENTS, intercept=True, doubt=DOUBT, probes=PROBES, form=form)
    learner, noise = policy.start(instance.problem, seed=1), instance.noise_streams(0)
    books = []
    for r in range(2):
        arms = np.asarray(instance.problem.actions.dense(r))
        books.append(Textbook(arms, np.linalg.norm(arms, axis=1).max(), ROUNDS, len(arms)))
    for t in range(ROUNDS):
        arms = learner.select()
        for r, book in enumerate(books):
            scores = book.scores()
            assert scores[int(arms[r])] == pytest.approx(scores.max(), rel=1e-5, abs=1e-7), t
        rewards = instance.pull(arms, noise) + 7.0
        learner.update(arms, rewards)
        for r, book in enumerate(books):
            book.add(book.arms[int(arms[r])], float(rewards[r]))
    described = learner.describe()
    assert [entry["taper"] for entry in described] == [book.exponent for book in books]
    assert [entry["ridge"] for entry in described] == [book.ridge for book in books]
    assert [entry["noise"] for entry in described] == pytest.approx([book.noise for book in books], rel=1e-6)
    assert {entry["dim"] for entry in described} == {12}
    _, sums, squares = learner.pull_sums()  # of the rewards as they came
    assert [float(s) for s in squares] == pytest.approx([np.sum(np.square(book.r)) for book in books])
    assert [float(sums[r].sum()) for r in range(2)] == pytest.approx([np.sum(book.r) for book in books])


def test_in_contexts_it_is_the_textbook():
    rng = np.random.default_rng(5)
    offers = rng.normal(size=(ROUNDS, 8, 6)) + 0.5
    problem = adadim.Problem(arms=8, dim=6, horizon=ROUNDS)
    learner, book = POLICY.start(problem, seed=1), Textbook(offers[0], 1.0, ROUNDS, 8, in_contexts=True)
    longest = 0.0
    for t, offer in enumerate(offers):
        longest = max(longest, np.linalg.norm(offer, axis=1).max())
        if t & (t - 1) == 0:  # relative to the longest so far when it took stock
            book.longest = longest
        book.arms = offer
        arm = int(learner.select(offer))
        scores = book.scores()
        assert scores[arm] == pytest.approx(scores.max(), rel=1e-6, abs=1e-8), t
        reward = float(20 + offer[arm, :3].sum() + rng.normal())
        learner.update(arm, reward)
        book.longest = longest if (t + 1) & t == 0 else book.longest
        book.add(offer[arm], reward)
    (described,) = [learner.describe()]
    assert (described["taper"], described["dim"]) == (book.exponent, 6)
    assert described["noise"] == pytest.approx(book.noise, rel=1e-6)
    (sums,) = learner.context_sums()
    assert sums.squares == pytest.approx(np.sum(np.square(book.r)))


# What does not matter


def pulled(problem, rewards_of, offers=None, rounds=ROUNDS):
    learner = POLICY.start(problem, seed=4)
    arms = []
    for t in range(rounds):
        arms.append(int(learner.select() if offers is None else learner.select(offers[t])))
        learner.update(arms[-1], rewards_of(t, arms[-1]))
    return arms


RNG = np.random.default_rng(7)
ARMS = RNG.normal(size=(30, 8)) / 4
THETA = np.array([1.0, -0.5, 0.0, 0.7, 0.0, 0.0, 0.0, 0.3])
ERRORS = RNG.normal(size=ROUNDS) * 0.2
OFFERS = RNG.normal(size=(ROUNDS, 9, 8)) / 4


def on_arms(t, arm):
    return float(ARMS[arm] @ THETA + ERRORS[t])


def on_offers(t, arm):
    return float(OFFERS[t, arm] @ THETA + ERRORS[t])


@pytest.mark.parametrize("unit", [1.0, 1000.0, 2.0**-10])
@pytest.mark.parametrize("shift", [0.0, 1000.0, -3.0])
def test_units_and_zero_of_the_rewards_do_not_matter(unit, shift):
    problem = adadim.Problem(ARMS, horizon=ROUNDS)
    expected = pulled(problem, on_arms)
    assert pulled(problem, lambda t, arm: unit * (on_arms(t, arm) + shift)) == expected
    contextual = adadim.Problem(arms=9, dim=8, horizon=ROUNDS)
    expected = pulled(contextual, on_offers, OFFERS)
    assert pulled(contextual, lambda t, arm: unit * (on_offers(t, arm) + shift), OFFERS) == expected
    disjoint = adadim.Problem(arms=4, dim=8, horizon=ROUNDS, disjoint=True)
    contexts = OFFERS[:, 0]

    def of_arms(t, arm):
        return float(contexts[t] @ THETA * (arm - 1.5) + ERRORS[t])

    expected = pulled(disjoint, of_arms, contexts)
    assert pulled(disjoint, lambda t, arm: unit * (of_arms(t, arm) + shift), contexts) == expected


@pytest.mark.filterwarnings("ignore::adadim.NormWarning")
def test_units_of_the_features_do_not_matter():
    expected = pulled(adadim.Problem(ARMS, horizon=ROUNDS), on_arms)
    assert pulled(adadim.Problem(64.0 * ARMS, horizon=ROUNDS), on_arms) == expected
    contextual = adadim.Problem(arms=9, dim=8, horizon=ROUNDS)
    assert pulled(contextual, on_offers, 64.0 * OFFERS) == pulled(contextual, on_offers, OFFERS)


@pytest.mark.filterwarnings("ignore::adadim.NormWarning")
def test_columns_in_raw_units_do_not_matter():
    units = 32.0 ** np.arange(8)  # each column more than ten times as large as the one before
    like = ARMS / np.sqrt(np.mean(ARMS**2, axis=0))
    expected = pulled(adadim.Problem(like, horizon=ROUNDS), on_arms)
    assert pulled(adadim.Problem(like * units, horizon=ROUNDS), on_arms) == expected


@pytest.mark.filterwarnings("ignore::adadim.NormWarning")
def test_a_constant_column_does_not_set_the_scale():
    """What counts as long is how arms differ: a column that is the same in all of them, however large, does not."""
    arms = np.column_stack([ARMS, np.full(len(ARMS), 1.0)])  # less than ten times as large as an earlier column
    model = POLICY.start(adadim.Problem(arms, horizon=ROUNDS)).model
    plain = POLICY.start(adadim.Problem(ARMS, horizon=ROUNDS)).model
    np.testing.assert_allclose(model.regression.actions.base[..., :9], plain.regression.actions.base, rtol=1e-12)


# What it finds out


def test_it_learns_that_the_order_says_little():
    instance = adadim.instances.everyday(
        distribution="gaussian",
        arms=60,
        dim=20,
        first_relevant=19,
        intrinsic_dim=20,
        horizon=300,
        noise=0.3,
        replications=range(4),
    )
    learner = adadim.simulate(POLICY, instance).learner
    assert [entry["taper"] for entry in learner.describe()] == [0.0] * 4


def test_probes_come_after_rounds_8_16_32():
    assert np.flatnonzero(probes_next(np.arange(70), 2)).tolist() == [8, 9, 16, 17, 32, 33, 64, 65]
    assert not probes_next(np.arange(70), 0).any()


@pytest.mark.parametrize("wait", [0, 1, 5, 40])
@pytest.mark.parametrize("horizon", [200, None], ids=["with an end", "without"])
def test_a_probe_is_one_decision_however_late_rewards_are(wait, horizon):
    """One replication is told its rewards at once, the other `wait` rounds later: both probe after 8, 16, 32, ..."""
    rng = np.random.default_rng(3)
    learner = POLICY.start(adadim.Problem(rng.normal(size=(2, 12, 4)) / 4, horizon=horizon))
    used, radius = [], learner.rule.radius
    learner.rule.radius = lambda rows: used.append(radius(rows)) or used[-1]
    late, tried = [], 0
    for t in range(100):
        for r in (0, 1):
            decision, noise = learner.ask(rows=[r]), learner.model.noise[r]
            if not math.isnan(noise):
                scale = 1.0 if t >= 8 and t - 2 ** int(math.log2(t)) < PROBES else 0.35
                assert used[-1][0, 0] == pytest.approx(scale * noise_radius(noise, horizon or t + 1, 12), rel=1e-12)
                tried += 1
            late.append(decision) if r else learner.tell(decision, rng.normal(size=1))
        if len(late) > wait:
            learner.tell(late.pop(0), rng.normal(size=1))
    assert tried > 150 - wait


def test_bayes_factors_count_by_the_share_of_decisions_that_are_answered():
    """Four exponents whose evidences lie 0, 1, 2 and 3 below the largest in logs, and a doubt of e^2.1."""
    prior = EvidencePrior((0.0, 0.5, 1.0, 1.5), factor=1.0, doubt=math.exp(2.1), constant=True)
    logs = np.arange(-3.0, 1.0)[:, None] * np.ones(len(RIDGES))
    pending = (0, 10, 12, 30, 10_000)
    chosen = {n: prior.exponents[prior.choices(logs, 10 / (10 + n))[0][0]] for n in pending}
    # The factor's logarithm is 2.1, then 1.05, 0.95, 0.53, and nearly 0.
    assert chosen == {0: 0.5, 10: 1.0, 12: 1.5, 30: 1.5, 10_000: 1.5}


def test_what_was_added_later_is_in_no_table_unless_it_is_used():
    assert repr(adadim.EvidenceLinUCB()) == (
        "EvidenceLinUCB(taper=1.75, scale=0.35, factor=20.0, form='auto', ties='random')"
    )
    assert "probes=3" in repr(POLICY)
    table = adadim.study.to_spec(POLICY)
    assert table["taper"] == [0.0, 0.9, 1.75]
    assert adadim.study.from_spec(table) == POLICY
    assert "probes" not in adadim.study.to_spec(adadim.EvidenceLinUCB())


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"taper": (0.0, -1.0)}, "taper must be a finite number of at least 0, got -1.0"),
        ({"taper": ()}, "taper must be .* got \\(\\)"),
        ({"probes": -1}, "probes must be .* got -1"),
        ({"taper": (0.0, 1.0), "intercept": False}, "only with intercept=True"),
    ],
)
def test_what_is_wrong_is_said(bad, message):
    with pytest.raises(adadim.errors.InvalidValueError, match=message):
        adadim.EvidenceLinUCB(**{"intercept": True, **bad})
