"""What an agent exports can be judged as it is."""

import numpy as np
import polars as pl
import pytest

import adadim
from adadim.errors import EvaluationWarning
from adadim.play.logs import read_log


def test_the_export_of_a_random_agent(tmp_path):
    rng = np.random.default_rng(0)
    theta, told = np.array([0.1, 0.2, 0.5, 0.0]), []
    agent = adadim.Agent.create(tmp_path / "shop.db", dim=4, policy=adadim.Random())
    for i in range(300):
        arms = {f"sku-{j}": rng.standard_normal(2).tolist() for j in range(int(rng.integers(2, 4)))}
        context = [1.0, float(rng.standard_normal())]
        decision = agent.ask(arms, context=context)
        if i % 10:  # some rewards never come
            x = np.array([*context, *arms[decision.arm]])
            told.append((x, len(arms), float(x @ theta + 0.1 * rng.standard_normal())))
            agent.tell(decision.id, reward=told[-1][2])
    agent.export(tmp_path / "log.parquet")
    agent.close()
    log = read_log(tmp_path / "log.parquet")
    assert len(log) == len(told) == 270
    assert log.uniform
    for row, (x, arms, reward) in enumerate(told):
        (offer,) = log.offers(row, row + 1)
        np.testing.assert_array_equal(offer[log.chosen[row]], x)
        assert (log.rewards[row], log.sizes[row]) == (reward, arms)
    found = adadim.evaluate(adadim.recommended, log)
    assert found.dr.low > found.logged.high
    at_random = adadim.evaluate(adadim.Random(), log)
    assert at_random.ips.value == at_random.snips.value == log.rewards[54:].mean()
    with pytest.raises(ValueError, match="knows arms by their number"):
        adadim.evaluate(adadim.UCB(), log)


def shop(path, visitors, explore, policy=None, seed=0, **options):
    """An agent that sold to many visitors, one by one, and what it should earn by each arm: chances (n, K)."""
    rng = np.random.default_rng(seed)
    articles = {f"sku-{k}": x for k, x in enumerate(rng.uniform(size=(4, 2)))}
    contexts = np.column_stack([rng.integers(2, size=visitors), rng.uniform(size=visitors)]).astype(float)
    agent = adadim.Agent.create(
        path,
        context=["returning", "hour"],
        arm=["price", "rating"],
        policy=policy,
        explore=explore,
        seed=seed,
        **options,
    )
    agent.set_arms(articles)
    prices, ratings = np.array(list(articles.values())).T
    chances = 0.35 + 0.5 * contexts[:, :1] * (ratings - 0.5) + 0.4 * (contexts[:, :1] - 0.6) * prices
    clicks = rng.random(chances.shape) < chances
    for context, row in zip(contexts, clicks, strict=True):
        decision = agent.ask(context=context)
        agent.tell(decision.id, bool(row[list(articles).index(decision.arm)]))
    return agent, chances


def test_the_value_of_an_agents_own_policy_is_what_it_earned(tmp_path):
    agent, _ = shop(tmp_path / "shop.db", 600, explore=0.2, policy=adadim.Greedy())
    agent.export(tmp_path / "log.parquet")
    found = adadim.evaluate(adadim.Greedy(), tmp_path / "log.parquet")
    assert found.warnings == ()
    # The policy makes the same choices again: it is judged by the rows that did not explore, which weigh alike.
    log = pl.read_parquet(tmp_path / "log.parquet")[120:]
    own = log.filter(pl.col("probability") > 0.5)
    assert (found.rows, found.matched) == (480, len(own))
    assert found.snips.value == pytest.approx(own["reward"].mean(), abs=1e-12)
    assert abs(found.mean_weight - 1) < 4 * np.sqrt(0.15 / 0.85 / 480)
    # What was earned in all rows is the value of the mixture of this policy with random choices.
    mixed = 0.8 * found.ips.value + 0.2 * adadim.evaluate(np.full((600, 4), 1 / 4), tmp_path / "log.parquet").ips.value
    assert abs(mixed - found.logged.value) < 4 * found.ips.error


