"""Agents whose rewards are clicks: what is accepted, what is estimated, and that the model is a function of the log."""

from __future__ import annotations

import math
import sqlite3

import numpy as np
import pytest
from scipy.special import expit

import adadim
from adadim.agent import kept, tables
from adadim.agent.reading import Reader
from adadim.cli.serve import NewAgent
from adadim.models.likelihoods import Trials, last_due
from adadim.models.priors import CONSTANT_WIDTH
from adadim.serve.page import model_overview
from agent_runs import decider_of, learner_of, model_of
from logistic_maps import reference_map

ARTICLES = {f"a{i}": row for i, row in enumerate(np.random.default_rng(5).standard_normal((6, 3)))}


def probability(name, context):
    return float(expit(-1.2 + ARTICLES[name] @ [1.0, -0.5, 0.2] + 0.6 * ARTICLES[name][0] * context[0]))


@pytest.fixture
def make(tmp_path):
    """Makes an agent of clicks over six articles, by the name of its file."""
    agents = []

    def made(name="page", **settings):
        agent = adadim.Agent.create(
            tmp_path / f"{name}.db", context=2, arm=3, **{"rewards": "bernoulli", "seed": 3} | settings
        )
        agent.set_arms(ARTICLES)
        agents.append(agent)
        return agent

    yield made
    for agent in agents:
        agent.close()


def play(agent, rounds, rng, late=7):
    """Ask and tell, each reward `late` decisions later; gives decisions that are still open, with their rewards."""
    waiting = []
    for _ in range(rounds):
        context = rng.standard_normal(2)
        decision = agent.ask(context=context)
        waiting.append((decision.id, bool(rng.random() < probability(decision.arm, context))))
        if len(waiting) > late:
            agent.tell(*waiting.pop(0))
    return waiting


def estimates(agent):
    return np.array(list(agent.estimate(context=[0.3, -0.2]).values()))


def test_the_default_policy_follows_the_rewards(make):
    assert make().policy.likelihood == "bernoulli"
    assert make("other", rewards="gaussian").policy.likelihood == "gaussian"


def test_it_learns_which_articles_are_clicked(make):
    agent, rng = make(), np.random.default_rng(0)
    play(agent, 500, rng)
    best, earned = [], []
    for _ in range(100):
        context = rng.standard_normal(2)
        chances = {name: probability(name, context) for name in ARTICLES}
        earned.append(chances[agent.ask(context=context).arm])
        best.append(max(chances.values()))
    assert np.mean(earned) > 0.85 * np.mean(best)
    assert agent.describe()["learner"]["likelihood"] == "bernoulli"


def test_estimates_are_probabilities_with_intervals_inside_0_and_1(make):
    agent, rng = make(), np.random.default_rng(1)
    for _ in range(2):
        means, deviations = estimates(agent).T
        assert ((means - 2 * deviations >= 0) & (means + 2 * deviations <= 1)).all()
        play(agent, 400, rng)
    true = [probability(name, [0.3, -0.2]) for name in ARTICLES]
    assert np.abs(estimates(agent)[:, 0] - true).max() < 0.25


@pytest.mark.parametrize("reward", [-1, 1.01, 2.0, math.nan, "1", None])
def test_other_rewards_are_refused_by_name(make, reward):
    agent = make()
    decision, slate = agent.ask(context=[0, 0]), agent.ask(context=[0, 0], slots=2)
    with pytest.raises(adadim.InvalidValueError, match="reward of decision 1 must be"):
        agent.tell(decision, reward)
    with pytest.raises(adadim.InvalidValueError, match=f"reward of '{slate.arms[0]}' in slate 2 must be"):
        agent.tell(slate, {slate.arms[0]: reward})
    agent.tell(decision, 0.5)
    with pytest.raises(adadim.InvalidValueError, match="reward must be"):
        agent.correct(decision, reward)
    assert agent.status()["rewards"] == 1


def test_a_log_with_other_rewards_is_refused(make):
    with pytest.raises(adadim.InvalidValueError, match="reward of row 2 must be 0, 1 or a share"):
        make().learn((np.ones((2, 12)), np.array([1.0, 3.0])))


