"""Rounds from tables: labels as arms, and logged choices by replay, against loops written out."""

import numpy as np
import pytest

import adadim
from adadim import instances
from adadim.errors import DeviceError, InvalidTypeError, InvalidValueError

POLICIES = [adadim.LinUCB(), adadim.recommended, adadim.LinTS(), adadim.Corral(), adadim.Random()]


def labelled(n=60, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2)) * [1.0, 50.0] + 3.0
    return {"a": x[:, 0], "b": x[:, 1], "kind": np.where(x[:, 0] > 3, "up", np.where(x[:, 1] > 0, "in", "down"))}


def logged(n=400, seed=0):
    rng = np.random.default_rng(seed)
    x, arm = rng.standard_normal(n), rng.integers(3, size=n)
    return {"x": x, "arm": np.array(["p", "q", "r"])[arm], "gain": arm * x + 0.1 * rng.standard_normal(n)}


def test_labels_are_arms_and_wrong_guesses_regret():
    frame = labelled()
    instance = instances.table(frame, classes="kind", features=["a", "b"], replications=[3, 7], seed=5)
    assert instance.arms == ("down", "in", "up")
    assert (instance.problem.horizon, instance.problem.dim, instance.problem.noise) == (60, 10, 0.5)
    outcome = adadim.simulate(adadim.Random(), instance, record=60)
    steps = np.diff(outcome.regret, axis=1, prepend=0.0)
    assert set(np.unique(steps)) == {0.0, 1.0}

    wrong = 0
    learner = adadim.LinUCB(ties="lowest").start(instance.problem, seed=0)
    for features, rewards in instance.played():
        arms = learner.select(features)
        gained = rewards[[0, 1], arms]
        learner.update(arms, gained)
        wrong = wrong + 1 - gained
    np.testing.assert_array_equal(adadim.simulate(adadim.LinUCB(ties="lowest"), instance).final, wrong)


def test_rows_are_those_of_the_table_in_an_order_of_their_own():
    frame = labelled()
    columns = np.stack([frame["a"], frame["b"]], axis=1)
    z = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    both = instances.table(frame, classes="kind", features=["b", "a"], replications=[3, 7], seed=5)
    alone = instances.table(frame, classes="kind", features=["b", "a"], replications=[7], seed=5)
    seen, orders = [], []
    for (features, rewards), (one, _) in zip(both.played(), alone.played(), strict=True):
        np.testing.assert_array_equal(features[1], one[0])
        b, a = features[:, 0, 4], features[:, 0, 7]  # covariates of the first arm, in the order given
        at = np.array([np.flatnonzero(np.isclose(z[:, 1], b[r]) & np.isclose(z[:, 0], a[r])).item() for r in (0, 1)])
        for r, row in enumerate(at):
            assert both.arms[int(rewards[r].argmax())] == frame["kind"][row]
            assert rewards[r].sum() == 1.0
        seen.append(at)
        orders.append(at)
    orders = np.array(orders)
    assert (np.sort(orders, axis=0) == np.arange(60)[:, None]).all()
    assert (orders[:, 0] != orders[:, 1]).any()
    other = instances.table(frame, classes="kind", features=["b", "a"], replications=[7], seed=6)
    assert (next(other.rounds()) != next(alone.rounds())).any()


def test_shared_covariates():
    frame = logged()
    instance = instances.table(frame, reward="gain", arm="arm", features=["x"], shared=True)
    features, _, _ = next(instance.logged())
    assert instance.problem.dim == features.shape[2] == 8
    np.testing.assert_array_equal(features[0], adadim.interactions(features[0, 0, 1:2], 3, shared=True))


def test_without_constants():
    frame = logged()
    for shared in (False, True):
        options = {"reward": "gain", "arm": "arm", "features": ["x"], "shared": shared}
        instance = instances.table(frame, constants=False, **options)
        features, _, _ = next(instance.logged())
        x = features[0, 0, 0]
        assert x != 0
        expected = np.concatenate([np.full((3, int(shared)), x), x * np.eye(3)], axis=1)
        np.testing.assert_array_equal(features[0], expected)
        assert instance.problem.dim == features.shape[2] == 3 + shared


def test_a_column_for_each_arm():
    frame = {"x": [1.0, 2.0, 3.0], "red": [1, 0, 1], "blue": [0.5, 0.0, 1.0]}
    instance = instances.table(frame, classes=["red", "blue"], features=["x"], standardise=False)
    rows = {features[0, 0, 3]: rewards[0].tolist() for features, rewards in instance.played()}
    assert rows == {1.0: [1.0, 0.5], 2.0: [0.0, 0.0], 3.0: [1.0, 1.0]}
    assert adadim.simulate(adadim.Random(), instance).final[0] in (0.0, 0.5)  # regret is against the row's best arm


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: getattr(p, "__name__", type(p).__name__))
def test_replay_is_the_textbook_loop(policy):
    frame = logged()
    instance = instances.table(
        frame, reward="gain", arm="arm", features=["x"], noise=0.5, replications=[2, 4], seed=1, standardise=False
    )
    policy = policy(instance.problem) if callable(policy) else policy
    outcome = adadim.simulate(policy, instance, seed=3)
    for position, r in enumerate([2, 4]):
        one = instances.table(
            frame, reward="gain", arm="arm", features=["x"], noise=0.5, replications=[r], seed=1, standardise=False
        )
        learner, gained = policy.start(one.problem, seed=3), []
        everyone = learner.everyone
        for features, chosen, rewards in one.logged():
            rows = everyone.with_offer(features, None)
            arms, memo, *_ = learner.choose(rows)
            if arms[0] == chosen[0]:
                learner.absorb(arms, rewards, rows, memo)
                gained.append(rewards[0])
        assert outcome.matched[position] == len(gained)
        assert outcome.mean[position] == pytest.approx(np.mean(gained), abs=1e-9)
    assert (outcome.pulls.sum(axis=1) == outcome.matched).all()


