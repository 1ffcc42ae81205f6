"""Arms that arrive: announced (`arrives=`) or added (`add_arms`), and LinUCB++ on them by hand-computed cases."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import adadim
from adadim.errors import InvalidValueError
from adadim.policies.confidence import noise_radius

ARMS = np.array([[1, 0], [0, 0.8], [0.6, 0.6], [0.7, -0.5], [0.3, 0.9]])
ARRIVES = [1, 1, 4, 6, 11]
PLAY = {
    "LinUCB": adadim.LinUCB(),
    "LinUCB feature": adadim.LinUCB(form="feature"),
    "LinUCB dim": adadim.LinUCB(dim=3, radius="oful"),
    "tapered": adadim.TaperedLinUCB(),
    "evidence": adadim.EvidenceLinUCB(),
    "evidence with a constant": adadim.EvidenceLinUCB(taper=(0.0, 1.75), intercept=True, probes=2),
    "prefix": adadim.PrefixLinUCB(),
    "two priors": adadim.TwoPriorLinUCB(),
    "UCB": adadim.UCB(),
    "LinTS": adadim.LinTS(),
    "Random": adadim.Random(),
    "SupLinUCB": adadim.SupLinUCB(radius=0.1),
    "LinUCB++": adadim.LinUCBPlusPlus(),
    "LinUCB++ reuse": adadim.LinUCBPlusPlus(reuse=True),
    "LinUCB++ suplinucb": adadim.LinUCBPlusPlus(solver="suplinucb", radius=0.2, ridge=1.0),
}
ANNOUNCED_ONLY = {
    "Corral": adadim.Corral(eta=0.3),
    "balancing": adadim.DynamicBalancing(bound="sqrt", c=0.1),
    "Greedy": adadim.Greedy(),
}
every = pytest.mark.parametrize("name", PLAY)


def growing(replications=range(2), horizon=90, first=4, arms=12, **changes):
    return adadim.instances.growing(
        arms=arms, dim=6, intrinsic_dim=2, horizon=horizon, initial_arms=first, replications=replications, **changes
    )


# By hand


def test_linucbpp_plays_the_hand_computed_game():
    """Two iterations of 8 rounds, d_i = 2, radius 1 for all; a mixture-arm returns its mean."""
    problem = adadim.Problem(ARMS, arrives=ARRIVES, horizon=16, noise=0.1, reward_range=1.0)
    learner = adadim.LinUCBPlusPlus(beta=0.5, ridge=1.0, radius=1.0, ties="lowest").start(problem)
    assert [i.stop - i.start for i in learner.schedule.iterations] == [8, 8]
    choices, scores, means = [], {}, ARMS @ [0.6, 0.3]
    for t in range(1, 17):
        if t in (6, 11):
            scores[t] = learner.solver(0 if t <= 8 else 1).scores(learner.everyone)[0]
        decision = learner.ask()
        choices.append(int(decision.memo["choice"][0]))
        learner.tell(decision, means[choices[-1]] if choices[-1] < 5 else 0.585)
        if t == 8:
            np.testing.assert_allclose(learner.mixtures.q[0][0], [0.75, 0, 0.25, 0, 0], atol=1e-12)
    assert choices == [0, 0, 0, 0, 2, 0, 0, 2, 0, 0, 4, 5, 5, 0, 5, 0]
    np.testing.assert_allclose(scores[6][:4], [0.936943125471, 0.776644212072, 0.913272724296, 0.859610580680], 1e-11)
    at_11 = [0.977350269190, 0.8, 0.932820323028, 0.922910050733, 1.036515138991, 1]
    np.testing.assert_allclose(scores[11], at_11, 1e-11)
    state = learner.solver(1).reals.regression
    np.testing.assert_allclose(state.mean[0], ARMS @ [0.490043763676, 0.150656455142], 1e-11)


def test_the_radius_is_that_of_the_arms_in_the_end():
    announced = adadim.Problem(ARMS, arrives=ARRIVES, horizon=16, noise=0.1, reward_range=1.0)
    added = adadim.Problem(ARMS[:2], arms=5, horizon=16, noise=0.1, reward_range=1.0)
    assert noise_radius(0.1, 8, 6) == pytest.approx(0.334785572040, abs=1e-12)
    for problem in (announced, added):
        learner = adadim.LinUCBPlusPlus().start(problem)
        assert learner.solver(0).radius == pytest.approx(0.329294622049, abs=1e-12)
        assert learner.solver(1).radius == pytest.approx(noise_radius(0.1, 16, 6))
        learner = adadim.LinUCB().start(problem)
        assert learner.rule.radius(learner.everyone) == pytest.approx(noise_radius(0.1, 16, 5))


# Announced arms


@pytest.mark.parametrize("name", PLAY | ANNOUNCED_ONLY)
def test_arms_there_from_the_start_are_a_fixed_set(name):
    policy = (PLAY | ANNOUNCED_ONLY)[name]
    there = growing(first=12)
    fixed = adadim.Instance(there.problem.actions, theta=there.theta, horizon=90, noise=0.1, replications=range(2))
    one, other = adadim.simulate(policy, there, seed=3), adadim.simulate(policy, fixed, seed=3)
    np.testing.assert_array_equal(one.regret, other.regret)
    np.testing.assert_array_equal(one.pulls, other.pulls)


@pytest.mark.parametrize("name", PLAY | ANNOUNCED_ONLY)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_no_arm_is_pulled_before_it_arrives(name, library):
    policy = (PLAY | ANNOUNCED_ONLY)[name]
    instance = growing()
    if library == "torch":
        pytest.importorskip("torch")
        instance = instance.to("cpu")
    learner, rng = policy.start(instance.problem), np.random.default_rng(2)
    for t in range(1, 91):
        arms = learner.select()
        assert (instance.problem.arrives[[0, 1], np.asarray(arms)] <= t).all()
        learner.update(arms, rng.standard_normal(2).tolist())


@every
def test_torch_chooses_as_numpy_does(name):
    pytest.importorskip("torch")
    if name == "LinTS":
        pytest.skip("its normal draws are scaled by sums in another order")
    here, there = (adadim.simulate(PLAY[name], where, seed=1) for where in (growing(), growing().to("cpu")))
    np.testing.assert_array_equal(here.pulls, there.pulls)
    np.testing.assert_allclose(here.regret, there.regret, atol=1e-12)


@every
def test_arms_that_never_arrive_change_nothing(name):
    some = growing(range(1), first=3, arms=4)
    base, rounds, ends = np.array(some.problem.actions.base), some.problem.arrives[0].tolist(), []
    for value in (0.4, -0.1):
        features = np.concatenate([base, np.full((1, 3, 6), value)], axis=1)
        where = adadim.Instance(
            features, theta=some.theta, horizon=90, noise=0.1, reward_range=2.0, arrives=[*rounds, 91, 92, 93]
        )
        ends.append(adadim.simulate(PLAY[name], where, seed=1))
    np.testing.assert_array_equal(ends[0].pulls, ends[1].pulls)
    assert (ends[0].pulls[:, 4:] == 0).all()


def test_regret_is_against_the_best_arm_that_is_there():
    instance = growing(best=60)
    assert (instance.arrival_gain > 0).all()
    times = [1, 30, 61, 90]
    outcome = adadim.simulate(adadim.Random(), instance, seed=5, record=times)
    learner, total, means = adadim.Random().start(instance.problem, seed=5), np.zeros(2), instance.means
    for t in range(1, 91):
        arms = learner.select()
        learner.update(arms, [0.0, 0.0])
        there = np.where(instance.problem.arrives <= t, means, -np.inf)
        total += there.max(axis=1) - means[[0, 1], arms]
        if t in times:
            np.testing.assert_allclose(outcome.regret[:, times.index(t)], total, atol=1e-12)


def test_replications_depend_on_their_number_alone():
    together = adadim.simulate(adadim.LinUCBPlusPlus(), growing(range(4)), seed=2)
    alone = adadim.simulate(adadim.LinUCBPlusPlus(), growing([2]), seed=2)
    np.testing.assert_array_equal(together.regret[2], alone.regret[0])
    parts = adadim.Instance.join([growing([0, 1]), growing([2, 3])])
    joined = adadim.simulate(adadim.LinUCBPlusPlus(), parts, seed=2)
    np.testing.assert_array_equal(together.regret, joined.regret)


def test_linucb_learns_the_arm_that_comes_late():
    instance = growing(range(6), horizon=600, best=300)
    outcome = adadim.simulate(adadim.LinUCB(dim=2), instance)
    best = instance.means.argmax(axis=1)
    assert (outcome.pulls[np.arange(6), best] > 200).all()


# Arms that are added


@every
def test_added_arms_play_as_announced_ones(name):
    """The same arms, known beforehand to the problem or given to the learner when their round comes."""
    instance = growing(range(2), horizon=60)
    known, rounds = np.array(instance.problem.actions.base), instance.problem.arrives[0]
    room = adadim.Problem(known[:, :4], arms=12, horizon=60, noise=0.1)
    told = PLAY[name].start(adadim.Problem(known, arrives=rounds, horizon=60, noise=0.1), seed=4)
    given = PLAY[name].start(room, seed=4)
    rng = np.random.default_rng(8)
    for t in range(1, 61):
        for arm in np.flatnonzero(rounds == t)[4 if t == 1 else 0 :]:
            assert given.add_arms(known[:, [arm]]).tolist() == [arm]
        arms = told.select()
        assert given.select().tolist() == np.asarray(arms).tolist(), t
        rewards = instance.means[[0, 1], arms] + 0.1 * rng.standard_normal(2)
        told.update(arms, rewards)
        given.update(arms, rewards)
    fresh = PLAY[name].start(room)  # nobody else got the arms
    assert (np.asarray(fresh.features_there[:, 4:]) == 0).all()


@every
def test_learners_with_added_arms_are_saved(name, tmp_path):
    rng = np.random.default_rng(3)
    problem = adadim.Problem(rng.standard_normal((3, 4)) / 4, arms=8, horizon=60, noise=0.1)
    learner = PLAY[name].start(problem, seed=1)
    for t in range(30):
        if t in (7, 19):
            learner.add_arms(rng.standard_normal((2, 4)) / 4)
        learner.update(learner.select(), np.sin(t))
    learner.save(tmp_path / "learner")
    restored, twin = adadim.load(tmp_path / "learner", problem), copy.deepcopy(learner)
    for t in range(25):
        if t == 5:
            more = rng.standard_normal((1, 4)) / 4
            for one in (learner, restored, twin):
                assert one.add_arms(more).tolist() == [7]
        arm = learner.select()
        assert restored.select() == twin.select() == arm
        for one in (learner, restored, twin):
            one.update(arm, np.cos(t))


def test_added_arms_enter_with_what_is_known():
    rng = np.random.default_rng(5)
    x, rewards = rng.standard_normal((6, 3)) / 3, rng.standard_normal(40)
    arms = rng.integers(4, size=40)
    learner = adadim.LinUCB(ridge=0.7).start(adadim.Problem(x[:4], arms=6, horizon=50, noise=0.1))
    learner.learn(arms, rewards)
    learner.add_arms(x[4:])
    v = 0.7 * np.eye(3) + x[arms].T @ x[arms]
    np.testing.assert_allclose(
        learner.model.regression.mean[0], x @ np.linalg.solve(v, x[arms].T @ rewards), atol=1e-12
    )
    np.testing.assert_allclose(learner.model.regression.width2[0], np.vecdot(x, np.linalg.solve(v, x.T).T), atol=1e-12)


# Refusals


BAD = {
    "no first arm": ({"arrives": [2, 3, 4]}, "leaves no arm to choose in round 1"),
    "round 0": ({"arrives": [0, 1, 2]}, "1 or later"),
    "fractions": ({"arrives": [1.0, 1.5, 2.0]}, "integers of shape"),
    "too few": ({"arrives": [1, 2]}, r"each of the 3 arms.*shape \(3,\) or \(1, 3\)"),
    "fewer arms": ({"arms": 2}, "arms must be an integer of at least 3"),
    "dim": ({"dim": 3}, "dim is that of the features given"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arrivals(case):
    changes, message = BAD[case]
    with pytest.raises(InvalidValueError, match=message):
        adadim.Problem(np.eye(3), horizon=10, noise=0.1, **changes)


def test_what_cannot_be_is_refused():
    with pytest.raises(InvalidValueError, match=r"better by 0\.3 .*arm 1, from round 5 on.*slack=math\.inf"):
        adadim.Instance(np.eye(2), theta=[0.2, 0.5], horizon=9, noise=0.1, arrives=[1, 5])
    adadim.Instance(np.eye(2), theta=[0.2, 0.5], horizon=9, noise=0.1, arrives=[1, 5], slack=0.31)
    adadim.Instance(np.eye(2), theta=[0.2, 0.5], horizon=9, noise=0.1, arrives=[1, 10])  # after the last round
    full = adadim.Problem(np.eye(3), horizon=10, noise=0.1)
    with pytest.raises(InvalidValueError, match=r"room for 0 more arms, not for 1.*Problem\(features, arms="):
        adadim.LinUCB().start(full).add_arms([[0.1, 0.2, 0.3]])
    room = adadim.Problem(np.eye(3), arms=5, horizon=10, noise=0.1)
    learner = adadim.LinUCB().start(room)
    for bad, message in (([[0.1, 0.2]], r"new arms must have shape \(n, 3\)"), ([[np.nan] * 3], "must be finite")):
        with pytest.raises(InvalidValueError, match=message):
            learner.add_arms(bad)
    with pytest.raises(InvalidValueError, match="room for 2 more arms, not for 3"):
        learner.add_arms(np.eye(3))
    with pytest.raises(InvalidValueError, match="arm 4 is not there"):
        learner.learn([4], [0.1])
    with pytest.raises(InvalidValueError, match="allowed leaves no arm that has arrived"):
        learner.ask(allowed=[False] * 3 + [True] * 2)
    with pytest.raises(InvalidValueError, match=r"Corral takes no new arms while it plays; adadim\.recommended"):
        adadim.Corral().start(room).add_arms(np.eye(3)[:1])
    with pytest.raises(InvalidValueError, match="arms come with each round"):
        adadim.LinTS().start(adadim.Problem(arms=3, dim=2, horizon=9, noise=0.1)).add_arms(np.eye(2))
    with pytest.raises(InvalidValueError, match="arrives is for fixed arms"):
        adadim.Problem(arms=3, dim=2, horizon=9, arrives=[1, 1, 2])
    for policy in (adadim.SmoothCorral(), adadim.MOSSPlusPlus(), adadim.LinUCBPlusPlusCorral()):
        with pytest.raises(InvalidValueError, match=r"needs all arms in every round|replay"):
            policy.start(growing().problem)
    from adadim.policies.released import ReleasedLinUCBPlusPlus

    with pytest.raises(InvalidValueError, match="unknown while arms arrive; use LinUCBPlusPlus"):
        ReleasedLinUCBPlusPlus().start(growing().problem)


def test_growing_sets_in_a_study(tmp_path):
    from adadim.study import Study, run

    here = {"kind": "growing", "arms": 8, "dim": 4, "intrinsic_dim": 2, "horizon": 40, "initial_arms": 3, "best": 20}
    results = run(Study("growing", {"here": here}, {"a": adadim.LinUCBPlusPlus()}, 3), tmp_path, jobs=1)
    instance = adadim.instances.growing(**{k: v for k, v in here.items() if k != "kind"}, replications=range(3))
    np.testing.assert_array_equal(results.final("here", "a"), adadim.simulate(adadim.LinUCBPlusPlus(), instance).final)


@pytest.mark.parametrize("form", ["gram", "feature"])
@pytest.mark.parametrize("kind", [adadim.LinUCB, adadim.TaperedLinUCB, adadim.EvidenceLinUCB])
def test_arms_that_were_added_come_back_from_a_file(kind, form, tmp_path):
    features = np.random.default_rng(3).standard_normal((5, 4)) / 4
    problem, rng = adadim.Problem(features[:3], arms=6, horizon=200, noise=0.2), np.random.default_rng(0)
    learner = kind(form=form).start(problem)
    learner.update(learner.select(), 0.1)
    learner.add_arms(features[3:])
    learner.save(tmp_path / "learner.npz")
    restored = adadim.load(tmp_path / "learner.npz", problem)
    for _ in range(100):
        arm, reward = learner.select(), float(rng.standard_normal())
        assert restored.select() == arm
        for one in (learner, restored):
            one.update(arm, reward)