def test_values_of_other_policies_agree_with_the_truth(tmp_path):
    deviations = []
    for seed in range(6):
        agent, chances = shop(tmp_path / f"{seed}.db", 500, explore=0.5, seed=seed)
        agent.export(tmp_path / "log.parquet")
        best = np.zeros_like(chances)
        best[np.arange(500), chances.argmax(axis=1)] = 1.0
        for rule in (best, np.full((500, 4), 1 / 4), np.eye(4)[np.arange(500) % 4]):
            found, truth = adadim.evaluate(rule, tmp_path / "log.parquet"), (rule * chances).sum(axis=1).mean()
            assert found.dr.error < 0.08
            for estimate in (found.ips, found.snips, found.dr):
                deviations.append((estimate.value - truth) / estimate.error)
    assert np.abs(deviations).max() < 4.0
    assert abs(np.mean(deviations)) < 4 / np.sqrt(len(deviations) / 9)  # those of one log depend on each other
    assert 0.6 < np.sqrt(np.mean(np.square(deviations))) < 1.5


def test_the_slots_of_slates_have_the_probabilities_that_they_need(tmp_path):
    agent = adadim.Agent.create(tmp_path / "page.db", dim=2, policy=adadim.Greedy(), explore=0.4)
    rng = np.random.default_rng(0)
    arms = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [0.5, 0.5], "d": [0.2, 0.1]}
    means = {"a": 0.7, "b": 0.3, "c": 0.5, "d": 0.2}
    for _ in range(500):
        slate = agent.ask(arms, slots=2)
        agent.tell(slate.id, {arm: bool(rng.random() < means[arm]) for arm in slate.arms})
    agent.export(tmp_path / "page.parquet")
    log = pl.read_parquet(tmp_path / "page.parquet")
    uniform = np.array([[1 / len(names) if k < len(names) else 0.0 for k in range(4)] for names in log["offered"]])
    truth = np.mean([np.mean([means[arm] for arm in names]) for names in log["offered"]])
    found = adadim.evaluate(uniform, tmp_path / "page.parquet")
    assert found.warnings == ()
    assert abs(found.snips.value - truth) < 4 * found.snips.error < 0.2


@pytest.mark.filterwarnings("ignore:the effective sample size")
def test_a_log_in_which_no_other_arm_had_a_chance_names_explore(tmp_path):
    agent, _ = shop(tmp_path / "shop.db", 150, explore=0.0)
    agent.export(tmp_path / "log.parquet")
    message = (
        "all 120 choices of the log had probability 1, so it says nothing about other arms; let a share of the "
        r"decisions explore, Agent.create\(..., explore=0.02\)"
    )
    with pytest.warns(EvaluationWarning, match=message) as caught:
        found = adadim.evaluate(adadim.LinUCB(), tmp_path / "log.parquet")
    assert not any("are wrong" in str(one.message) for one in caught)
    assert found.warnings[-1] in str(found)
    # Some ties at the beginning, where arms were equally likely, do not hide it.
    most = r"weights average 0.\d+ instead of 1: 14\d of 150 choices of the log had probability 1, so other arms had no"
    with pytest.warns(EvaluationWarning, match=most):
        adadim.evaluate(np.zeros(150, dtype=int), with_ties(tmp_path / "log.parquet"))


def with_ties(path):
    log = pl.read_parquet(path)
    return log.with_columns(probability=pl.when(pl.col("decision") <= 4).then(0.5).otherwise(pl.col("probability")))


def test_where_only_one_arm_was_offered_nothing_was_kept_from_chance(tmp_path):
    agent = adadim.Agent.create(tmp_path / "a.db", dim=1)
    rng = np.random.default_rng(0)
    for decision in agent.ask_many([None] * 100, {"only": [1.0]}):
        agent.tell(decision.id, bool(rng.random() < 0.4))
    agent.export(tmp_path / "log.parquet")
    assert adadim.evaluate(adadim.Greedy(), tmp_path / "log.parquet").warnings == ()
