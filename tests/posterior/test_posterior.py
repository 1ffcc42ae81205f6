"""The ridge posterior in both forms against fresh solves, its invariants, and the two array libraries."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from adadim import ActionSet, posterior
from adadim.posterior import FeaturePosterior, GramPosterior
from adadim.posterior.gram import BLOCK
from adadim.posterior.lanes import Lanes
from reference.ridge import Ridge

FORMS = ("gram", "feature")
both_forms = pytest.mark.parametrize("form", FORMS)

ARMS = np.array([[1.0, 0.0], [0.0, 0.9], [0.6, 0.7]])


def make(features, ridge=0.1, form="gram", levels=None):
    return posterior.posterior(ActionSet(features, levels=levels), ridge, form)


def unit_rows(rng, *shape):
    rows = rng.standard_normal(shape)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def solved(features, counts, sums, ridge):
    """Means, squared widths and logdet from one dense solve, nothing shared with the code under test."""
    dim = features.shape[1]
    v = ridge * np.eye(dim) + (features.T * counts) @ features
    factor = np.linalg.cholesky(v)
    white = np.linalg.solve(factor, features.T)
    mean = features @ np.linalg.solve(v, features.T @ sums)
    return mean, (white**2).sum(axis=0), 2 * np.log(np.diag(factor)).sum() - dim * np.log(ridge)


def assert_exact(state, features, ridge, tolerance=1e-8):
    """The state of every replication equals a fresh solve from the pulls it has counted."""
    for r in range(state.actions.replications):
        mean, width2, logdet = solved(features[r], state.counts[r], state.sums[r], ridge)
        np.testing.assert_allclose(state.mean[r], mean, rtol=0, atol=tolerance)
        np.testing.assert_allclose(state.width2[r], width2, rtol=0, atol=tolerance)
        np.testing.assert_allclose(state.logdet[r], logdet, rtol=0, atol=tolerance)


def assert_same(one, other, tolerance=1e-10):
    for name in ("mean", "width2", "logdet", "sums"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=0, atol=tolerance, err_msg=name)
    np.testing.assert_array_equal(one.counts, other.counts)


def feed(state, arms, rewards):
    """Update with arms and rewards (n, R)."""
    for chosen, told in zip(arms, rewards, strict=True):
        state.update(chosen, told)
    return state


def history(rng, steps, arms, replications=1, run=1):
    """Random arms and rewards; each arm is pulled `run` times in a row on average."""
    chosen = rng.integers(arms, size=(steps, replications))
    again = rng.random((steps, replications)) < 1 - 1 / run
    for t in range(1, steps):
        chosen[t] = np.where(again[t], chosen[t - 1], chosen[t])
    return chosen, rng.standard_normal((steps, replications))


# Against fresh solves


@both_forms
@pytest.mark.parametrize(("arms", "dim", "run"), [(300, 150, 1), (60, 150, 3), (400, 20, 2)])
def test_exact_after_2500_steps(form, arms, dim, run):
    rng = np.random.default_rng(arms)
    features = unit_rows(rng, 2, arms, dim)
    state = feed(make(features, 0.1, form), *history(rng, 2500, arms, 2, run))
    assert (state.counts.sum(axis=1) == 2500).all()
    assert_exact(state, features, 0.1)


@both_forms
def test_exact_at_the_size_of_the_paper(form):
    rng = np.random.default_rng(1)
    features = unit_rows(rng, 1, 1200, 600)
    state = feed(make(features, 0.1, form), *history(rng, 2500, 1200))
    assert_exact(state, features, 0.1)


@both_forms
def test_exact_after_a_million_updates(form):
    rng = np.random.default_rng(2)
    features = unit_rows(rng, 1, 6, 3)
    arms, rewards = history(rng, 1_000_000, 6, run=2)
    state = feed(make(features, 0.1, form), arms, rewards)
    np.testing.assert_array_equal(state.counts[0], np.bincount(arms[:, 0], minlength=6))
    np.testing.assert_allclose(state.sums[0], np.bincount(arms[:, 0], rewards[:, 0], minlength=6), atol=1e-8)
    assert_exact(state, features, 0.1)


@both_forms
def test_every_step_equals_the_textbook(form):
    """C13 and the update itself, one step at a time, with ridge other than 1 and runs of one arm."""
    rng = np.random.default_rng(3)
    features = unit_rows(rng, 9, 4)
    arms, rewards = history(rng, 120, 9, run=2)
    state, textbook = make(features, 0.3, form), Ridge(4, 0.3)
    for chosen, told in zip(arms, rewards, strict=True):
        state.update(chosen, told)
        textbook.add(features[chosen[0]], told[0])
        mean, width2 = textbook.predict(features)
        np.testing.assert_allclose(state.mean[0], mean, rtol=0, atol=1e-12)
        np.testing.assert_allclose(state.width2[0], width2, rtol=0, atol=1e-12)
        np.testing.assert_allclose(state.logdet[0], textbook.logdet, rtol=0, atol=1e-11)


# Oracles of the specification


@both_forms
@pytest.mark.parametrize(
    ("ridge", "arms", "theta", "logdet"),
    [
        (1.0, [0, 2, 0, 0, 2, 0], [0.4225988701, 0.1318267420], 2.3627390158),
        (0.1, [0, 1, 0, 2, 0, 0], [0.4898477157, 0.1887599710], 6.4081333257),
    ],
    ids=["C8", "C10"],
)
def test_theta_hat_and_logdet(form, ridge, arms, theta, logdet):
    state = make(ARMS, ridge, form)
    for arm in arms:
        state.update(np.array([arm]), np.array([[0.5, 0.18, 0.44][arm]]))
    np.testing.assert_allclose(state.mean[0], ARMS @ theta, atol=1e-9)
    # Arms 0 and 1 are multiples of the basis, so their means are theta_hat itself.
    np.testing.assert_allclose(state.mean[0, :2] / [1.0, 0.9], theta, atol=1e-9)
    np.testing.assert_allclose(state.logdet, logdet, atol=1e-9)


@both_forms
def test_inverse_of_c8(form):
    """V^-1 after the six pulls of C8, read off the widths: diagonal from arms 0 and 1, the rest from arm 2."""
    state = make(ARMS, 1.0, form)
    for arm in (0, 2, 0, 0, 2, 0):
        state.update(np.array([arm]), np.array([0.0]))
    inverse = np.array([[0.1864406780, -0.0790960452], [-0.0790960452, 0.5386064030]])
    np.testing.assert_allclose(state.width2[0], np.einsum("kd,de,ke->k", ARMS, inverse, ARMS), atol=1e-9)
    cross = (state.width2[0, 2] - 0.36 * state.width2[0, 0] - 0.49 / 0.81 * state.width2[0, 1]) / (2 * 0.6 * 0.7)
    np.testing.assert_allclose(cross, inverse[0, 1], atol=1e-9)


@both_forms
@pytest.mark.parametrize("pulls", [1, 2, 31, 32, 33, 500])
def test_repeated_pulls_of_one_unit_arm(form, pulls):
    """C13."""
    rewards = np.random.default_rng(4).standard_normal((pulls, 1))
    state = feed(make(np.eye(3)[:2], 1.0, form), np.zeros((pulls, 1), dtype=int), rewards)
    np.testing.assert_allclose(state.width2[0, 0], 1 / (1 + pulls), rtol=1e-12)
    np.testing.assert_allclose(state.mean[0, 0], rewards.sum() / (1 + pulls), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(state.logdet[0], np.log(1 + pulls), rtol=1e-12)
    np.testing.assert_array_equal(state.counts[0], [pulls, 0])


# Invariants (section 1.7)


@both_forms
def test_logdet_is_the_sum_over_the_widths_pulled(form):
    rng = np.random.default_rng(5)
    features = unit_rows(rng, 2, 12, 5)
    state, total = make(features, 0.1, form), np.zeros(2)
    for arms, rewards in zip(*history(rng, 200, 12, 2, run=2), strict=True):
        total += np.log1p(state.width2[[0, 1], arms])
        state.update(arms, rewards)
    np.testing.assert_allclose(state.logdet, total, rtol=1e-12)
    for r in range(2):
        v = np.eye(5) + (features[r].T * state.counts[r]) @ features[r] / 0.1
        np.testing.assert_allclose(state.logdet[r], np.linalg.slogdet(v)[1], rtol=1e-12)


@both_forms
def test_order_of_the_pulls_is_immaterial(form):
    rng = np.random.default_rng(6)
    features = unit_rows(rng, 10, 4)
    arms, rewards = history(rng, 150, 10, run=2)
    state = feed(make(features, 0.1, form), arms, rewards)
    shuffled = rng.permutation(150)
    assert_same(feed(make(features, 0.1, form), arms[shuffled], rewards[shuffled]), state)


@both_forms
def test_orthonormal_arms_are_unrelated(form):
    rng = np.random.default_rng(7)
    arms, rewards = history(rng, 200, 5, run=2)
    state = feed(make(np.linalg.qr(rng.standard_normal((5, 5)))[0], 0.3, form), arms, rewards)
    counts = np.bincount(arms[:, 0], minlength=5)
    sums = np.bincount(arms[:, 0], rewards[:, 0], minlength=5)
    np.testing.assert_allclose(state.mean[0], sums / (0.3 + counts), atol=1e-12)
    np.testing.assert_allclose(state.width2[0], 1 / (0.3 + counts), atol=1e-12)


@both_forms
def test_zero_and_orthogonal_arms_learn_nothing(form):
    features = np.array([[0.0, 0.0, 0.0], [0.6, 0.0, 0.8], [0.8, 0.0, 0.6], [0.0, 0.5, 0.0]])
    rng = np.random.default_rng(8)
    arms = 1 + rng.integers(2, size=(100, 1))
    arms[::10] = 0
    state = feed(make(features, 0.1, form), arms, rng.standard_normal((100, 1)))
    assert state.mean[0, 0] == state.width2[0, 0] == 0
    assert state.mean[0, 3] == 0
    np.testing.assert_allclose(state.width2[0, 3], 0.25 / 0.1, rtol=1e-12)
    assert (state.width2[0, 1:3] < 0.1).all()


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_widths_that_rounding_would_make_negative(library, request):
    """Collinear arms and hardly any ridge: w - g^2 / (1 + g_x) cancels to the last bit, and below 0 unless clipped."""
    array = np.asarray if library == "numpy" else request.getfixturevalue("torch").asarray
    state = make(array(np.random.default_rng(23).random((200, 1))), 1e-15, "feature")
    for arm in range(40):
        state.update(array([arm]), array([0.1]))
        assert (state.width2 >= 0).all()
    assert (state.width2 == 0).any()  # the arms are not zero: without the clip these would be below


# One run of pulls of the same arm


@both_forms
@pytest.mark.parametrize("pattern", [[40], [1, 40, 1], [33, 33, 33], [2] * 40, [1, 2, 3, 4, 5] * 8])
def test_runs_of_any_length(form, pattern):
    rng = np.random.default_rng(9)
    features = unit_rows(rng, 1, 7, 3)
    state, expected = make(features, 0.1, form), []
    for i, length in enumerate(pattern):
        for _ in range(length):
            state.update(np.array([i % 7]), rng.standard_normal(1))
            expected.append(i % 7)
            assert_exact(state, features, 0.1, 1e-10)
    np.testing.assert_array_equal(state.counts[0], np.bincount(expected, minlength=7))


@both_forms
def test_a_repeated_pull_touches_only_vectors(form, monkeypatch):
    """The O(K) path: the form's own matrices are neither read nor written while an arm is pulled again."""
    state = make(unit_rows(np.random.default_rng(10), 1, 8, 4), 0.1, form)
    turns, turn = [], type(state)._turn
    monkeypatch.setattr(type(state), "_turn", lambda self, r, x, *rest: (turns.append(x), turn(self, r, x, *rest)))
    for arm in [3, 3, 3, 5, 5, 3, 3, 3, 3]:
        state.update(np.array([arm]), np.array([0.2]))
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
        together.update(arms, rewards, slice(rows[0], rows[0] + 1) if len(rows) == 1 else rows)
        for r, arm, reward in zip(rows, arms, rewards, strict=True):
            alone[r].update(np.array([arm]), np.array([reward]))
    assert len({int(n) for n in together.counts.sum(axis=1)}) > 1
    for r in range(4):
        for name in ("mean", "width2", "logdet", "counts", "sums"):
            np.testing.assert_array_equal(getattr(together, name)[r], getattr(alone[r], name)[0], err_msg=name)


