"""Runs of equal pulls, some replications only, rebuilding, and expressive sets."""

import numpy as np
import pytest

from adadim.core.rows import Replications
from adadim.core.state import restore_state, take_state
from posterior_states import (
    FORMS,
    STATE,
    assert_exact,
    assert_same,
    both_forms,
    feed,
    history,
    make,
    pull,
    rows_of,
    solved,
    unit_rows,
)

# One run of pulls of the same arm


@both_forms
@pytest.mark.parametrize("pattern", [[40], [1, 40, 1], [33, 33, 33], [2] * 40, [1, 2, 3, 4, 5] * 8])
def test_runs_of_any_length(form, pattern):
    rng = np.random.default_rng(9)
    features = unit_rows(rng, 1, 7, 3)
    state, expected = make(features, 0.1, form), []
    for i, length in enumerate(pattern):
        for _ in range(length):
            pull(state, i % 7, rng.standard_normal())
            expected.append(i % 7)
            assert_exact(state, features, 0.1, 1e-10)
    np.testing.assert_array_equal(state.counts[0], np.bincount(expected, minlength=7))


@both_forms
def test_a_repeated_pull_touches_only_vectors(form, monkeypatch):
    """The O(K) path: the form's own matrices are neither read nor written while an arm is pulled again."""
    state = make(unit_rows(np.random.default_rng(10), 1, 8, 4), 0.1, form)
    turns, turn = [], type(state).load_gain
    monkeypatch.setattr(type(state), "load_gain", lambda self, r, x, *rest: (turns.append(x), turn(self, r, x, *rest)))
    for arm in [3, 3, 3, 5, 5, 3, 3, 3, 3]:
        pull(state, arm, 0.2)
    assert turns == [3, 5, 3]


# Some replications only


@both_forms
def test_rows_are_separate_runs(form):
    rng = np.random.default_rng(11)
    features = unit_rows(rng, 4, 9, 5)
    together = make(features, 0.1, form)
    alone = [make(features[r], 0.1, form) for r in range(4)]
    for _ in range(200):
        rows = rng.permutation(4)[: rng.integers(1, 5)]
        arms, rewards = rng.integers(9, size=len(rows)), rng.standard_normal(len(rows))
        # One replication may also be named by a slice, as masters do.
        alone_now = Replications(slice(rows[0], rows[0] + 1), np.arange(4))
        together.absorb(arms, rewards, alone_now if len(rows) == 1 else rows_of(together, *rows))
        for r, arm, reward in zip(rows, arms, rewards, strict=True):
            pull(alone[r], arm, reward)
    assert len({int(n) for n in together.counts.sum(axis=1)}) > 1
    for r in range(4):
        for name in STATE:
            np.testing.assert_array_equal(getattr(together, name)[r], getattr(alone[r], name)[0], err_msg=name)


# Rebuilding


@both_forms
def test_rebuild_reproduces_the_state_and_goes_on(form):
    rng = np.random.default_rng(12)
    features = unit_rows(rng, 3, 20, 6)
    arms, rewards = history(rng, 300, 20, 3, run=2)
    state = feed(make(features, 0.1, form), arms, rewards)
    other = feed(make(features, 0.1, form), *history(rng, 40, 20, 3))  # whatever was there before is forgotten
    other.rebuild(state.counts, state.sums, other.everyone)
    assert_same(other, state)
    again = history(rng, 100, 20, 3, run=2)
    assert_same(feed(other, *again), feed(state, *again))
    assert_exact(other, features, 0.1, 1e-10)


@both_forms
@pytest.mark.parametrize("arm", [4, 7])
def test_rebuild_ends_a_run_of_pulls(form, arm):
    """The first arm after a rebuild may be the last one before it."""
    rng = np.random.default_rng(22)
    features = unit_rows(rng, 1, 9, 4)
    state = feed(make(features, 0.1, form), *history(rng, 40, 9, run=2))
    pull(state, 4, 0.3)
    pull(state, 4, 0.1)
    state.rebuild(rng.integers(0, 5, size=(1, 9)), rng.standard_normal((1, 9)), state.everyone)
    for _ in range(3):
        pull(state, arm, rng.standard_normal())
        assert_exact(state, features, 0.1, 1e-10)


