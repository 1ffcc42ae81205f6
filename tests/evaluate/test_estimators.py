"""The estimators: against obp, against their definitions, and for what they promise: no bias, intervals that cover."""

import numpy as np
import polars as pl
import pytest
from open_bandit import SETS, obp_estimators, open_bandit_file

import adadim
from adadim.core.randomness import Purpose, Streams
from adadim.errors import EvaluationWarning


def obp_values(chances, log_arms, rewards, propensities, predicted):
    """What obp says: (ips, snips, dr, replay or None)."""
    obp = obp_estimators()
    common = {"reward": rewards, "action": log_arms, "action_dist": chances[:, :, None]}
    weighted = {**common, "pscore": propensities}
    definite = ((chances == 0) | (chances == 1)).all()
    return (
        obp.InverseProbabilityWeighting().estimate_policy_value(**weighted),
        obp.SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**weighted),
        obp.DoublyRobust().estimate_policy_value(**weighted, estimated_rewards_by_reg_model=predicted[:, :, None]),
        obp.ReplayMethod().estimate_policy_value(**common) if definite else None,
    )


@pytest.mark.parametrize(("policy", "campaign"), SETS)
@pytest.mark.parametrize("definite", [False, True], ids=["random", "definite"])
@pytest.mark.filterwarnings("ignore::adadim.EvaluationWarning")
def test_the_open_bandit_data_as_obp_has_them(policy, campaign, definite):
    frame = pl.read_csv(open_bandit_file(policy, campaign))
    columns = {"arm": frame["item_id"], "reward": frame["click"], "propensity": frame["propensity_score"]}
    n, arms = len(frame), frame["item_id"].n_unique()
    rng = np.random.default_rng(0)
    rule = rng.integers(arms, size=n) if definite else rng.dirichlet(np.ones(arms), size=n)
    chances = np.eye(arms)[rule] if definite else rule
    predicted = rng.random((n, arms)) / 50
    found = adadim.evaluate(rule, pl.DataFrame(columns), model=predicted, features=[])
    names, chosen = np.unique(frame["item_id"].to_numpy(), return_inverse=True)
    assert names.tolist() == list(range(arms))
    propensities = frame["propensity_score"].to_numpy()
    expected = obp_values(chances, chosen, frame["click"].to_numpy().astype(float), propensities, predicted)
    assert n == 10_000
    assert found.ips.value == pytest.approx(expected[0], abs=1e-10)
    assert found.snips.value == pytest.approx(expected[1], abs=1e-10)
    assert found.dr.value == pytest.approx(expected[2], abs=1e-10)
    uniform = np.allclose(propensities, 1 / arms)
    assert (found.replay is not None) == (definite and uniform)
    if found.replay is not None:
        assert found.replay.value == pytest.approx(expected[3], abs=1e-10)


