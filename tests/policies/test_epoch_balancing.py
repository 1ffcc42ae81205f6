"""EpochBalancing: oracles, the plain version in lock step, the end of an epoch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adadim
from adadim import EpochBalancing
from reference import phases
from round_runs import in_lock_step, sets

EXACT = {"rel": 0, "abs": 1e-10}


def probabilities(**settings):
    learner = EpochBalancing(**settings).start(adadim.Problem(arms=3, dim=8, horizon=50, noise=0.1))
    return learner.probabilities(learner.everyone)[0]


def test_probabilities_and_slack_f7():
    assert EpochBalancing().sizes([1, 2, 4]).tolist() == [2, 6, 20]
    assert probabilities() == pytest.approx([0.697674418605, 0.232558139535, 0.069767441860], **EXACT)
    larger = {"theta_norm": 2.0, "reward_bound": 2.0}
    assert EpochBalancing(**larger).sizes([1, 2, 4]).tolist() == [5, 12, 32]
    assert probabilities(**larger) == pytest.approx([0.635761589404, 0.264900662252, 0.099337748344], **EXACT)
    assert float(EpochBalancing().slack(100, 0.1)) == pytest.approx(19.569784666168, **EXACT)


@given(st.integers(1, 3000), st.floats(0.1, 30))
def test_sizes_double(dim, theta_norm):
    policy = EpochBalancing(ambient=True, theta_norm=theta_norm)
    dims = policy.dims_for(dim)
    sizes = policy.sizes(dims)
    assert dims[-1] == dim
    assert (2 * sizes[:-1] <= sizes[1:]).all()


@pytest.mark.parametrize("fixed", [True, False])
def test_lock_step(fixed):
    theta, rounds = np.array([0.0, 0.9, 0.1, 0.0]), 220
    noise = 0.01 * np.random.default_rng(8).standard_normal((rounds, 2))
    ended = []

    def compare(learner, version, r):
        at = int(learner.smallest[r])
        assert learner.dims[at:] == version.dims
        for name, plain in (("earned", version.u), ("owed", version.R), ("sure", version.B)):
            expected = list(plain.values())
            assert getattr(learner, name)[r, at:] == pytest.approx(expected, rel=1e-8, abs=1e-8), name
        ended.append(at)

    in_lock_step(
        EpochBalancing(ridge=0.001, ambient=True, delta=0.1, c=0.1),
        lambda uniform: phases.EpochBalancing([1, 2, 4], 0.001, 0.01, 0.1, 0.1, uniform),
        sets(rounds, 6, 4),
        lambda t, r, arm, x: float(x @ theta) + noise[t, r],
        0.01,
        compare,
        fixed=fixed,
    )
    assert max(ended) > 0  # the class of one feature, in which nothing matters, has gone


@settings(max_examples=10)
@given(st.integers(0, 10**6))
def test_classes_go_one_by_one_and_the_last_stays(seed):
    rng = np.random.default_rng(seed)
    learner = EpochBalancing(c=1e-6, scale=0.01, ridge=0.01).start(
        adadim.Problem(arms=4, dim=8, horizon=120, noise=0.1), seed=seed % 5
    )
    before = 0
    for x in sets(120, 4, 8, 1, seed)[:, 0]:
        learner.update(learner.select(x), float(rng.uniform(-1, 1)))
        assert before <= learner.smallest[0] <= min(before + 1, 2)
        before = int(learner.smallest[0])
        p = learner.probabilities(learner.everyone)[0]
        assert p.sum() == pytest.approx(1.0)
        assert (p[:before] == 0).all()


@pytest.mark.parametrize(
    "changes",
    [{"ambient": 1}, {"ridge": 0.0}, {"theta_norm": 0.0}, {"arm_norm": -1.0}, {"reward_bound": 0.0}, {"c": 0.0}],
)
def test_bad_hyper_parameters(changes):
    with pytest.raises(adadim.AdadimError, match=next(iter(changes))):
        EpochBalancing(**changes)