@both_forms
def test_rebuild_of_some_rows_leaves_the_others(form):
    rng = np.random.default_rng(13)
    features = unit_rows(rng, 4, 10, 3)
    state = feed(make(features, 0.1, form), *history(rng, 50, 10, 4, run=2))
    before = state.mean.copy(), state.width2.copy(), state.counts.copy()
    counts, sums = rng.integers(0, 5, size=(2, 10)), rng.standard_normal((2, 10))
    state.rebuild(counts, sums, rows_of(state, 3, 1))
    np.testing.assert_array_equal(state.counts[[3, 1]], counts)
    for now, then in zip((state.mean, state.width2, state.counts), before, strict=True):
        np.testing.assert_array_equal(now[[0, 2]], then[[0, 2]])
    feed(state, *history(rng, 50, 10, 4, run=2))
    assert_exact(state, features, 0.1, 1e-10)


@both_forms
def test_rebuild_from_nothing_is_the_prior(form):
    rng = np.random.default_rng(14)
    features = unit_rows(rng, 2, 8, 3)
    state = feed(make(features, 0.1, form), *history(rng, 30, 8, 2))
    state.rebuild(np.zeros((2, 8), dtype=int), np.zeros((2, 8)), state.everyone)
    assert_same(state, make(features, 0.1, form))


# Expressive sets


@both_forms
def test_expressive_set_equals_its_dense_arms(form):
    rng = np.random.default_rng(15)
    features, levels = unit_rows(rng, 2, 12, 10), [2, 5, 10]
    closed = make(features, 0.1, form, levels)
    dense = np.stack([np.vstack([np.where(np.arange(10) < m, rows, 0.0) for m in levels]) for rows in features])
    written_out = make(dense, 0.1, form)
    for state in (closed, written_out):
        feed(state, *history(np.random.default_rng(16), 300, 36, 2, run=2))
    assert_same(closed, written_out)
    assert_exact(closed, dense, 0.1, 1e-10)
    closed.rebuild(written_out.counts, written_out.sums, closed.everyone)
    assert_same(closed, written_out)
    for state in (closed, written_out):
        feed(state, *history(np.random.default_rng(17), 100, 36, 2))
    assert_same(closed, written_out)


def test_last_level_below_the_dimension():
    rng = np.random.default_rng(18)
    features = unit_rows(rng, 1, 6, 8)
    cut = np.vstack([np.where(np.arange(8) < m, features[0], 0.0) for m in (3, 5)])[None]
    arms, rewards = history(rng, 80, 12, run=2)
    for form in FORMS:
        assert_exact(feed(make(features, 0.1, form, [3, 5]), arms, rewards), cut, 0.1, 1e-10)


# Learned anew, without a factorisation where that is exact enough


@both_forms
@pytest.mark.parametrize("lazy_gram", [False, True])
@pytest.mark.parametrize("steps", [1, 12, 90], ids=["one pull", "few arms pulled", "more arms than a block"])
def test_other_rewards_of_the_same_pulls(form, lazy_gram, steps):
    rng = np.random.default_rng(21)
    features = unit_rows(rng, 2, 70, 50)
    state = make(features, 0.1, form)
    state.lazy_gram = lazy_gram
    feed(state, *history(rng, steps, 70, 2))
    for r in (0, 1, 0):
        sums = rng.standard_normal(70) * (state.counts[r] > 0)
        state.relearn(r, sums, 7.0)
        np.testing.assert_array_equal(state.sums[r], sums)
        assert state.squares[r] == 7.0
        assert_exact(state, features, 0.1, 1e-9)
    feed(state, *history(rng, 60, 70, 2))  # and goes on from there
    assert_exact(state, features, 0.1, 1e-9)


