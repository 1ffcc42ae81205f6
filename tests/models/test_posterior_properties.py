"""Properties of the posterior that hold for any arms and any pulls."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from posterior_states import (
    FORMS,
    assert_same,
    feed,
    history,
    make,
    pull,
    rows_of,
    unit_rows,
)


def features_of(arms=6, dim=3):
    """Features on a grid: zero arms, equal arms and collinear arms are all likely."""
    return arrays(np.float64, (arms, dim), elements=st.integers(-4, 4).map(lambda n: n / 7))


pulls = st.lists(st.tuples(st.integers(0, 5), st.floats(-2, 2)), min_size=1, max_size=40)
ridges = st.sampled_from([1e-3, 0.1, 1.0, 10.0])
forms = st.sampled_from(FORMS)


def fed(state, pulled):
    for arm, reward in pulled:
        pull(state, arm, reward)
    return state


@settings(max_examples=200)
@given(features_of(), pulls, st.sampled_from([1e-12, 1e-6, 0.1, 10.0]), forms)
def test_widths_never_negative_and_never_increasing(features, pulled, ridge, form):
    state = make(features, ridge, form)
    before = state.width2.copy()
    for arm, reward in pulled:
        pull(state, arm, reward)
        assert (state.width2 >= 0).all()
        assert (state.width2 <= before * (1 + 1e-8)).all()  # factoring anew rounds to either side, by what is promised
        before = state.width2.copy()


@given(features_of(), pulls, ridges, forms, st.sampled_from([0.01, 0.3, 0.9]))
def test_scaling_features_and_ridge_together_changes_nothing(features, pulled, ridge, form, factor):
    plain = fed(make(features, ridge, form), pulled)
    scaled = fed(make(factor * features, factor**2 * ridge, form), pulled)
    np.testing.assert_allclose(scaled.mean, plain.mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(scaled.width2, plain.width2, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(scaled.logdet, plain.logdet, rtol=1e-7, atol=1e-9)


@given(features_of(), pulls, ridges, forms)
def test_counts_and_sums_determine_the_state(features, pulled, ridge, form):
    state, rebuilt = fed(make(features, ridge, form), pulled), make(features, ridge, form)
    rebuilt.rebuild(state.counts, state.sums, rebuilt.everyone)
    assert_same(rebuilt, state, 1e-8)
    assert_same(fed(rebuilt, pulled), fed(state, pulled), 1e-8)


@given(features_of(), pulls, ridges, forms, st.randoms(use_true_random=False))
def test_any_order_gives_the_same_state(features, pulled, ridge, form, random):
    shuffled = list(pulled)
    random.shuffle(shuffled)
    assert_same(fed(make(features, ridge, form), shuffled), fed(make(features, ridge, form), pulled), 1e-8)


@given(st.permutations(range(6)), features_of(), pulls, forms)
def test_permuting_arms_permutes_the_state(order, features, pulled, form):
    order = np.array(order)
    position = np.argsort(order)
    state = fed(make(features, 0.1, form), pulled)
    permuted = fed(make(features[order], 0.1, form), [(position[arm], reward) for arm, reward in pulled])
    np.testing.assert_allclose(permuted.mean, state.mean[:, order], atol=1e-9)
    np.testing.assert_allclose(permuted.width2, state.width2[:, order], atol=1e-9)


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), forms)
def test_any_grouping_into_rows_gives_the_same_state(seed, form):
    """However the updates of three replications are interleaved, each ends where it would alone."""
    rng = np.random.default_rng(seed)
    features = unit_rows(rng, 3, 6, 3)
    plans = [history(rng, int(rng.integers(1, 45)), 6, run=2) for _ in range(3)]
    state, at = make(features, 0.1, form), np.zeros(3, dtype=int)
    lengths = np.array([len(arms) for arms, _ in plans])
    while (at < lengths).any():
        unfinished = np.flatnonzero(at < lengths)
        rows = rng.permutation(unfinished)[: rng.integers(1, len(unfinished) + 1)]
        arms, rewards = (np.array([plans[r][part][at[r], 0] for r in rows]) for part in (0, 1))
        state.absorb(arms, rewards, rows_of(state, *rows))
        at[rows] += 1
    for r, plan in enumerate(plans):
        alone = feed(make(features[r], 0.1, form), *plan)
        np.testing.assert_array_equal(state.mean[r], alone.mean[0])
        np.testing.assert_array_equal(state.width2[r], alone.width2[0])
