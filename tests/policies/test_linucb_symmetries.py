"""Symmetries of LinUCB: permuted arms, scaled features, and ties broken uniformly."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from adadim import LinUCB, Problem, instances
from linucb_runs import ball, both_forms, chi_square, play

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


def test_first_arm_on_a_sphere_is_uniform():
    """All arms have norm 1 up to rounding: every one is as likely, over replications and over seeds."""
    rng = np.random.default_rng(6)
    arms = rng.standard_normal((12, 37))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    problem = Problem(np.broadcast_to(arms, (6000, 12, 37)), horizon=10, noise=0.1)
    learner = LinUCB().start(problem)
    assert len(np.unique(learner.rule.scores(learner.everyone)[0])) > 1  # rounding alone would have chosen among these
    counts = np.bincount(learner.select(), minlength=12)
    assert counts.min() > 400
    assert chi_square(counts) > 1e-3
    alone = Problem(arms, horizon=10, noise=0.1)
    counts = np.bincount([LinUCB().start(alone, seed=s).select() for s in range(1200)], minlength=12)
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
