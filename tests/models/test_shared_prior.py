"""Posteriors of few pulls each that share their prior: its rows, the limit of runs, and restoring."""

import numpy as np
import pytest

from adadim import ActionSet
from adadim.core.state import restore_state, take_state
from adadim.errors import InvalidValueError
from adadim.models.cost import cheaper_form, most_runs, suits_few_pulls
from adadim.models.fixed import BLOCK, FewPulls, HostFeature, HostRuns, PriorRows
from posterior_states import STATE, assert_exact, assert_same, feed, history, make, pull, unit_rows


@pytest.mark.parametrize("levels", [None, [3, 7]], ids=["plain", "expressive"])
def test_rows_of_the_prior_before_and_after_the_product(levels):
    actions = ActionSet(unit_rows(np.random.default_rng(0), 2, 40, 7), levels=levels)
    prior, row = PriorRows(actions, 0.3), np.empty(actions.arms)
    for r in range(2):
        expected = actions.dense(r) @ actions.dense(r).T / 0.3
        np.testing.assert_allclose(prior.width2[r], np.diag(expected), rtol=1e-13)
        for x in [*range(actions.arms), *range(2 * BLOCK)]:
            prior.write(r, x % actions.arms, row)
            np.testing.assert_allclose(row, expected[x % actions.arms], rtol=0, atol=1e-14)


def test_learners_of_one_prior_do_not_see_each_other():
    rng = np.random.default_rng(1)
    features = unit_rows(rng, 2, 30, 12)
    actions = ActionSet(features)
    prior = PriorRows(actions, 0.1)
    twins = [HostRuns(actions, prior) for _ in range(3)]
    alone = [make(features, 0.1, "feature") for _ in twins]
    for _ in range(120):
        for one, other in zip(twins, alone, strict=True):
            arms, rewards = rng.integers(30, size=2), rng.standard_normal(2)
            one.absorb(arms, rewards, one.everyone)
            other.absorb(arms, rewards, other.everyone)
    for one, other in zip(twins, alone, strict=True):
        assert_same(one, other)
        assert_exact(one, features, 0.1, 1e-10)


def test_runs_are_factored_into_the_posterior_at_their_limit():
    rng = np.random.default_rng(2)
    features = unit_rows(rng, 1, 25, 6)
    state, limit, most = make(features, 0.1, "runs"), most_runs(25, 25, 6), 0
    for t in range(5 * limit):
        pull(state, t % 25, rng.standard_normal())
        most = max(most, len(state._h[0]))
        assert state._fill[0] < limit
        assert_exact(state, features, 0.1, 1e-10)
    assert most == limit


@pytest.mark.parametrize("pulls", [0, 1, BLOCK + 5, 150])
def test_restored_it_goes_on_bit_for_bit(pulls):
    """Before and after the product is made, and after runs have been factored."""
    rng = np.random.default_rng(3)
    actions = ActionSet(unit_rows(rng, 2, 30, 12))

    def twins():
        prior = PriorRows(actions, 0.1)
        return [HostRuns(actions, prior) for _ in range(2)]

    played, restored = twins(), twins()
    arms, rewards = history(rng, 200, 30, 2, run=2)
    for state in played:
        feed(state, arms[:pulls], rewards[:pulls])
    restore_state(restored, take_state(played))
    for states in (played, restored):
        for state in states:
            feed(state, arms[pulls:], rewards[pulls:])
    for one, other in zip(played, restored, strict=True):
        for name in STATE:
            np.testing.assert_array_equal(getattr(other, name), getattr(one, name), err_msg=name)


def test_the_form_is_chosen_by_arms_and_pulls():
    tall, wide = ActionSet(unit_rows(np.random.default_rng(4), 400, 4)), ActionSet(np.eye(60))
    assert type(FewPulls(400, 10)(tall, 0.1)) is HostFeature  # its K x K matrix would be too large
    assert type(FewPulls(10**5, 1)(wide, 0.1)) is HostFeature
    make_one = FewPulls(600, 10)
    first, second = make_one(wide, 0.1), make_one(wide, 0.1)
    assert type(first) is type(second) is HostRuns
    assert first._prior is second._prior
    assert FewPulls(600, 10)(wide, 0.1)._prior is not first._prior


@pytest.mark.parametrize(("arms", "base_arms", "dim"), [(1200, 1200, 512), (60, 60, 150), (36, 12, 10)])
def test_up_to_the_limit_runs_cost_less_than_features(arms, base_arms, dim):
    """A pull after n runs reads n K numbers, in the feature form K_0 d + d^2: the mean over n is compared."""
    limit = most_runs(arms, base_arms, dim)
    read = [n * arms for n in range(limit + 1)]
    assert np.mean(read) <= base_arms * dim + dim**2 < np.mean([*read, *(n * arms for n in range(limit, 2 * limit))])
    assert suits_few_pulls(arms, base_arms, dim, limit) == (cheaper_form(arms, base_arms, dim) == "gram")
    assert not suits_few_pulls(arms, base_arms, dim, limit + 1)


@pytest.mark.filterwarnings("ignore::adadim.NormWarning")
def test_features_too_large_are_refused():
    with pytest.raises(InvalidValueError, match="float64 cannot hold a ridge of"):
        FewPulls(100, 10)(ActionSet(1e20 * np.eye(3)), 0.1)