def test_expired_rewards_are_checked_too(tmp_path):
    with pytest.raises(adadim.InvalidValueError, match=r"expired_reward must be .*\[0, 1\]"):
        adadim.Agent.create(tmp_path / "a.db", dim=1, rewards="bernoulli", expire_after=1.0, expired_reward=-1.0)
    with pytest.raises(adadim.InvalidValueError, match="rewards must be 'gaussian' or 'bernoulli', got 'clicks'"):
        adadim.Agent.create(tmp_path / "a.db", dim=1, rewards="clicks")


def test_a_policy_of_the_other_likelihood_is_refused(make, tmp_path):
    agent = make()
    with pytest.raises(adadim.InvalidValueError, match=r"this agent's rewards are 'bernoulli': use one that has it"):
        agent.replace_policy(adadim.LinUCB(radius=1.0))
    agent.replace_policy(adadim.LinUCB(radius=1.0, likelihood="bernoulli"))
    with pytest.raises(adadim.InvalidValueError, match="create the agent with rewards='bernoulli'"):
        adadim.Agent.create(tmp_path / "b.db", dim=1, policy=adadim.EvidenceLinUCB(likelihood="bernoulli"))


@pytest.mark.parametrize(
    "policy",
    [
        adadim.LinUCB(likelihood="bernoulli"),
        adadim.LinTS(likelihood="bernoulli"),
        adadim.Greedy(likelihood="bernoulli"),
        adadim.TaperedLinUCB(likelihood="bernoulli"),
        adadim.Random(),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_other_policies_play(make, policy):
    agent = make(policy=policy)  # which need not be told the noise
    play(agent, 30, np.random.default_rng(2))
    assert agent.ask(context=[0, 0], slots=3).arms
    assert ((estimates(agent)[:, 0] > 0) & (estimates(agent)[:, 0] < 1)).all()


def told_in_order(make, name, order, count=41, **settings):
    """An agent whose `count` decisions are answered in an order, after all of them were made."""
    agent, rng = make(name, **settings), np.random.default_rng(4)
    waiting = play(agent, count, rng, late=count)
    for at in order(count):
        agent.tell(*waiting[at])
    return agent


@pytest.mark.parametrize("memory", [None, 60.0])
def test_late_rewards_in_any_order_give_the_same_model_right_after_a_fit(make, memory):
    forward = told_in_order(make, "one", range, memory=memory)
    backward = told_in_order(make, "two", lambda count: range(count - 1, -1, -1), memory=memory)
    assert last_due(41) == 41
    assert estimates(forward) == pytest.approx(estimates(backward), abs=1e-9)


@pytest.mark.parametrize("memory", [None, 60.0])
@pytest.mark.parametrize("count", [41, 50])
def test_the_model_is_a_function_of_the_log(make, tmp_path, memory, count):
    """After a restart, added up anew, and for another reader who reads all at once."""
    agent = told_in_order(make, "one", range, count, memory=memory)
    before, path = estimates(agent), tmp_path / "one.db"
    with adadim.Agent.open(path) as other:
        assert estimates(other) == pytest.approx(before, abs=1e-10)
    agent.close()
    with adadim.Agent.open(path) as again:
        assert estimates(again) == pytest.approx(before, abs=1e-10)
        assert again.rebuild() < 1e-9
        assert estimates(again) == pytest.approx(before, abs=1e-10)


@pytest.mark.in_a_file
@pytest.mark.parametrize("memory", [None, 60.0])
def test_a_lost_snapshot_changes_nothing(make, tmp_path, memory):
    agent = told_in_order(make, "one", range, 50, memory=memory)
    before = estimates(agent)
    agent.close()
    with sqlite3.connect(tmp_path / "one.db") as database:
        database.execute("DELETE FROM snapshot")
    database.close()
    with adadim.Agent.open(tmp_path / "one.db") as anew:
        assert estimates(anew) == pytest.approx(before, abs=1e-10)


def test_the_estimate_is_the_map_right_after_a_fit(make):
    agent = told_in_order(make, "one", range, 62)
    described, levels = agent.describe()["learner"]["levels"], decider_of(agent).problem.column_levels
    assert model_of(agent).sums.fitted[0] == 62
    features, rewards = [], []
    for entries in model_of(agent).reader.entries("rewards"):
        features.append(entries.features)
        rewards.append(entries.rewards)
    trials = Trials(np.concatenate(features), np.concatenate(rewards), np.ones(62))
    model = learner_of(agent).model
    precision = np.r_[1 / CONSTANT_WIDTH**2, np.zeros(12)]
    for name, part in levels.slices.items():
        precision[1:][part] = described[name]["ridge"] * levels.rank_array[part] ** described[name]["taper"]
    found = reference_map(trials, precision, float(model.offset[0]))
    logit = found[0] + trials.features @ found[1:]
    means, _ = decider_of(agent).estimates(trials.features, 63)
    assert means == pytest.approx(expit(logit), abs=1e-6)


def prior_of(agent, ridge):
    """Precision and centre of the prior by which the agent has just estimated; `ridge` where the data choose none."""
    learner, levels = learner_of(agent), decider_of(agent).problem.column_levels
    precision = np.r_[1 / CONSTANT_WIDTH**2, np.full(levels.dim, ridge)]
    for name, chosen in learner.describe().get("levels", {}).items():
        part = levels.slices[name]
        precision[1:][part] = chosen["ridge"] * levels.rank_array[part] ** chosen["taper"]
    return precision, float(learner.model.offset[0])


@pytest.mark.parametrize(
    ("policy", "later"),
    [
        (adadim.EvidenceLinUCB(likelihood="bernoulli", levels="each"), None),
        (adadim.EvidenceLinUCB(likelihood="bernoulli", levels="each"), adadim.LinTS(likelihood="bernoulli", ridge=3.0)),
        (adadim.LinUCB(likelihood="bernoulli", ridge=3.0), None),
        (
            adadim.LinUCB(likelihood="bernoulli", ridge=3.0),
            adadim.EvidenceLinUCB(likelihood="bernoulli", levels="each"),
        ),
    ],
    ids=["levels", "levels, then a ridge", "ridge", "ridge, then levels"],
)
def test_the_estimate_is_the_map_under_the_prior_of_the_policy_in_force(tmp_path, policy, later):
    rng = np.random.default_rng(8)
    x, levels = rng.standard_normal((62, 6)), {"price": 2, "text": 6}
    clicks = (rng.random(62) < expit(x[:, 0] - 0.7 * x[:, 3])).astype(float)
    path = tmp_path / "a.db"
    with adadim.Agent.create(path, dim=6, levels=levels, rewards="bernoulli", policy=policy, memory=None) as agent:
        agent.learn((x, clicks))
        if later is not None:
            agent.estimate({"a": x[0]})
            agent.replace_policy(later)
        arms = {str(at): row for at, row in enumerate(x)}
        means = np.array([mean for mean, _ in agent.estimate(arms).values()])
        found = reference_map(Trials(x, clicks, np.ones(62)), *prior_of(agent, ridge=3.0))
        assert means == pytest.approx(expit(found[0] + x @ found[1:]), abs=1e-6)
        with adadim.Agent.open(path) as other:
            again = np.array([mean for mean, _ in other.estimate(arms).values()])
            assert again == pytest.approx(means, abs=1e-10)


@pytest.mark.any_store
@pytest.mark.parametrize("room", [0, 50 * 12 * 8, 170 * 12 * 8])
def test_a_fit_reads_again_what_it_does_not_keep(make, monkeypatch, room):
    """The point does not depend on how many features are kept in memory from one pass to the next."""
    whole = told_in_order(make, "one", range, 141)
    expected = estimates(whole)
    reads = []

    def counted(reader, kind, since=0, upto=2**62):
        for entries in entries_of(reader, kind, since, upto):
            if kind == "rewards":
                reads.append(entries.last)
            yield entries

    entries_of = Reader.entries
    monkeypatch.setattr(Reader, "entries", counted)
    monkeypatch.setattr(tables, "BATCH_ROWS", 50)
    monkeypatch.setattr(kept, "KEPT_BYTES", room)
    model_of(whole).rebuild()
    assert estimates(whole) == pytest.approx(expected, abs=1e-9)
    first, last = reads.count(reads[0]), reads.count(reads[-1])
    assert first > 3 if room == 0 else first <= 2  # once for the bank, and once for all passes of the fit
    assert last <= 2 if room == 170 * 12 * 8 else last > 3


def test_a_fit_for_another_prior_after_compaction_is_the_same_in_every_process(make, tmp_path):
    agent = told_in_order(make, "one", range, 41)
    agent.compact(before=2e9)
    due = model_of(agent).sums.schedule.told.due
    for at, (id, _) in enumerate(play(agent, 5, np.random.default_rng(9), late=5)):
        if at == 2:
            agent.replace_policy(adadim.LinTS(likelihood="bernoulli", ridge=3.0))
            estimates(agent)
        agent.tell(id, False)
    before = estimates(agent)
    with adadim.Agent.open(tmp_path / "one.db") as other:
        other.rebuild()
        assert estimates(other) == pytest.approx(before, abs=1e-10)
        assert model_of(other).sums.schedule.told.due == due  # the prior alone made a fit due


def test_corrections_are_as_if_only_they_had_been_told(make):
    agent, other = (told_in_order(make, name, range, 41) for name in ("one", "two"))
    first = {3: 1.0, 9: 0.0, 30: 1.0}
    for id, reward in first.items():
        agent.correct(id, reward)
    for id, reward in {3: 0.25, **first}.items():
        other.correct(id, 0.75)
        other.correct(id, reward)
    assert estimates(agent) == pytest.approx(estimates(other), abs=1e-9)


def test_compaction_leaves_the_model_as_it_is_and_later_fits_use_its_sums(make, tmp_path):
    agent, rng = told_in_order(make, "one", range, 50), np.random.default_rng(6)
    whole = told_in_order(make, "two", range, 50)
    before = estimates(agent)
    agent.compact(before=2e9)
    assert estimates(agent) == pytest.approx(before, abs=1e-9)
    agent.close()
    with adadim.Agent.open(tmp_path / "one.db") as agent:
        assert estimates(agent) == pytest.approx(before, abs=1e-9)
        for one, generator in ((agent, rng), (whole, np.random.default_rng(6))):
            for id, reward in play(one, 60, generator, late=60):
                one.tell(id, reward)
        # The compacted half is known by its expansion alone: near to what all rewards say, and not the same.
        assert estimates(agent)[:, 0] == pytest.approx(estimates(whole)[:, 0], abs=0.1)
        assert model_of(agent).sums.fitted[0] == model_of(whole).sums.fitted[0] == 93


def test_features_that_are_appended_count_0_before(make):
    agent = told_in_order(make, "one", range, 50)
    before = agent.estimate(context=[0.3, -0.2])
    agent.replace_features(context=3)
    after = agent.estimate(context=[0.3, -0.2, 0.0])
    assert [mean for mean, _ in after.values()] == pytest.approx([mean for mean, _ in before.values()], abs=0.02)
    agent.ask(context=[0.1, 0.2, 0.3])


def test_costs_are_in_units_of_probability(tmp_path):
    with adadim.Agent.create(
        tmp_path / "a.db", dim=2, rewards="bernoulli", policy=adadim.Greedy(likelihood="bernoulli", ridge=1e-6)
    ) as agent:
        agent.learn((np.repeat(np.eye(2), 1000, axis=0), np.repeat([0.5, 0.2], 1000)))
        arms = {"dear": [1.0, 0.0], "cheap": [0.0, 1.0]}
        assert agent.ask(arms, costs={"dear": 0.25}).arm == "dear"  # 0.5 - 0.25 is more than 0.2
        assert agent.ask(arms, costs={"dear": 0.35}).arm == "cheap"
        assert [one.arm for one in agent.ask_many([None] * 2, arms, costs={"dear": 0.35})] == ["cheap", "cheap"]


# Rare clicks


@pytest.fixture
def shop(tmp_path):
    """Makes an agent of clicks whose arms have a feature each, with this many pulls of each and these rewards."""
    agents = []

    def made(pulls, rewards=0.0):
        agent = adadim.Agent.create(tmp_path / f"shop{len(agents)}.db", dim=len(pulls), rewards="bernoulli", seed=1)
        agents.append(agent)
        arms = {name: list(row) for name, row in zip("abcdef", np.eye(len(pulls)), strict=False)}
        x = np.random.default_rng(0).permutation(np.repeat(np.eye(len(pulls)), pulls, axis=0))
        if len(x):
            agent.learn((x, np.broadcast_to(np.asarray(rewards, dtype=float), len(x)).copy()))
        return agent, arms

    yield made
    for agent in agents:
        agent.close()


def asked(agent, arms, rounds, clicked):
    """Ask and tell at once; gives how often each arm was asked."""
    counts = dict.fromkeys(arms, 0)
    for _ in range(rounds):
        decision = agent.ask(arms)
        counts[decision.arm] += 1
        agent.tell(decision, clicked(decision.arm))
    return counts


def are_probabilities(estimates):
    return all(0 < p < 1 and 0 < s < 0.5 and p - 2 * s >= 0 and p + 2 * s <= 1 for p, s in estimates.values())


@pytest.mark.any_store
@pytest.mark.parametrize("told", [True, False])
def test_without_a_click_the_widest_arm_is_asked_until_its_pulls_have_caught_up(shop, told):
    """All means are alike, so that widths alone decide: an arm may well be asked many times in a row, but not on."""
    agent, arms = shop([3340, 3300, 3360])
    counts, first = np.array([3340.0, 3300.0, 3360.0]), []
    rate = 0.5 / (last_due(10_000) + 1)  # at the last fit
    precision = np.diag(np.r_[1 / CONSTANT_WIDTH**2, 1e-4 * np.arange(1, 4) ** 1.75])  # the widest prior there is
    x = np.column_stack([np.ones(3), np.eye(3)])
    for _ in range(100):
        widths = np.diag(x @ np.linalg.solve(precision + rate * (1 - rate) * (x.T * counts) @ x, x.T))
        decision = agent.ask(arms)
        at = "abc".index(decision.arm)
        assert widths[at] >= widths.max() * (1 - 1e-7)
        counts[at] += 1
        first.append(at)
        if told:
            agent.tell(decision, False)
    assert set(first[:30]) == {1}
    assert set(first[-10:]) == {0, 1, 2}
    estimates = agent.estimate(arms)
    assert are_probabilities(estimates)
    assert max(p for p, _ in estimates.values()) < 1e-3


@pytest.mark.any_store
def test_no_click_from_the_start_explores_evenly(shop):
    agent, arms = shop([0, 0, 0, 0])
    counts = asked(agent, arms, 120, lambda _: False)
    assert max(counts.values()) - min(counts.values()) <= 2
    assert are_probabilities(agent.estimate(arms))


@pytest.mark.any_store
def test_the_first_clicks_after_thousands_without_one_are_not_blown_up(shop):
    """2 or 3 clicks in 3,300 pulls of an arm are a rate of about 1 in 1,000, not a certainty."""
    agent, arms = shop([3340, 3310, 3350])
    for clicks in range(1, 6):
        agent.tell(agent.ask({"b": arms["b"]}), True)
        estimates = agent.estimate(arms)
        assert are_probabilities(estimates)
        assert estimates["b"][0] < 3 * clicks / 3310
        agent.tell(agent.ask(arms), False)
    assert estimates["b"][0] > max(estimates["a"][0], estimates["c"][0])


@pytest.mark.any_store
def test_clicks_of_1_in_10_000_are_learned(shop):
    rewards = np.zeros(40_000)
    rewards[[900, 11_000, 21_500, 39_000]] = 1.0
    agent, arms = shop([10_010, 9_980, 10_000, 10_010], rewards)
    estimates = agent.estimate(arms)
    assert are_probabilities(estimates)
    assert max(p for p, _ in estimates.values()) < 1e-3
    assert min(p for p, _ in estimates.values()) > 1e-6
    assert sum(asked(agent, arms, 40, lambda _: False).values()) == 40
    assert are_probabilities(agent.estimate(arms))


@pytest.mark.any_store
def test_clicks_that_a_feature_separates_perfectly_are_learned(tmp_path):
    rng = np.random.default_rng(2)
    with adadim.Agent.create(tmp_path / "a.db", dim=3, rewards="bernoulli", seed=1) as agent:
        x = rng.standard_normal((400, 3))
        agent.learn((x, (x[:, 0] > 0).astype(float)))
        arms = {"good": [1.0, 0.0, 0.0], "bad": [-1.0, 0.0, 0.0], "far": [-50.0, 0.0, 0.0]}
        estimates = agent.estimate(arms)
        assert estimates["good"][0] > 0.95 > 0.05 > estimates["bad"][0]
        assert all(math.isfinite(value) for pair in estimates.values() for value in pair)
        assert asked(agent, arms, 60, lambda arm: arm == "good")["good"] > 50
        assert all(math.isfinite(value) for pair in agent.estimate(arms).values() for value in pair)


@pytest.mark.any_store
def test_one_arm_that_has_all_clicks_is_found(shop):
    agent, arms = shop([0, 0, 0, 0])
    counts = asked(agent, arms, 100, lambda arm: arm == "c")
    assert counts["c"] > 70
    assert min(counts.values()) >= 1
    estimates = agent.estimate(arms)
    assert estimates["c"][0] > 0.9
    assert max(estimates[name][0] for name in "abd") < 0.5
    # And where it stops, others are asked again.
    assert asked(agent, arms, 300, lambda _: False)["c"] < 280
    assert are_probabilities(agent.estimate(arms))


def test_the_dimension_is_that_of_the_logits(make):
    agent, rng = make(), np.random.default_rng(3)
    x = rng.standard_normal((3000, 12))
    agent.learn((x, (rng.random(3000) < expit(-1 + 1.5 * x[:, 0])).astype(float)))
    assert agent.dimension().probabilities[0] > 0.9


@pytest.mark.in_a_file
def test_files_without_the_setting_open_as_before(make, tmp_path):
    """A file of an agent that was created without `rewards` has no such setting, and its rewards are numbers."""
    agent = make("old", rewards="gaussian")
    agent.tell(agent.ask(context=[0, 0]), 17.5)
    agent.close()
    with sqlite3.connect(tmp_path / "old.db") as database:
        keys = {key for (key,) in database.execute("SELECT key FROM settings")}
    database.close()
    assert "rewards" not in keys
    with adadim.Agent.open(tmp_path / "old.db") as agent:
        agent.tell(agent.ask(context=[0, 0]), -3)
        assert agent.policy.likelihood == "gaussian"


@pytest.mark.parametrize(
    ("rewards", "hinted"),
    [
        ([0, 1] * 10, True),
        ([0, 1] * 9, False),
        ([0, 1, 0.5] * 10, False),
        ([1] * 30, False),
        ([0, 1, 2, -1] * 9, False),
    ],
)
def test_an_agent_that_was_not_told_of_clicks_says_what_to_type(make, rewards, hinted):
    agent = make(rewards="gaussian")
    agent.learn((np.random.default_rng(0).standard_normal((len(rewards), 12)), np.array(rewards, dtype=float)))
    hint = agent.describe().get("hint", "")
    assert ('rewards="bernoulli"' in hint) == hinted
    assert (model_overview(agent, None, np.empty((0, 2)))["about"].count('rewards="bernoulli"') == 1) == hinted


def test_an_agent_of_clicks_has_no_hint_to_give(make):
    agent = make()
    agent.learn((np.ones((40, 12)), np.array([0.0, 1.0] * 20)))
    assert "hint" not in agent.describe()
    assert "hint" not in model_overview(agent, None, np.empty((0, 2)))["about"]


def test_the_noise_of_clicks_is_known_to_a_certificate(make):
    agent = make()
    play(agent, 20, np.random.default_rng(1))
    assert agent.certificate().regret_at_most > 0


@pytest.mark.in_a_file
def test_the_service_makes_agents_of_clicks(tmp_path):
    NewAgent(dim=2, rewards="bernoulli").make(tmp_path / "a.db")
    with adadim.Agent.open(tmp_path / "a.db") as agent:
        assert agent.policy.likelihood == "bernoulli"
