"""LinUCB in the first few features, on plain and on expressive sets."""

import numpy as np
import pytest

import adadim
from adadim import ForeignArmError, LinUCB, Problem, instances
from linucb_runs import ball, both_forms, play


@both_forms
@pytest.mark.parametrize("dim", [1, 3, 8])
def test_dim_is_truncation_of_the_features(form, dim):
    rng = np.random.default_rng(3)
    features = ball(rng, 2, 25, 8)
    means, noise = np.einsum("rkd,d->rk", features, instances.parameter("flip", 5, 8)), rng.standard_normal((200, 2))
    whole = LinUCB(dim=dim, form=form).start(Problem(features, horizon=200, noise=0.1))
    cut = LinUCB(form=form).start(Problem(features[:, :, :dim], horizon=200, noise=0.1))
    np.testing.assert_array_equal(play(whole, means, noise), play(cut, means, noise))
    np.testing.assert_array_equal(whole.rule.scores(whole.everyone), cut.rule.scores(cut.everyone))


@both_forms
@pytest.mark.parametrize("supported", [False, True], ids=["distinct", "supported"])
@pytest.mark.parametrize("dim", [2, 4, 6, 10])
def test_dim_on_an_expressive_set(form, supported, dim):
    """The learner sees the arms that differ (or end) within `dim`, and pulls real arms of the whole set."""
    rng = np.random.default_rng(4)
    levels, base = [3, 6, 10], ball(rng, 1, 15, 10)
    problem = Problem(adadim.ActionSet(base, levels=levels), horizon=150, noise=0.1)
    dense = np.vstack([np.where(np.arange(10) < m, base[0], 0.0) for m in levels])
    if supported:
        kept = [k for k in range(45) if not dense[k, dim:].any()] or list(range(15))
    else:
        blocks = {2: [2], 4: [0, 2], 6: [0, 2], 10: [0, 1, 2]}[dim]
        kept = [15 * b + k for b in blocks for k in range(15)]
    means, noise = dense @ instances.parameter("uniform", 5, 10), 0.1 * rng.standard_normal((150, 1))
    learner = LinUCB(dim=dim, only_supported=supported, form=form).start(problem)
    chosen = play(learner, means[None], noise)
    by_hand = LinUCB(form=form).start(Problem(dense[kept, :dim], horizon=150, noise=0.1))
    expected = play(by_hand, means[None, kept], noise)
    np.testing.assert_array_equal(chosen, np.array(kept)[expected])
    np.testing.assert_allclose(learner.rule.scores(learner.everyone), by_hand.rule.scores(by_hand.everyone), atol=1e-10)
    described = learner.describe()[0]
    counts = np.bincount(chosen[:, 0], minlength=45)
    assert described["most_pulled_arm"] == counts.argmax()
    assert (described["pulls_of_that_arm"], described["pulls"], described["dim"]) == (counts.max(), 150, dim)
    assert described["distinct_arms_pulled"] == np.count_nonzero(counts)


def test_expressive_sizes_of_the_paper():
    """C28."""
    instance = instances.sphere(arms=800, dim=400, intrinsic_dim=12, horizon=2500, expressive=True)
    oracle = LinUCB(dim=12).start(instance.problem)
    assert (oracle.model.regression.actions.arms, oracle.model.regression.actions.dim) == (1600, 12)
    for dim, arms in ((32, 2400), (8, 800), (4, 800)):
        learner = LinUCB(dim=dim, only_supported=True).start(instance.problem)
        assert learner.model.regression.actions.arms == arms
        arm = int(learner.select()[0])
        assert not instance.problem.actions.dense(0)[arm, max(dim, 8) :].any()


def test_arm_that_the_truncation_dropped():
    actions = adadim.ActionSet(np.eye(6) / 2, levels=[2, 4, 6])
    learner = LinUCB(dim=4, only_supported=True).start(Problem(actions, horizon=10, noise=0.1))
    learner.select()
    with pytest.raises(ForeignArmError, match=r"arms \[14\] include one that is not used in the first 4 features"):
        learner.update([14], [0.1])
    learner.update([7], [0.1])
    assert learner.model.regression.counts[0].tolist() == [0] * 7 + [1] + [0] * 4
