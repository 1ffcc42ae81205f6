"""How action sets come about, and what a guarantee needs of that: warnings that name both, refusals, why it matters."""

import copy
import warnings

import numpy as np
import pytest

import adadim
from adadim import SetsWarning
from adadim.policies.assumptions import NEEDS, sets_lacking
from counting_runs import bases, play_bases
from policy_examples import EXAMPLES

IID = "needs sets that are fixed or i.i.d., since it compares averages over different rounds"
NEEDED = {
    "any": (adadim.LinUCB(radius="oful"), adadim.Corral(feedback="importance"), adadim.EpochBalancing()),
    "iid": (
        adadim.RegretBalancing(),
        adadim.BoundBalancing(),
        adadim.DynamicBalancing(),
        adadim.D3RB(),
        adadim.ED2RB(),
        adadim.BanditCombiner(),
        adadim.UCBCorral(copies=2),
        adadim.TsallisCorral(),
        adadim.ModCB(),
        adadim.ALBDim(),
    ),
    "iid-centred": (adadim.OSOM(), adadim.ALBNorm()),
}


def warned(policy, problem):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learner = policy.start(problem)
        copy.deepcopy(learner)
    return [(str(w.message), w.filename) for w in caught if w.category is SetsWarning]


def problem(sets, **changes):
    return adadim.Problem(arms=4, dim=3, horizon=50, noise=0.1, sets=sets, **changes)


@pytest.mark.parametrize("need", NEEDED)
@pytest.mark.parametrize("sets", ["iid", "adversarial", "fixed", None])
def test_a_mismatch_warns_once_and_names_both(need, sets):
    where = adadim.Problem(np.eye(3), horizon=50, noise=0.1) if sets == "fixed" else problem(sets)
    for policy in NEEDED[need]:
        found = warned(policy, where)
        if sets is None or sets in NEEDS[need][1]:
            assert found == []
        else:
            ((message, file),) = found
            assert message.startswith(f"the guarantee of {type(policy).__name__} {'needs ' + NEEDS[need][0]}")
            assert f"the sets of this problem are {sets}" in message
            assert file == __file__  # it is the caller's place that is shown


@pytest.mark.parametrize(("former", "present"), [("fresh", "iid-centred"), ("kept", "persistent")])
def test_former_names_of_needs_are_understood(former, present):
    with pytest.warns(DeprecationWarning, match=f"needs_sets = '{former}' is now '{present}'"):
        assert sets_lacking("Mine", former, "adversarial") == sets_lacking("Mine", present, "adversarial")


def test_a_simulation_warns_its_caller():
    instance = adadim.instances.sphere(arms=4, dim=3, intrinsic_dim=1, horizon=9)
    with pytest.warns(SetsWarning, match="guarantee of OSOM needs sets drawn anew") as caught:
        adadim.simulate(adadim.OSOM(), instance)
    assert [w.filename for w in caught] == [__file__]


def test_instances_declare_their_law():
    assert adadim.instances.contexts(arms=4, dim=3, intrinsic_dim=1, horizon=9).problem.sets == "iid"
    assert adadim.instances.sphere(arms=4, dim=3, intrinsic_dim=1, horizon=9).problem.sets == "fixed"
    assert problem(None).sets is None


@pytest.mark.parametrize("policy", [adadim.LinUCBPlusPlus(), adadim.MOSSPlusPlus(), adadim.MeDZO()])
def test_what_has_no_meaning_refuses(policy):
    with pytest.raises(adadim.InvalidValueError, match="needs arms that stay"):
        policy.start(problem("iid"))


def test_sets_are_checked():
    with pytest.raises(ValueError, match="sets must be 'iid' or 'adversarial', got 'random'"):
        problem("random")
    with pytest.raises(ValueError, match="sets must be 'fixed', got 'iid'"):
        adadim.Problem(np.eye(3), horizon=9, noise=0.1, sets="iid")


def test_every_policy_says_what_it_needs():
    fixed = adadim.Problem(np.eye(8)[:6], horizon=50, noise=0.1)
    for policy in EXAMPLES:
        assert policy.learner(fixed, adadim.policies.base.Streams(0, 2, [0])).needs_sets in NEEDS


def test_alternating_sets_remove_a_perfect_learner_f42():
    """Learner 0 always meets sets worth 0.2, learner 1 sets worth 0.9: both have no regret, and learner 0 goes."""
    policy = adadim.BoundBalancing(bases=bases(2), complexities=(1.0, 1.0), c=0.25, delta=0.1, reward_scale=1.0)
    removed = None
    for t, _, learner in play_bases(policy, (0.2, 0.9), 30):
        if removed is None and not learner.active[0].all():
            removed = t, learner.plays[0].tolist(), learner.active[0].tolist()
    assert removed == (16, [8.0, 8.0], [False, True])


SETS = np.array(
    [
        [(1, 0), (0, 1), (0.6, 0.8)],
        [(0.8, 0.6), (0, -1), (0.5, 0.5)],
        [(0, 1), (-0.6, 0.8), (0.3, 0.2)],
        [(0.6, -0.8), (0.1, 0.9), (0.7, 0.7)],
        [(1, 0), (0.5, -0.5), (-0.2, 0.9)],
    ]
)
NEW = np.array([(0.9, 0.1), (0.1, 0.9), (-0.5, 0.6), (0.4, 0.4)])
THETA = np.array([0.5, 0.2])


def linucb(dim=None):
    """LinUCB on the five sets: its arms, itself before every round, and its scores."""
    policy = adadim.LinUCB(ridge=1.0, radius=1.0, dim=dim, ties="lowest")
    learner = policy.start(adadim.Problem(arms=4, dim=2, horizon=5, noise=0.1))
    arms, before, scores = [], [], []
    for x in SETS:
        before.append(copy.deepcopy(learner))
        mean, width2 = learner.model.regression.predict(x[None, :, :dim], learner.everyone)
        scores.append((mean + np.sqrt(width2))[0])
        arms.append(learner.select(x))
        learner.update(arms[-1], float(x[arms[-1]] @ THETA))
    return arms, before, scores, learner


def test_linucb_on_changing_sets_f39():
    arms, _, scores, learner = linucb()
    state, exact = learner.model.regression, {"rel": 0, "abs": 1e-10}
    assert arms == [0, 0, 0, 2, 0]
    assert scores[3] == pytest.approx([0.777106781187, 0.756894309031, 0.904331569171], **exact)
    assert state.theta[0] == pytest.approx([0.386330058359, 0.168512225752], **exact)
    found = state.inverse[0]
    assert [found[0, 0], found[0, 1], found[1, 1]] == pytest.approx(
        [0.263167614686, -0.089569328507, 0.381362192509], **exact
    )
    assert state.logdet[0] == pytest.approx(2.382283125889, **exact)
    arms, _, _, learner = linucb(dim=1)
    assert arms == [0, 0, 2, 2, 0]
    assert learner.model.regression.theta[0] == pytest.approx([0.430331753555], **exact)
    assert learner.model.regression.inverse[0, 0] == pytest.approx([0.236966824645], **exact)


def test_a_stored_policy_is_no_stored_arm_f40():
    arms, before, _, _ = linucb()
    chosen = [learner.select(NEW) for learner in before]
    assert chosen == [0, 1, 1, 0, 0]
    assert np.mean(NEW[chosen] @ THETA) == pytest.approx(0.374, abs=1e-10)
    assert np.mean(NEW[arms] @ THETA) == pytest.approx(0.35, abs=1e-10)