# Rebuilding


@both_forms
def test_rebuild_reproduces_the_state_and_goes_on(form):
    rng = np.random.default_rng(12)
    features = unit_rows(rng, 3, 20, 6)
    arms, rewards = history(rng, 300, 20, 3, run=2)
    state = feed(make(features, 0.1, form), arms, rewards)
    other = feed(make(features, 0.1, form), *history(rng, 40, 20, 3))  # whatever was there before is forgotten
    other.rebuild(state.counts, state.sums)
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
    state.update(np.array([4]), np.array([0.3]))
    state.update(np.array([4]), np.array([0.1]))
    state.rebuild(rng.integers(0, 5, size=(1, 9)), rng.standard_normal((1, 9)))
    for _ in range(3):
        state.update(np.array([arm]), rng.standard_normal(1))
        assert_exact(state, features, 0.1, 1e-10)


@both_forms
def test_rebuild_of_some_rows_leaves_the_others(form):
    rng = np.random.default_rng(13)
    features = unit_rows(rng, 4, 10, 3)
    state = feed(make(features, 0.1, form), *history(rng, 50, 10, 4, run=2))
    before = state.mean.copy(), state.width2.copy(), state.counts.copy()
    counts, sums = rng.integers(0, 5, size=(2, 10)), rng.standard_normal((2, 10))
    state.rebuild(counts, sums, np.array([3, 1]))
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
    state.rebuild(np.zeros((2, 8), dtype=int), np.zeros((2, 8)))
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
    closed.rebuild(written_out.counts, written_out.sums)
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