def test_replay_estimates_the_live_value():
    """A log of uniform choices replayed to a policy: the same mean reward as playing live, within standard errors."""
    rng = np.random.default_rng(0)
    live, replayed = [], []
    for trial in range(12):
        x, arm = rng.standard_normal(900), rng.integers(3, size=900)
        means = np.stack([np.zeros(900), x, -x], axis=1)
        gain = means[np.arange(900), arm] + 0.3 * rng.standard_normal(900)
        frame = {"x": x, "arm": arm, "gain": gain}
        log = instances.table(
            frame, reward="gain", arm="arm", features=["x"], noise=0.3, replications=[trial], standardise=False
        )
        replayed.append(adadim.simulate(adadim.LinUCB(), log).mean[0])
        problem = adadim.Problem(arms=3, dim=log.problem.dim, horizon=300, noise=0.3)
        learner, earned = adadim.LinUCB().start(problem, seed=trial), []
        for t in range(300):
            choice = learner.select(adadim.interactions(x[t : t + 1], 3))
            reward = means[t, choice] + 0.3 * rng.standard_normal()
            learner.update(choice, reward)
            earned.append(reward)
        live.append(np.mean(earned))
    difference = np.array(replayed) - np.array(live)
    assert abs(difference.mean()) < 3 * difference.std(ddof=1) / np.sqrt(12)
    assert np.mean(replayed) > 0.4  # E max(0, x, -x) is 0.8; a constant policy earns 0


def test_all_policies_meet_the_same_rows():
    instance = instances.table(logged(), reward="gain", arm="arm", features=["x"], replications=range(2))
    first = [chosen.tolist() for _, chosen, _ in instance.logged()]
    adadim.simulate(adadim.Random(), instance)
    assert [chosen.tolist() for _, chosen, _ in instance.logged()] == first


def test_frames_of_all_kinds_are_alike():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = logged()
    plain = instances.table(frame, reward="gain", arm="arm", features=["x"])
    for made in (pandas.DataFrame(frame), polars.DataFrame(frame), {k: v.tolist() for k, v in frame.items()}):
        other = instances.table(made, reward="gain", arm="arm", features=["x"])
        assert other.arms == plain.arms
        np.testing.assert_array_equal(other.chosen, plain.chosen)
        np.testing.assert_array_equal(other.covariates, plain.covariates)
        np.testing.assert_array_equal(other.rewards, plain.rewards)


GOOD = {"x": [1.0, 2.0], "k": ["a", "b"], "y": [0.0, 1.0]}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"features": ["x"]}, InvalidValueError, "give either classes .* or reward and arm"),
        ({"features": ["x"], "classes": "k", "arm": "k"}, InvalidValueError, "give either classes"),
        ({"features": ["x"], "reward": "y"}, InvalidValueError, "need both columns"),
        ({"features": ["z"], "classes": "k"}, InvalidValueError, "no column 'z'"),
        ({"features": ["k"], "classes": "k"}, InvalidValueError, "column 'k' of the frame must hold numbers"),
        ({"features": "x", "classes": "k"}, InvalidTypeError, "features must be a list of names of columns"),
        ({"features": ["x", "x"], "classes": "k"}, InvalidValueError, "each column once"),
        ({"features": ["x"], "classes": "k", "horizon": 3}, InvalidValueError, r"horizon must be an integer in 1..2"),
        ({"features": ["x"], "classes": ["x", "y"]}, InvalidValueError, r"must be in \[0, 1\]"),
        ({"features": ["x"], "classes": ["y"]}, InvalidValueError, "two or more arms"),
        ({"features": ["x"], "classes": "k", "standardise": 1}, InvalidTypeError, "standardise must be True or False"),
        ({"features": ["x"], "classes": "k", "seed": -1}, InvalidValueError, "seed must be"),
    ],
)
def test_refusals(arguments, error, message):
    with pytest.raises(error, match=message):
        instances.table(GOOD, **arguments)


def test_tables_that_are_none():
    with pytest.raises(InvalidTypeError, match="the frame must be a polars or pandas DataFrame or a dict"):
        instances.table([1, 2], classes="k", features=["x"])
    with pytest.raises(InvalidValueError, match="has no finite number in row 2"):
        instances.table({**GOOD, "x": [1.0, None]}, classes="k", features=["x"])
    with pytest.raises(InvalidValueError, match="no rows"):
        instances.table({"x": [], "k": []}, classes="k", features=["x"])
    with pytest.raises(InvalidValueError, match="at least two different values"):
        instances.table({**GOOD, "k": ["a", "a"]}, reward="y", arm="k", features=["x"])
    with pytest.raises(InvalidValueError, match="column 'k' has no value in row 2"):
        instances.table({**GOOD, "k": ["a", None]}, classes="k", features=["x"])
    with pytest.raises(InvalidTypeError, match="values of one kind"):
        instances.table({**GOOD, "k": np.array(["a", 3], dtype=object)}, classes="k", features=["x"])
    with pytest.raises(InvalidValueError, match="columns of the frame must have the same number of rows"):
        instances.table({**GOOD, "y": [0.0]}, reward="y", arm="k", features=["x"])
    with pytest.raises(DeviceError, match="on the cpu"):
        instances.table(GOOD, reward="y", arm="k", features=["x"]).to("cuda")