def logs(count, n, seed=0):
    """Logs with a context, choices of varying probability, and the mean of every arm."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        x = rng.standard_normal(n)
        means = 1 + np.stack([0.3 * x, -0.5 * x + 0.2, np.full(n, 0.1)], axis=1)
        scores = np.exp(0.8 * rng.standard_normal((n, 3)))
        odds = scores / scores.sum(axis=1, keepdims=True)
        arm = (odds.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
        every = np.arange(n)
        rewards = means[every, arm] + 0.4 * rng.standard_normal(n)
        yield {"arm": arm, "reward": rewards, "propensity": odds[every, arm], "x": x}, means


@pytest.mark.filterwarnings("ignore::adadim.EvaluationWarning")
def test_intervals_cover_what_a_fixed_rule_earns():
    covered, values = dict.fromkeys(("ips", "snips", "dr"), 0), {name: [] for name in ("ips", "snips", "dr")}
    truth = 1 + 0.3 / np.sqrt(2 * np.pi) + 0.5 * 0.1  # arm 0 where x > 0, else arm 2
    for log, _ in logs(150, 300):
        found = adadim.evaluate(np.where(log["x"] > 0, 0, 2), log)
        for name in covered:
            e = found.estimates[name]
            covered[name] += e.low <= truth <= e.high
            values[name].append(e.value)
    for name, hits in covered.items():
        assert 0.95 - 3 * np.sqrt(0.95 * 0.05 / 150) <= hits / 150, name
        errors = np.array(values[name]) - truth
        assert abs(errors.mean()) < 3.5 * errors.std() / np.sqrt(150), name
    assert np.std(values["dr"]) < 0.7 * np.std(values["ips"])  # what the model is for


@pytest.mark.filterwarnings("ignore::adadim.EvaluationWarning")
@pytest.mark.parametrize("policy", [adadim.LinUCB(), adadim.LinTS(), adadim.Corral()], ids=lambda p: type(p).__name__)
def test_a_learning_policy_is_judged_without_bias(policy, monkeypatch):
    """The estimates minus the true mean of what the policy chose in the rows judged: zero on average."""
    from adadim.play import evaluation, simulate

    walked = []

    def replayed(*arguments):
        walked.append([])
        for one in simulate.replayed(*arguments):
            walked[-1].append(int(one[0].arms[0]))
            yield one

    monkeypatch.setattr(evaluation, "replayed", replayed)
    errors = {"ips": [], "dr": []}
    for seed, (log, means) in enumerate(logs(25, 200, seed=1)):
        found = adadim.evaluate(policy, log, warmup=0.25, seed=seed)
        truth = means[np.arange(50, 200), np.array(walked[-1])[50:]].mean()
        for name, misses in errors.items():
            misses.append(found.estimates[name].value - truth)
    for name, misses in errors.items():
        assert abs(np.mean(misses)) < 3.5 * np.std(misses, ddof=1) / np.sqrt(len(misses)), name


@pytest.mark.filterwarnings("ignore::adadim.EvaluationWarning")
def test_by_hand():
    log = {"arm": [0, 1, 0, 1], "reward": [1.0, 3.0, 0.5, 9.0], "propensity": [0.25, 0.5, 0.125, 0.5]}
    rule = np.array([[0.5, 0.5], [1.0, 0.0], [0.5, 0.5], [1.0, 0.0]])
    model = np.array([[0.5, 1.5], [1.0, 0.0], [0.5, -0.5], [2.0, 0.0]])  # of the rule: 1, 1, 0 and 2
    found = adadim.evaluate(rule, log, model=model)
    w, r = np.array([2.0, 0.0, 4.0, 0.0]), np.array([1.0, 3.0, 0.5, 9.0])
    assert found.ips.value == 1.0
    assert found.ips.error == pytest.approx(np.std([2, 0, 2, 0], ddof=1) / 2)
    value = 4 / 6
    residuals = w * (r - value)
    assert found.snips.value == pytest.approx(value)
    assert found.snips.error == pytest.approx(residuals.std(ddof=1) / w.mean() / 2)
    assert found.dr.value == pytest.approx((1 + 2 * 0.5 + 1 + 0 + 0 + 2) / 4)
    assert found.dr.high - found.dr.value == pytest.approx(1.959963985 * found.dr.error)
    assert found.effective == pytest.approx(36 / 20)


def test_a_constant_added_to_rewards_moves_snips_and_dr_by_it():
    (log, _), rule = next(logs(1, 400)), np.tile([0, 2], 200)
    moved = {**log, "reward": log["reward"] + 100.0}
    one, two = adadim.evaluate(rule, log), adadim.evaluate(rule, moved)
    assert two.snips.value - one.snips.value == pytest.approx(100.0, abs=1e-9)
    assert two.snips.error == pytest.approx(one.snips.error)


def test_replay_is_simulate_on_the_same_rows():
    """Of a policy on a uniform log; the order of the rows is the log's."""
    rng = np.random.default_rng(4)
    x, arm = rng.standard_normal(300), rng.integers(3, size=300)
    log = {"arm": arm, "reward": np.where(arm == 0, x, 0.2) + 0.1 * rng.standard_normal(300), "x": x}
    found = adadim.evaluate(adadim.LinUCB(ties="lowest"), log, propensity="uniform", noise=0.1)
    # The order of the rows in replication 0 of a table: undone, so that the table is replayed in the order of the log.
    order = Streams(0, Purpose.CONTEXT, [0]).generators[0].permutation(300)
    back = np.argsort(order)
    ordered = {name: values[back] for name, values in log.items()}
    table = adadim.instances.table(ordered, reward="reward", arm="arm", features=["x"], horizon=300, noise=0.1)
    replayed = adadim.simulate(adadim.LinUCB(ties="lowest"), table)
    assert found.replay.rows == replayed.matched[0]
    assert found.replay.value == pytest.approx(replayed.mean[0], abs=1e-9)