# The two forms, and the choice between them


def test_forms_agree():
    rng = np.random.default_rng(19)
    features = unit_rows(rng, 3, 40, 15)
    arms, rewards = history(rng, 500, 40, 3, run=2)
    assert_same(*(feed(make(features, 0.1, form), arms, rewards) for form in FORMS))


def test_automatic_form():
    assert isinstance(make(np.eye(4), 1.0, "auto"), GramPosterior)
    assert isinstance(make(unit_rows(np.random.default_rng(20), 400, 4), 1.0, "auto"), FeaturePosterior)
    with pytest.raises(ValueError, match="form must be 'auto', 'gram' or 'feature', got 'dense'"):
        make(np.eye(4), 1.0, "dense")


@both_forms
@pytest.mark.parametrize("ridge", [0, -1.0, float("nan"), float("inf"), "1"])
def test_ridge_must_be_positive(form, ridge):
    with pytest.raises(ValueError, match=f"ridge must be a positive finite number .*, got {ridge!r}"):
        make(np.eye(2), ridge, form)


# torch


@both_forms
@pytest.mark.parametrize("levels", [None, [2, 6]], ids=["plain", "expressive"])
def test_torch_agrees_with_numpy(torch, form, levels):
    rng = np.random.default_rng(21)
    features = unit_rows(rng, 4, 15, 6)
    here = make(features, 0.1, form, levels)
    there = make(torch.asarray(features), 0.1, form, levels)
    width = here.actions.arms

    def step(rows=None):
        count = 4 if rows is None else len(rows)
        arms, rewards = rng.integers(width, size=count), rng.standard_normal(count)
        if rows is None:
            here.update(arms, rewards)
            there.update(torch.asarray(arms), torch.asarray(rewards))
        else:
            here.update(arms, rewards, rows)
            there.update(torch.asarray(arms), torch.asarray(rewards), torch.asarray(rows))

    for _ in range(100):
        step()
    for _ in range(150):
        step(rng.permutation(4)[: rng.integers(1, 5)])
    assert isinstance(there.mean, torch.Tensor)
    assert_same(here, there)
    pulled, told = rng.integers(0, 4, size=(2, width)), rng.standard_normal((2, width))
    here.rebuild(pulled, told, np.array([2, 0]))
    there.rebuild(torch.asarray(pulled), torch.asarray(told), torch.asarray([2, 0]))
    assert_same(here, there)
    for _ in range(60):
        step(rng.permutation(4)[: rng.integers(1, 5)])
    assert_same(here, there)


