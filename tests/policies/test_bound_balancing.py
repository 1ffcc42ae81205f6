"""Regret bound balancing and elimination: oracles, the plain version in lock step, invariants; bounds as objects."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adadim
from adadim import Bound, BoundBalancing, LinearBound, LinUCB, PowerBound, SqrtBound, SqrtLogBound, study
from adadim.policies.masters.base import claimed
from counting_runs import DIMS, bases, in_lock_step, nested_bases, play_bases, plays
from reference.counting import BoundBalancing as Reference
from small_problems import in_torch, small
from stepping import Stepper

EXACT = {"rel": 0, "abs": 1e-10}
TOY = {"bound": LinearBound(), "complexities": (1.0, 2.0, 4.0), "reward_scale": 1.0, "c": 0.1, "delta": 0.1}


def test_elimination_f5():
    picks, counts, removed = "", {}, None
    for t, chosen, learner in play_bases(BoundBalancing(bases=bases(3), **TOY), (0.2, 0.6, 0.6), 400):
        picks += str(chosen)
        counts[t] = plays(learner)
        if removed is None and not learner.active.all():
            removed = t, learner.active[0].tolist()
    assert picks[:24] == "012012000120000012000000"
    assert removed == (24, [False, True, True])
    assert [counts[t] for t in (24, 84, 400)] == [(16, 4, 4), (16, 53, 15), (16, 307, 77)]
    assert learner.potential[0] == pytest.approx([4, 35.042830935870, 35.099857549568], **EXACT)


def test_balance_f6():
    counts = {}
    for t, _, learner in play_bases(BoundBalancing(bases=bases(3), **TOY), (0.5, 0.5, 0.5), 2100):
        counts[t] = plays(learner)
        if t == 105:
            assert learner.potential[0] == pytest.approx([8.774964387392, 8.717797887081, 9], **EXACT)
    assert learner.active.all()
    expected = [(13, 4, 4), (77, 19, 9), (320, 80, 20), (1600, 400, 100)]
    assert [counts[t] for t in (21, 105, 420, 2100)] == expected


@pytest.mark.parametrize("beta", [0.5, 0.7])
def test_lock_step(beta):
    floor = 250 ** (beta - 0.5)

    def make(plain):
        bounds = [lambda n, d=d: max(0.5 * math.sqrt(d * n), (floor if beta > 0.5 else 0) * math.sqrt(n)) for d in DIMS]
        return Reference(plain, 0.3, bounds, 0.1, 0.05)

    def compare(learner, reference):
        assert learner.active[0].tolist() == reference.active
        np.testing.assert_allclose(learner.potential[0], [reference.claim(i) for i in range(4)], rtol=1e-12)

    settings_ = {"bound": SqrtBound(c=0.5), "reward_scale": 0.3, "delta": 0.1, "c": 0.05, "beta": beta}
    removed = []
    policy = BoundBalancing(bases=nested_bases(), **settings_)
    in_lock_step(policy, make, lambda *both: (compare(*both), removed.append(not both[1].active[0])))
    assert removed[-1] or beta > 0.5


@settings(max_examples=30)
@given(
    dims=st.lists(st.floats(1, 30), min_size=2, max_size=5),
    c=st.floats(0.05, 1.0),
    scale=st.floats(0.1, 3.0),
    seed=st.integers(0, 1000),
)
def test_claims_stay_within_one_reward(dims, c, scale, seed):
    """Whatever the rewards: claims of active bases differ by at most the scale, one is active, nobody comes back."""
    rng = np.random.default_rng(seed)
    levels = rng.uniform(0, 1, len(dims))
    policy = BoundBalancing(bases=bases(len(dims)), complexities=tuple(dims), c=c, reward_scale=scale)
    before = np.ones(len(dims), dtype=bool)
    for t, chosen, learner in play_bases(policy, lambda i, t: scale * levels[i] + rng.normal(0, 0.1), 150, False):
        active = learner.active[0]
        assert before[chosen]
        assert active.any()
        assert not (active & ~before).any()
        assert np.ptp(learner.potential[0, before]) <= scale * (1 + 1e-9)
        assert learner.plays.sum() == t
        before = active.copy()


@pytest.mark.parametrize("policy", [BoundBalancing(c=0.05), BoundBalancing(bases=(LinUCB(dim=3), adadim.UCB()))])
def test_torch_does_the_same(policy, torch):
    instance = small(range(2), horizon=120)
    assert Stepper(policy, in_torch(instance, torch)).run().arms == Stepper(policy, instance).run().arms


def test_replications_out_of_step_run_as_if_alone():
    policy = BoundBalancing(c=0.05)
    together = Stepper(policy, small(range(4), horizon=100)).stagger(np.random.default_rng(1))
    for r in range(4):
        alone = Stepper(policy, small([r], horizon=100)).run()
        assert together.arms[r] == alone.arms[0]
        assert together.learner.describe()[r] == alone.learner.describe()[0]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"bound": math.sqrt}, TypeError),
        ({"complexities": [1.0]}, TypeError),
        ({"complexities": (1.0, 0.0)}, ValueError),
        ({"beta": 0.4}, ValueError),
        ({"delta": 0.0}, ValueError),
        ({"c": -1.0}, ValueError),
    ],
)
def test_bad_hyper_parameters(changes, error):
    with pytest.raises(error, match=next(iter(changes))):
        BoundBalancing(**changes)


def test_one_complexity_for_each_base():
    with pytest.raises(ValueError, match="complexities must have one entry for each of the 5 bases, got 2"):
        BoundBalancing(complexities=(1.0, 2.0)).start(small().problem)


# Bounds

BOUNDS = [SqrtBound(c=0.5), LinearBound(c=2.0), PowerBound(c=0.3, dim_power=1.0, power=0.6), SqrtLogBound(c=1.5)]


@pytest.mark.parametrize("bound", BOUNDS, ids=repr)
def test_bounds_print_compare_and_go_into_tables(bound, tmp_path):
    assert type(bound)() != bound
    assert hash(type(bound)()) == hash(type(bound)())
    policy = BoundBalancing(bound=bound)
    assert study.from_spec(study.to_spec(policy)) == policy
    table = {"kind": "sphere", "arms": 9, "dim": 4, "intrinsic_dim": 2, "horizon": 9}
    plan = study.Study("one", {"it": table}, {"it": policy}, trials=1)
    (tmp_path / "study.toml").write_text(plan.to_toml())
    assert study.Study.from_toml(tmp_path / "study.toml").cells[0].policy_object == policy


@pytest.mark.parametrize("bound", BOUNDS, ids=repr)
@given(d=st.floats(1, 1000), n=st.integers(1, 10_000))
def test_bounds_grow(bound, d, n):
    at = np.array([n, n + 1.0, n])
    low, later, harder = claimed(bound, np.array([d, d, 2 * d]), at)
    assert 0 <= low <= later
    assert low <= harder
    assert claimed(bound, np.array([d]), np.array([0.0]))[0] == 0


def test_a_bound_is_no_policy():
    with pytest.raises(study.StudyError, match="'SqrtBound' is a part of policies"):
        study.from_spec({"kind": "SqrtBound"})


def test_a_bound_of_ones_own():
    class Third(Bound):
        def __call__(self, complexity, plays):
            return (complexity * plays) ** (1 / 3)

    learner = BoundBalancing(bound=Third(), reward_scale=1.0).start(small().problem)
    learner.tell(learner.ask(), [0.1])
    assert set(learner.potential[0].round(9)) <= {0.0, 1.0}


@pytest.mark.parametrize(("kind", "changes"), [(SqrtBound, {"c": 0.0}), (PowerBound, {"power": 1.2})])
def test_bad_bounds(kind, changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        kind(**changes)