def test_warnings_when_nothing_can_be_said():
    log, _ = next(logs(1, 400))
    with pytest.warns(EvaluationWarning, match=r"effective sample size is \d+ of 60 rows, too few"):
        adadim.evaluate(np.zeros(60, dtype=int), {name: values[:60] for name, values in log.items()})
    wrong = {**log, "propensity": np.full(400, 0.9)}
    with pytest.warns(EvaluationWarning, match=r"weights average 0.\d+ instead of 1"):
        adadim.evaluate(np.zeros(400, dtype=int), wrong)
    clicks = {**log, "reward": (np.arange(400) == np.flatnonzero(log["arm"] == 0)[0]).astype(float)}
    with pytest.warns(EvaluationWarning, match="only 1 of the"):
        found = adadim.evaluate(np.zeros(400, dtype=int), clicks)
    assert len(found.warnings) == 1
    assert "warning: only 1 of the" in str(found)


@pytest.mark.filterwarnings("ignore::adadim.EvaluationWarning")
def test_random_is_judged_by_its_probabilities():
    """On a uniform log every row has weight 1; on another one the weight is that of the definition."""
    rng = np.random.default_rng(0)
    arm, x = rng.integers(3, size=500), rng.standard_normal(500)
    uniform = {"arm": arm, "reward": arm + rng.standard_normal(500), "propensity": np.full(500, 1 / 3), "x": x}
    found = adadim.evaluate(adadim.Random(), uniform)
    assert found.ips.value == found.snips.value == pytest.approx(uniform["reward"][100:].mean(), rel=1e-12)
    assert (found.rows, found.matched, found.replay) == (400, 400, None)
    chances = np.array([0.2, 0.3, 0.5])
    arm = rng.choice(3, p=chances, size=500)
    other = {"arm": arm, "reward": arm + rng.standard_normal(500), "propensity": chances[arm], "x": x}
    weights = 1 / (3 * chances[arm][100:])
    found = adadim.evaluate(adadim.Random(), other)
    assert found.snips.value == pytest.approx((weights * other["reward"][100:]).sum() / weights.sum(), rel=1e-12)


def test_policies_without_features_walk_through_the_arms_of_a_plain_log():
    """UCB, learning from all rows, agrees with its index as the definition has it; MOSS++ learns where it agrees."""
    rng = np.random.default_rng(1)
    arm = np.append([0, 1, 2], rng.integers(3, size=197))
    reward = 0.1 * arm + rng.standard_normal(200)
    log = {"arm": arm, "reward": reward, "x": rng.standard_normal(200)}
    found = adadim.evaluate(adadim.UCB(index="subgaussian"), log, propensity="uniform", warmup=0.1)
    chosen = []
    for n in range(20, 200):
        pulls = np.bincount(arm[:n], minlength=3)
        means = np.bincount(arm[:n], reward[:n], minlength=3) / pulls
        chosen.append(np.argmax(means + reward.std() * np.sqrt(2 * np.log(200**2) / pulls)))
    agree = chosen == arm[20:]
    assert found.matched == agree.sum()
    assert found.snips.value == pytest.approx(reward[20:][agree].mean(), rel=1e-12)
    assert np.isfinite(adadim.evaluate(adadim.MOSSPlusPlus(), log, propensity="uniform").snips.value)


def test_a_policy_the_log_never_agrees_with():
    log = {"arm": [0, 1] * 30, "reward": np.arange(60.0), "propensity": np.full(60, 0.5)}
    found = adadim.evaluate(np.array([1, 0] * 30), log)
    assert (found.matched, found.effective, found.ips.value) == (0, 0.0, 0.0)
    assert np.isnan(found.snips.value)
    assert np.isnan(found.replay.value)