# Properties


def features_of(arms=6, dim=3):
    """Features on a grid: zero arms, equal arms and collinear arms are all likely."""
    return arrays(np.float64, (arms, dim), elements=st.integers(-4, 4).map(lambda n: n / 7))


pulls = st.lists(st.tuples(st.integers(0, 5), st.floats(-2, 2)), min_size=1, max_size=40)
ridges = st.sampled_from([1e-3, 0.1, 1.0, 10.0])
forms = st.sampled_from(FORMS)


def fed(state, told):
    for arm, reward in told:
        state.update(np.array([arm]), np.array([reward]))
    return state


@settings(max_examples=200)
@given(features_of(), pulls, st.sampled_from([1e-12, 1e-6, 0.1, 10.0]), forms)
def test_widths_never_negative_and_never_increasing(features, told, ridge, form):
    state = make(features, ridge, form)
    before = state.width2.copy()
    for arm, reward in told:
        state.update(np.array([arm]), np.array([reward]))
        assert (state.width2 >= 0).all()
        assert (state.width2 <= before).all()
        before = state.width2.copy()


@given(features_of(), pulls, ridges, forms, st.sampled_from([0.01, 0.3, 0.9]))
def test_scaling_features_and_ridge_together_changes_nothing(features, told, ridge, form, factor):
    plain = fed(make(features, ridge, form), told)
    scaled = fed(make(factor * features, factor**2 * ridge, form), told)
    np.testing.assert_allclose(scaled.mean, plain.mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(scaled.width2, plain.width2, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(scaled.logdet, plain.logdet, rtol=1e-7, atol=1e-9)


@given(features_of(), pulls, ridges, forms)
def test_counts_and_sums_determine_the_state(features, told, ridge, form):
    state, rebuilt = fed(make(features, ridge, form), told), make(features, ridge, form)
    rebuilt.rebuild(state.counts, state.sums)
    assert_same(rebuilt, state, 1e-8)
    assert_same(fed(rebuilt, told), fed(state, told), 1e-8)


@given(features_of(), pulls, ridges, forms, st.randoms(use_true_random=False))
def test_any_order_gives_the_same_state(features, told, ridge, form, random):
    shuffled = list(told)
    random.shuffle(shuffled)
    assert_same(fed(make(features, ridge, form), shuffled), fed(make(features, ridge, form), told), 1e-8)


@given(st.permutations(range(6)), features_of(), pulls, forms)
def test_permuting_arms_permutes_the_state(order, features, told, form):
    order = np.array(order)
    place = np.argsort(order)
    state = fed(make(features, 0.1, form), told)
    permuted = fed(make(features[order], 0.1, form), [(place[arm], reward) for arm, reward in told])
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
        open_ = np.flatnonzero(at < lengths)
        rows = rng.permutation(open_)[: rng.integers(1, len(open_) + 1)]
        arms, rewards = (np.array([plans[r][part][at[r], 0] for r in rows]) for part in (0, 1))
        state.update(arms, rewards, rows)
        at[rows] += 1
    for r, plan in enumerate(plans):
        alone = feed(make(features[r], 0.1, form), *plan)
        np.testing.assert_array_equal(state.mean[r], alone.mean[0])
        np.testing.assert_array_equal(state.width2[r], alone.width2[0])


def test_forms_cover_the_public_ones():
    assert set(FORMS) == set(get_args(posterior.Form)) - {"auto"}


STATE = ("mean", "width2", "counts", "sums", "logdet")


@both_forms
@pytest.mark.parametrize("levels", [None, [2, 6]], ids=["plain", "expressive"])
def test_a_mask_leaves_the_others_alone(torch, form, levels):
    """Five blocks of masked pulls: bit for bit the same outside the mask, and NumPy's posterior inside it."""
    rng = np.random.default_rng(24)
    features = unit_rows(rng, 4, 15, 6)
    here, there = make(features, 0.1, form, levels), make(torch.asarray(features), 0.1, form, levels)
    for _ in range(5 * BLOCK + 3):
        mask = rng.random(4) < [0.9, 0.5, 0.05, 0.0]
        arms, rewards = rng.integers(here.actions.arms, size=4), rng.standard_normal(4)
        ids, before = np.flatnonzero(mask), {name: getattr(there, name).clone() for name in STATE}
        here.update(arms[ids], rewards[ids], ids)
        there.absorb(torch.asarray(arms), torch.asarray(np.where(mask, rewards, 1e6)), torch.asarray(mask))
        there.settle()
        for name in STATE:
            np.testing.assert_array_equal(getattr(there, name)[~mask], before[name][~mask], err_msg=name)
    assert_same(here, there)
    assert sorted(here.counts.sum(axis=1).tolist())[0] == 0


@both_forms
def test_absorbing_touches_no_memory_but_its_own(torch, form):
    """Where the state lies is fixed, so that recorded operations find it."""
    rng = np.random.default_rng(25)
    state = make(torch.asarray(unit_rows(rng, 2, 9, 4)), 0.1, form)
    names = [*STATE, *(["_p", "_h", "_slot"] if form == "gram" else ["_w"])]
    places = {name: getattr(state, name).data_ptr() for name in names}
    for _ in range(2 * BLOCK + 1):
        state.update(torch.asarray(rng.integers(9, size=2)), torch.asarray(rng.standard_normal(2)))
    assert {name: getattr(state, name).data_ptr() for name in names} == places


# Nested dimensions at once


@pytest.mark.parametrize("levels", [None, [2, 4, 7]], ids=["plain", "expressive"])
def test_lanes_are_separate_posteriors(torch, levels):
    """Against textbook ridge regressions in 1, 3, 4 and 7 features; what a pull does not concern stays bit for bit."""
    rng, dims, count = np.random.default_rng(26), (1, 3, 4, 7), 5
    actions = ActionSet(unit_rows(rng, count, 12, 7), levels=levels)
    lanes = Lanes(actions.to("cpu"), dims, 0.3)
    textbooks = [[Ridge(dim, 0.3) for dim in dims] for _ in range(count)]
    pulls = np.zeros((count, 4), dtype=int)

    def check():
        for r in range(count):
            for lane, dim in enumerate(dims):
                mean, width2 = textbooks[r][lane].predict(actions.dense(r)[:, :dim])
                np.testing.assert_allclose(lanes.mean[r, lane], mean, rtol=0, atol=1e-11)
                np.testing.assert_allclose(lanes.width2[r, lane], width2, rtol=0, atol=1e-11)
        np.testing.assert_array_equal(lanes.pulls, pulls)

    check()
    for step in range(150):
        chosen, arms = rng.integers(4, size=count), rng.integers(actions.arms, size=count)
        mask, rewards = rng.random(count) < [1.0, 0.7, 0.4, 0.1, 0.0], rng.standard_normal(count)
        before = {name: getattr(lanes, name).clone() for name in ("mean", "width2", "pulls", "_w")}
        lanes.absorb(*(torch.asarray(part) for part in (chosen, arms, rewards, mask)))
        for r in np.flatnonzero(mask):
            textbooks[r][chosen[r]].add(actions.vector(r, arms[r])[: dims[chosen[r]]], rewards[r])
            pulls[r, chosen[r]] += 1
        for name in ("mean", "width2", "pulls"):
            after, others = getattr(lanes, name), np.ones((count, 4), dtype=bool)
            others[np.flatnonzero(mask), chosen[mask]] = False
            np.testing.assert_array_equal(after[others], before[name][others], err_msg=name)
        np.testing.assert_array_equal(lanes._w[~mask], before["_w"][~mask])
        if step in (0, 1, 40):
            check()
    check()


def test_lanes_agree_with_posteriors_on_truncated_arms(torch):
    rng, dims = np.random.default_rng(27), (2, 3, 6)
    actions = ActionSet(unit_rows(rng, 3, 10, 6), levels=[2, 4, 6])
    lanes = Lanes(actions.to("cpu"), dims, 0.1)
    cuts = [actions.truncate(dim) for dim in dims]
    states = [posterior.posterior(cut, 0.1) for cut, _ in cuts]
    for _ in range(200):
        chosen, rewards = rng.integers(3, size=3), rng.standard_normal(3)
        local = np.array([rng.integers(cuts[lane][0].arms) for lane in chosen])
        arms = np.array([cuts[lane][1][at] for lane, at in zip(chosen, local, strict=True)])
        lanes.absorb(*(torch.asarray(part) for part in (chosen, arms, rewards, np.ones(3, dtype=bool))))
        for r, lane in enumerate(chosen):
            states[lane].update(local[r : r + 1], rewards[r : r + 1], slice(r, r + 1))
    for lane, (state, (_, pull)) in enumerate(zip(states, cuts, strict=True)):
        np.testing.assert_allclose(lanes.mean[:, lane][:, pull], state.mean, rtol=0, atol=1e-11)
        np.testing.assert_allclose(lanes.width2[:, lane][:, pull], state.width2, rtol=0, atol=1e-11)
        np.testing.assert_array_equal(lanes.pulls[:, lane], state.counts.sum(axis=1))
