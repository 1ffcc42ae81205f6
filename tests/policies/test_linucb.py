"""LinUCB against the specification's oracles, a textbook that rescores every arm, and its own symmetries."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import adadim
import reference
from adadim import ForeignArmError, Greedy, LinUCB, Problem, instances
from adadim.policies.confidence import noise_radius
from adadim.policies.ties import argmax
from reference.ridge import Ridge, oful_radius

both_forms = pytest.mark.parametrize("form", ["gram", "feature"])

ARMS = np.array([[1.0, 0.0], [0.0, 0.9], [0.6, 0.7]])
MEANS = ARMS @ [0.5, 0.2]


def ball(rng, *shape):
    """Points of the unit ball: their norms differ, so that arms do not tie."""
    rows = rng.standard_normal(shape)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True) * rng.random((*shape[:-1], 1)) ** 0.5


def play(learner, means, noise):
    """Arms chosen when arm k of replication r is worth means[r, k] + noise[t, r] at step t."""
    chosen = []
    for told in noise:
        arms = learner.select()
        learner.update(arms, means[np.arange(len(arms)), arms] + told)
        chosen.append(arms)
    return np.array(chosen)


# Oracles of the specification


@both_forms
@pytest.mark.parametrize(
    ("policy", "arms", "scores"),
    [
        pytest.param(
            LinUCB(ridge=1.0, radius=1.0, bonus="norm"),
            [0, 2, 0, 0, 2, 0],
            {
                2: [0.957107, 0.900000, 0.968535],
                3: [0.970009, 0.865930, 0.899749],
                6: [0.883575, 0.790623, 0.858651],
            },
            id="C8",
        ),
        pytest.param(
            LinUCB(ridge=1.0, radius=1.0, bonus="squared"),
            [0, 2, 0, 0, 2, 0],
            {2: [0.75, 0.81, 0.82], 4: [0.671636, 0.657391, 0.669814]},
            id="C9",
        ),
        pytest.param(
            LinUCB(ridge=0.1, radius=0.5, bonus="squared"),
            [0, 1, 0, 2, 0, 0],
            {1: [5, 4.05, 4.25], 2: [0.909091, 4.05, 2.886364], 4: [0.714286, 0.605275, 0.765275]},
            id="C10 squared",
        ),
        pytest.param(
            LinUCB(ridge=0.1, radius=0.5, bonus="norm"),
            [0, 1, 0, 2, 0, 0],
            {1: [1.581139, 1.423025, 1.457738]},
            id="C10 norm",
        ),
    ],
)
def test_oracles(policy, arms, scores, form):
    learner = LinUCB(**{**vars(policy), "form": form}).start(Problem(ARMS, horizon=6, noise=0.1))
    chosen = []
    for t in range(1, 7):
        if t in scores:
            np.testing.assert_allclose(learner.scores()[0], scores[t], atol=1e-6)
        arm = learner.select()
        learner.update(arm, MEANS[arm])
        chosen.append(int(arm[0]))
    assert chosen == arms
    if policy.ridge == 1.0:
        np.testing.assert_allclose(learner.posterior.mean[0], ARMS @ [0.4225988701, 0.1318267420], atol=1e-9)


def radius_of(policy, horizon=2500, arms=1200, noise=0.1):
    return policy.start(Problem(np.full((arms, 1), 0.5), horizon=horizon, noise=noise)).radius()


def test_radii():
    """C11."""
    assert radius_of(LinUCB()) == pytest.approx(0.624809, abs=1e-6)
    assert radius_of(LinUCB(radius="full")) == pytest.approx(0.624809 + math.sqrt(0.1), abs=1e-6)
    assert radius_of(LinUCB(radius="full", ridge=4.0, theta_norm=3.0)) == pytest.approx(6.624809, abs=1e-6)
    assert radius_of(LinUCB(radius="paper", ridge=1.0)) == pytest.approx(24.484221, abs=1e-6)
    assert radius_of(LinUCB(radius="paper")) - 2 * math.log(2500) == pytest.approx(8.836129, abs=1e-6)
    assert radius_of(LinUCB(radius="oful")) == pytest.approx(0.595943, abs=1e-6)
    assert radius_of(LinUCB(radius=0.7)) == 0.7
    assert radius_of(LinUCB(), noise=0.3) == pytest.approx(3 * 0.624809, abs=3e-6)


def test_radii_of_the_iterations():
    """C11: what LinUCB++ uses, real arms and mixtures of arms with range 0.3."""
    sizes = [(64 * 2**i, 1199 + i) for i in range(1, 6)]
    real = [0.548840, 0.567483, 0.585532, 0.603041, 0.620056]
    mixed = [0.989435, 1.023044, 1.055583, 1.087148, 1.117822]
    assert [noise_radius(0.1, *size) for size in sizes] == pytest.approx(real, abs=1e-6)
    assert [noise_radius(math.hypot(0.1, 0.15), *size) for size in sizes] == pytest.approx(mixed, abs=1e-6)


@pytest.mark.parametrize("radius", ["noise", "full", "paper", "oful", 0.7])
def test_scale_multiplies_every_radius(radius):
    assert radius_of(LinUCB(radius=radius, scale=0.25)) == pytest.approx(0.25 * radius_of(LinUCB(radius=radius)))


# Against the textbook


@pytest.mark.parametrize("bonus", ["norm", "squared"])
def test_both_forms_choose_as_the_textbook(bonus):
    arms, dim, horizon = 200, 60, 2500
    rng = np.random.default_rng(1)
    features = ball(rng, arms, dim)
    means, noise = features @ instances.parameter("uniform", 5, dim), 0.1 * rng.standard_normal(horizon)
    textbook = reference.LinUCB(features, horizon, 0.1, 0.1, rng, bonus=bonus)
    expected = []
    for told in noise:
        expected.append(textbook.select())
        textbook.update(expected[-1], means[expected[-1]] + told)
    assert len(set(expected)) > 50
    problem = Problem(features, horizon=horizon, noise=0.1)
    for form in ("gram", "feature"):
        learner = LinUCB(bonus=bonus, form=form).start(problem)
        np.testing.assert_array_equal(play(learner, means[None], noise[:, None])[:, 0], expected)
        np.testing.assert_allclose(learner.scores()[0], textbook.scores(), atol=1e-8)


@both_forms
@pytest.mark.parametrize("bonus", ["norm", "squared"])
def test_oful_follows_the_formula(form, bonus):
    rng = np.random.default_rng(2)
    features = ball(rng, 3, 12, 4)
    means, horizon = np.einsum("rkd,d->rk", features, [0.5, 0.5, 0.5, 0.5]), 80
    policy = LinUCB(radius="oful", ridge=0.3, theta_norm=2.0, scale=0.5, form=form, bonus=bonus)
    learner = policy.start(Problem(features, horizon=horizon, noise=0.2))
    textbooks = [Ridge(4, 0.3) for _ in range(3)]
    for _ in range(horizon):
        scores, radii = learner.scores(), learner.radius()
        arms = learner.select()
        for r, textbook in enumerate(textbooks):
            radius = 0.5 * oful_radius(0.2, 0.3, 2.0, horizon**-0.5, textbook.logdet)
            mean, width2 = textbook.predict(features[r])
            expected = mean + radius * (np.sqrt(width2) if bonus == "norm" else width2)
            np.testing.assert_allclose(radii[r], radius, atol=1e-10)
            np.testing.assert_allclose(scores[r], expected, atol=1e-9)
            assert arms[r] == expected.argmax()
        rewards = means[range(3), arms] + 0.2 * rng.standard_normal(3)
        learner.update(arms, rewards)
        for r, textbook in enumerate(textbooks):
            textbook.add(features[r, arms[r]], rewards[r])
    assert len({float(radius) for radius in learner.radius()[:, 0]}) == 3


def test_greedy_is_linucb_without_a_bonus():
    instance = instances.ball(arms=30, dim=6, intrinsic_dim=3, horizon=100, replications=range(5))
    greedy = adadim.simulate(Greedy(ridge=0.5, dim=4), instance)
    linucb = adadim.simulate(LinUCB(ridge=0.5, dim=4, radius=0.0), instance)
    np.testing.assert_array_equal(greedy.pulls, linucb.pulls)
    np.testing.assert_array_equal(greedy.learner.scores(), linucb.learner.posterior.mean)


# Truncation


@both_forms
@pytest.mark.parametrize("dim", [1, 3, 8])
def test_dim_is_truncation_of_the_features(form, dim):
    rng = np.random.default_rng(3)
    features = ball(rng, 2, 25, 8)
    means, noise = np.einsum("rkd,d->rk", features, instances.parameter("flip", 5, 8)), rng.standard_normal((200, 2))
    whole = LinUCB(dim=dim, form=form).start(Problem(features, horizon=200, noise=0.1))
    cut = LinUCB(form=form).start(Problem(features[:, :, :dim], horizon=200, noise=0.1))
    np.testing.assert_array_equal(play(whole, means, noise), play(cut, means, noise))
    np.testing.assert_array_equal(whole.scores(), cut.scores())


@both_forms
@pytest.mark.parametrize("arms", ["distinct", "supported"])
@pytest.mark.parametrize("dim", [2, 4, 6, 10])
def test_dim_on_an_expressive_set(form, arms, dim):
    """The learner sees the arms that differ (or end) within `dim`, and pulls real arms of the whole set."""
    rng = np.random.default_rng(4)
    levels, base = [3, 6, 10], ball(rng, 1, 15, 10)
    problem = Problem(adadim.ActionSet(base, levels=levels), horizon=150, noise=0.1)
    dense = np.vstack([np.where(np.arange(10) < m, base[0], 0.0) for m in levels])
    if arms == "supported":
        kept = [k for k in range(45) if not dense[k, dim:].any()] or list(range(15))
    else:
        blocks = {2: [2], 4: [0, 2], 6: [0, 2], 10: [0, 1, 2]}[dim]
        kept = [15 * b + k for b in blocks for k in range(15)]
    means, noise = dense @ instances.parameter("uniform", 5, 10), 0.1 * rng.standard_normal((150, 1))
    learner = LinUCB(dim=dim, arms=arms, form=form).start(problem)
    chosen = play(learner, means[None], noise)
    by_hand = LinUCB(form=form).start(Problem(dense[kept, :dim], horizon=150, noise=0.1))
    expected = play(by_hand, means[None, kept], noise)
    np.testing.assert_array_equal(chosen, np.array(kept)[expected])
    np.testing.assert_allclose(learner.scores(), by_hand.scores(), atol=1e-10)
    described = learner.describe()[0]
    counts = np.bincount(chosen[:, 0], minlength=45)
    assert described["most pulled arm"] == counts.argmax()
    assert (described["its pulls"], described["pulls"], described["dim"]) == (counts.max(), 150, dim)
    assert described["distinct arms pulled"] == np.count_nonzero(counts)


def test_expressive_sizes_of_the_paper():
    """C28."""
    instance = instances.sphere(arms=800, dim=400, intrinsic_dim=12, horizon=2500, expressive=True)
    oracle = LinUCB(dim=12).start(instance.problem)
    assert (oracle.posterior.actions.arms, oracle.posterior.actions.dim) == (1600, 12)
    for dim, arms in ((32, 2400), (8, 800), (4, 800)):
        learner = LinUCB(dim=dim, arms="supported").start(instance.problem)
        assert learner.posterior.actions.arms == arms
        arm = int(learner.select()[0])
        assert not instance.problem.actions.dense(0)[arm, max(dim, 8) :].any()


def test_arm_that_the_truncation_dropped():
    actions = adadim.ActionSet(np.eye(6) / 2, levels=[2, 4, 6])
    learner = LinUCB(dim=4, arms="supported").start(Problem(actions, horizon=10, noise=0.1))
    learner.select()
    with pytest.raises(ForeignArmError, match=r"arms \[14\] include one that LinUCB\(dim=4\) does not use"):
        learner.update([14], [0.1])
    learner.update([7], [0.1])
    assert learner.posterior.counts[0].tolist() == [0] * 7 + [1] + [0] * 4


# Symmetries


@both_forms
def test_permuting_arms_permutes_choices(form):
    rng = np.random.default_rng(5)
    features, order = ball(rng, 40, 9), rng.permutation(40)
    means, noise = features @ instances.parameter("decay", 4, 9), 0.1 * rng.standard_normal((400, 1))
    plain = LinUCB(form=form).start(Problem(features, horizon=400, noise=0.1))
    permuted = LinUCB(form=form).start(Problem(features[order], horizon=400, noise=0.1))
    expected = play(plain, means[None], noise)
    assert len(np.unique(expected)) > 10
    np.testing.assert_array_equal(order[play(permuted, means[None, order], noise)], expected)


@settings(max_examples=25)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["gram", "feature"]),
    st.sampled_from(["norm", "squared"]),
    st.sampled_from(["noise", "full", "paper", "oful", 0.3]),
)
def test_permutation_property(seed, form, bonus, radius):
    rng = np.random.default_rng(seed)
    features, order = ball(rng, 9, 4), rng.permutation(9)
    means, noise = features @ rng.uniform(-0.5, 0.5, 4), 0.1 * rng.standard_normal((60, 1))
    policy = LinUCB(form=form, bonus=bonus, radius=radius)
    expected = play(policy.start(Problem(features, horizon=60, noise=0.1)), means[None], noise)
    permuted = play(policy.start(Problem(features[order], horizon=60, noise=0.1)), means[None, order], noise)
    np.testing.assert_array_equal(order[permuted], expected)


@settings(max_examples=25)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["gram", "feature"]),
    st.sampled_from(["norm", "squared"]),
    st.sampled_from(["noise", "paper", 0.3]),
    st.sampled_from([0.01, 0.25, 0.7]),
)
def test_scaling_features_by_c_and_ridge_by_c2_changes_no_choice(seed, form, bonus, radius, c):
    rng = np.random.default_rng(seed)
    features = ball(rng, 9, 4)
    means, noise = features @ rng.uniform(-0.5, 0.5, 4), 0.1 * rng.standard_normal((60, 1))
    plain = LinUCB(ridge=0.4, form=form, bonus=bonus, radius=radius)
    scaled = LinUCB(ridge=0.4 * c**2, form=form, bonus=bonus, radius=radius)
    expected = play(plain.start(Problem(features, horizon=60, noise=0.1)), means[None], noise)
    got = play(scaled.start(Problem(c * features, horizon=60, noise=0.1)), means[None], noise)
    np.testing.assert_array_equal(got, expected)


# Ties


def chi_square(counts):
    """P-value of the hypothesis that the counts come from equal probabilities."""
    return stats.chisquare(counts).pvalue


def test_first_arm_on_a_sphere_is_uniform():
    """All arms have norm 1 up to rounding: every one is as likely, over replications and over seeds."""
    rng = np.random.default_rng(6)
    arms = rng.standard_normal((12, 37))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    problem = Problem(np.broadcast_to(arms, (6000, 12, 37)), horizon=10, noise=0.1)
    learner = LinUCB().start(problem)
    assert len(np.unique(learner.scores()[0])) > 1  # rounding alone would have chosen among these
    counts = np.bincount(learner.select(), minlength=12)
    assert counts.min() > 400
    assert chi_square(counts) > 1e-3
    alone = Problem(arms, horizon=10, noise=0.1)
    counts = np.bincount([int(LinUCB().start(alone, seed=s).select()[0]) for s in range(1200)], minlength=12)
    assert chi_square(counts) > 1e-3
    assert (LinUCB(ties="lowest").start(problem).select() == 0).all()


def test_ties_are_drawn_anew_at_every_step():
    """An uninformative reward on orthonormal arms leaves all other arms tied: the second arm is uniform among them."""
    problem = Problem(np.broadcast_to(np.eye(5), (4000, 5, 5)), horizon=10, noise=0.1)
    learner = LinUCB().start(problem)
    first = learner.select()
    learner.update(first, np.zeros(4000))
    second = learner.select()
    assert (first != second).all()
    shift = np.bincount((second - first) % 5, minlength=5)
    assert shift[0] == 0
    assert chi_square(shift[1:]) > 1e-3


def test_uniform_first_pull():
    """Scores are set aside for one pull, in each replication for its own first."""
    rng = np.random.default_rng(8)
    arms = ball(rng, 6, 3)
    problem = Problem(np.broadcast_to(arms, (3000, 6, 3)), horizon=10, noise=0.1)
    plain, uniform = (LinUCB(first_pull=rule).start(problem) for rule in ("optimistic", "uniform"))
    assert (plain.select() == np.linalg.norm(arms, axis=1).argmax()).all()
    first = uniform.select()
    assert chi_square(np.bincount(first, minlength=6)) > 1e-3
    some = np.arange(0, 3000, 2)
    uniform.update(first[some], np.zeros(1500), some)
    again = uniform.select()
    np.testing.assert_array_equal(again[some], uniform.scores()[some].argmax(axis=1))
    assert chi_square(np.bincount(again[1::2], minlength=6)) > 1e-3
    with pytest.raises(ValueError, match="first_pull must be 'optimistic' or 'uniform', got 'random'"):
        LinUCB(first_pull="random")


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_argmax(library, request):
    scores = np.array(
        [
            [0.0, 3.0, 3.0 + 1e-14, 1.0],
            [0.0, 3.0, 3.0 + 1e-6, 1.0],
            [-np.inf, -2.0, -2.0, -np.inf],
            [0.0, 0.0, 0.0, 0.0],
            [np.inf, 1.0, np.inf, 2.0],
            [-5.0, -1e-300, 0.0, -1.0],
        ]
    )
    wanted = {0.0: [1, 2, 1, 0, 0, 2], 0.4999: [1, 2, 1, 1, 0, 2], 0.5: [2, 2, 2, 2, 2, 2], 0.9999: [2, 2, 2, 3, 2, 2]}
    if library == "torch":
        scores = request.getfixturevalue("torch").asarray(scores)
    for draw, expected in wanted.items():
        np.testing.assert_array_equal(argmax(scores, np.full(6, draw)), expected)
    np.testing.assert_array_equal(argmax(scores, None), wanted[0.0])


# Some replications only


@both_forms
def test_scores_and_radii_of_some_rows(form):
    rng = np.random.default_rng(7)
    features = ball(rng, 4, 10, 3)
    learner = LinUCB(radius="oful", form=form).start(Problem(features, horizon=50, noise=0.1))
    for _ in range(20):
        rows = rng.permutation(4)[: rng.integers(1, 5)]
        learner.update(learner.select(rows), rng.standard_normal(len(rows)), rows)
    rows = np.array([2, 0])
    np.testing.assert_array_equal(learner.scores(rows), learner.scores()[rows])
    np.testing.assert_array_equal(learner.radius(rows), learner.radius()[rows])