@pytest.mark.parametrize("start", ["prior", "learned anew", "factored"])
def test_no_product_of_all_arms_until_it_pays(monkeypatch, start):
    """The Gram form goes without P for 0.6 times as many runs as there are features; then it builds it."""
    rng = np.random.default_rng(24)
    features = unit_rows(rng, 1, 240, 170)
    state = make(features, 0.1, "gram")
    state.lazy_gram = True
    feed(state, *history(rng, 45, 240))
    if start == "learned anew":
        with monkeypatch.context() as patch:
            patch.setattr(type(state), "rebuild", None)  # not a factorisation of V
            state.relearn(0, rng.standard_normal(240) * (state.counts[0] > 0), 7.0)
        assert_exact(state, features, 0.1, 1e-9)
    elif start == "factored":
        state.refactor(rows_of(state, 0))
    built = []
    for _ in range(6):
        feed(state, *history(rng, 20, 240))
        assert_exact(state, features, 0.1, 1e-9)
        state.shift(0, 0.1, 1.0)
        assert_exact(state, features, 0.1, 1e-9)
        copied = make(features, 0.1, "gram")
        copied.lazy_gram = True
        restore_state(copied, take_state(state))
        following = history(rng, 5, 240)
        for one in (state, copied):
            feed(one, *following)
        assert state.mean.tobytes() == copied.mean.tobytes()
        assert state.width2.tobytes() == copied.width2.tobytes()
        built.append(state._built[0])
    assert built[:2] == [False, False]
    assert built[-1]


@both_forms
@pytest.mark.parametrize("rebuilt", [False, True])
@pytest.mark.parametrize("steps", [3, 12, 90])
def test_all_rewards_less_by_a_number(form, rebuilt, steps):
    rng = np.random.default_rng(22)
    features = unit_rows(rng, 1, 70, 50)
    state = make(features, 0.1, form)
    state.lazy_gram = True
    feed(state, *history(rng, steps, 70))
    if rebuilt:
        state.refactor(rows_of(state, 0))
        feed(state, *history(rng, 20, 70))
    before, squares = state.sums[0].copy(), float(state.squares[0])
    after = squares - 2 * 3.0 * before.sum() + 9.0 * state.pulls[0]
    state.shift(0, 3.0, after)
    np.testing.assert_allclose(state.sums[0], before - 3.0 * state.counts[0], atol=1e-12)
    assert state.squares[0] == after
    assert_exact(state, features, 0.1, 1e-9)
    feed(state, *history(rng, 40, 70))
    assert_exact(state, features, 0.1, 1e-9)


@pytest.mark.parametrize("pulls", [1, 3, 12, 60])
def test_few_arms_with_a_tiny_ridge(pulls):
    """By QR in the span of the arms pulled and beside it, as exact as by QR in all features."""
    rng = np.random.default_rng(25)
    features = unit_rows(rng, 1, 70, 50)
    states = [make(features, 1e-7, "gram") for _ in range(2)]
    states[0].lazy_gram = True
    following = history(rng, 40, 70)
    arms, rewards = history(rng, pulls, 8)  # of the first eight
    for state in states:
        feed(state, arms, rewards)
        state.refactor(rows_of(state, 0))
    few, all_features = states
    for _ in range(2):
        np.testing.assert_allclose(few.width2, all_features.width2, rtol=1e-8)
        np.testing.assert_allclose(few.mean, all_features.mean, rtol=0, atol=1e-8)
        np.testing.assert_allclose(few.logdet, all_features.logdet, rtol=1e-12)
        for state in states:
            feed(state, *following)
            state.refactor(rows_of(state, 0))
    mean, width2, logdet = solved(features[0], few.counts[0], few.sums[0], 1e-7)  # which is not as exact
    np.testing.assert_allclose(few.width2[0], width2, rtol=1e-5)
    np.testing.assert_allclose(few.logdet[0], logdet, rtol=1e-5)
    np.testing.assert_allclose(few.mean[0], mean, rtol=0, atol=1e-4)


def test_a_tiny_ridge_is_factored(monkeypatch):
    """Where next to nothing is left of a width, differences would not be exact: QR."""
    rng = np.random.default_rng(23)
    features = unit_rows(rng, 1, 20, 10)
    state = make(features, 1e-9)
    feed(state, *history(rng, 30, 20))
    rebuilt, rebuild = [], type(state).rebuild
    monkeypatch.setattr(type(state), "rebuild", lambda self, *given: (rebuilt.append(1), rebuild(self, *given)))
    state.relearn(0, state.sums[0] * 2, 1.0)
    assert rebuilt
    assert_exact(state, features, 1e-9, 1e-6)
