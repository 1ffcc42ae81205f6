"""A prior for each level of a problem: what it plays, what it says of the levels, and what does not change."""

from dataclasses import replace

import numpy as np
import pytest

import adadim
from adadim import policies
from adadim.core.codec import from_table, to_table
from adadim.core.design import Design
from adadim.models.level_prior import LevelPrior
from adadim.policies.linear.evidence import RECOMMENDED
from agent_runs import learner_of
from refusals import assert_refuses

ONE, EACH = replace(RECOMMENDED, levels="one"), replace(RECOMMENDED, levels="each")
LEVELS = {"price": 2, "text": 8}
THETA = np.r_[1.0, -0.5, np.zeros(6)]


def play(learner, rounds=40, contexts=None, seed=0):
    """Arms chosen; the second of every two rewards comes first."""
    rng, arms, open_decisions = np.random.default_rng(seed), [], []
    base = np.random.default_rng(5).standard_normal((6, 8))
    for t in range(rounds):
        features = None if contexts is None else contexts[t]
        decision = learner.ask() if features is None else learner.ask(features)
        arm = int(decision.arms)
        arms.append(arm)
        x = base[arm] if features is None else features[arm] if features.ndim == 2 else np.roll(features, arm)
        open_decisions.append((decision, float(x @ THETA + 0.1 * rng.standard_normal())))
        if t % 2:
            while open_decisions:
                learner.tell(*open_decisions.pop())
    return arms


def offers(kind):
    rng, base = np.random.default_rng(1), np.random.default_rng(5).standard_normal((6, 8)) / 5
    fixed = {"horizon": 40, "noise": 0.1}
    if kind == "contexts":
        return adadim.Problem(arms=6, dim=8, **fixed), rng.standard_normal((40, 6, 8))
    if kind == "disjoint":
        return adadim.Problem(arms=6, dim=8, disjoint=True, **fixed), rng.standard_normal((40, 8))
    if kind == "arriving":
        return adadim.Problem(base, arrives=[1, 1, 1, 1, 9, 20], **fixed), None
    problem = adadim.Problem(base, **fixed)
    return (problem.to("cpu"), None) if kind == "torch" else (problem, None)


KINDS = ["fixed", "contexts", "disjoint", "arriving", "torch"]


@pytest.mark.parametrize("kind", KINDS)
def test_without_several_levels_nothing_changes(kind):
    problem, contexts = offers(kind)
    expected = play(ONE.start(problem, seed=3), contexts=contexts)
    for levels in (None, [8]):
        assert play(EACH.start(problem.with_levels(levels), seed=3), contexts=contexts) == expected
    assert play(ONE.start(problem.with_levels(LEVELS), seed=3), contexts=contexts) == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("memory", [None, 20.0])
def test_it_plays_what_one_prior_plays_and_goes_on_after_loading(kind, memory, tmp_path):
    problem, contexts = offers(kind)
    problem, policy = problem.with_levels(LEVELS), replace(EACH, memory=memory, probes=0)
    learner = policy.start(problem, seed=3)
    assert isinstance(learner.model.prior, LevelPrior)
    play(learner, 21, contexts)
    learner.save(tmp_path / "learner.npz")
    restored = adadim.load(tmp_path / "learner.npz", problem)
    later = None if contexts is None else contexts[21:]
    assert play(restored, 19, later, seed=1) == play(learner, 19, later, seed=1)
    assert restored.describe() == learner.describe()
    assert list(learner.describe()["levels"]) == ["price", "text"]


def test_a_learner_is_not_loaded_for_other_levels(tmp_path):
    problem = offers("fixed")[0]
    EACH.start(problem.with_levels(LEVELS)).save(tmp_path / "learner.npz")
    with pytest.raises(adadim.AdadimError, match="column_levels"):
        adadim.load(tmp_path / "learner.npz", problem.with_levels([3]))


def test_describe_says_what_each_level_contributes():
    rng = np.random.default_rng(0)
    learner = EACH.start(adadim.Problem(arms=5, dim=8, horizon=400, levels=LEVELS))
    assert learner.describe()["levels_that_matter"] == "no level explains anything so far"
    for _ in range(400):
        offered = rng.standard_normal((5, 8))
        arm = learner.select(offered)
        learner.update(arm, 3.0 + offered[arm] @ THETA + 0.1 * rng.standard_normal())
    described = learner.describe()
    assert [level["matters"] for level in described["levels"].values()] == [True, False]
    assert described["levels"]["price"]["explains"] > 0.9 > 0.05 > described["levels"]["text"]["explains"]
    assert described["levels_that_matter"].endswith("of the variance of the rewards; nothing so far: 'text'")
    found = learner.dimension(LEVELS)
    assert found.contributions["price"] > 0.9
    assert found.contributions["text"] == 0.0
    assert found.levels_that_matter.endswith("nothing so far: 'text'")
    assert learner.dimension().contributions is None
    assert learner.dimension().levels_that_matter is None


def test_the_order_of_a_level_that_is_wrong_is_named():
    rng = np.random.default_rng(0)
    learner = EACH.start(adadim.Problem(arms=5, dim=22, horizon=600, levels={"price": 2, "text": 22}))
    for _ in range(300):
        offered = rng.standard_normal((5, 22))
        arm = learner.select(offered)
        learner.update(arm, offered[arm] @ np.r_[1.0, 0.5, np.zeros(18), 1.0, 1.0] + 0.1 * rng.standard_normal())
    assert learner.describe()["order"].startswith("in 'text' the order of your features says")


def test_where_one_level_hardly_matters_it_loses_less():
    def regret(policy):
        rng, lost = np.random.default_rng(1), 0.0
        theta = np.r_[1.0, -0.7, 0.5, np.zeros(57)]
        learner = policy.start(adadim.Problem(arms=20, dim=60, horizon=300, levels=[3, 60]), seed=1)
        for _ in range(300):
            offered = rng.standard_normal((20, 60))
            arm = learner.select(offered[:, ::-1][:, np.r_[57:60, 0:57]])
            means = offered[:, ::-1][:, np.r_[57:60, 0:57]] @ theta
            learner.update(arm, means[arm] + rng.standard_normal())
            lost += means.max() - means[arm]
        return lost

    assert regret(EACH) < 0.9 * regret(ONE)


def test_the_recommended_policy_follows_the_levels_of_the_problem(tmp_path):
    for levels, expected in [(None, ONE), ([8], ONE), ([3, 8], EACH), ([3], EACH)]:
        problem = adadim.Problem(arms=2, dim=8, horizon=9, levels=levels)
        assert adadim.recommended(problem) == expected
    assert adadim.recommended(adadim.Problem(arms=2, dim=8, horizon=9, levels=[3, 8], disjoint=True)).levels == "one"
    clicks = adadim.Problem(arms=2, dim=8, horizon=9, levels=[3, 8], rewards="bernoulli")
    assert adadim.recommended(clicks) == replace(EACH, likelihood="bernoulli", scale=0.17)
    for name, settings, expected in [
        ("made", {"context": 2, "arm": 3}, "each"),
        ("named", {"dim": 5, "levels": [2, 5]}, "each"),
        ("none", {"dim": 5}, "one"),
        ("arms alone", {"context": 0, "arm": 3, "features": adadim.Features(products=0)}, "one"),
    ]:
        with adadim.Agent.create(tmp_path / f"{name}.db", **settings) as agent:
            assert agent.policy.levels == expected


def test_levels_are_checked():
    for levels, error, reason in [
        ([5, 3], ValueError, "levels must increase"),
        ({"a": 9}, ValueError, "levels must be"),
        ("price", TypeError, "levels must be a dict or a list"),
        ([], ValueError, "levels must name at least one group"),
    ]:
        assert_refuses(error, reason, adadim.Problem, arms=2, dim=8, horizon=9, levels=levels)
        assert_refuses(error, reason, adadim.Problem(arms=2, dim=8, horizon=9).with_levels, levels)
    assert_refuses(ValueError, "levels must be", adadim.EvidenceLinUCB, levels="all")
    problem = adadim.Problem(np.eye(8), horizon=9, levels=LEVELS)
    assert problem.levels == LEVELS
    assert problem.with_levels([4]).levels == {"first 4": 4}
    assert problem.with_levels(None).levels is None


def test_the_columns_that_an_agent_makes_have_the_rank_of_their_arm_feature():
    levels = Design.of(2, 3, adadim.Features(products=2, own=3)).column_levels
    assert dict(levels.ends) == {"arm": 4, "context": 6, "products": 10, "own": 13}
    assert levels.ranks == (1, 1, 2, 3, 1, 2, 1, 2, 1, 2, 1, 1, 1)


def made(path, rewards, **settings):
    """An agent after 60 decisions, the rewards told in this order."""
    rng = np.random.default_rng(2)
    agent = adadim.Agent.create(path, context=2, arm=3, seed=1, **settings)
    agent.set_arms({f"article {k}": x for k, x in enumerate(rng.standard_normal((5, 3)))})
    ids = [decision.id for decision in agent.ask_many(rng.standard_normal((60, 2)))]
    values = dict(zip(ids, rng.standard_normal(60).tolist(), strict=True))
    for number in ids if rewards == "in order" else ids[::-1]:
        agent.tell(number, values[number])
    return agent


def test_an_agent_s_levels_are_a_function_of_its_log(tmp_path):
    visitor = np.array([0.3, -0.2])
    with made(tmp_path / "a.db", "in order", policy=EACH) as one, made(tmp_path / "b.db", "late", policy=EACH) as other:
        assert isinstance(learner_of(one).model.prior, LevelPrior)
        estimates = [agent.estimate(context=visitor) for agent in (one, other)]
        expected = one.describe()
    np.testing.assert_allclose(*([list(each) for each in one.values()] for one in estimates), rtol=1e-9)
    with adadim.Agent.open(tmp_path / "a.db") as again:
        assert again.describe() == expected
        assert list(expected["learner"]["levels"]) == ["arm", "context", "products"]
        assert expected["levels_that_matter"] == again.dimension().levels_that_matter
        again.replace_features(arm=4)
        again.ask(context=visitor)
        assert again.levels == {"arm": 5, "context": 7, "products": 15}
        assert learner_of(again).model.prior.levels.ranks == (1, 1, 2, 3, 4, 1, 2, 1, 2, 3, 4, 1, 2, 3, 4)


def test_a_policy_that_was_written_without_levels_has_one_prior():
    table = to_table(RECOMMENDED)
    table.pop("levels", None)
    assert from_table(table, policies.kinds()) == ONE


@pytest.mark.parametrize("kind", ["fixed", "contexts", "disjoint"])
def test_clicks_have_a_prior_for_each_level_too(kind):
    problem, contexts = offers(kind)
    learner = replace(EACH, likelihood="bernoulli").start(problem.with_levels(LEVELS), seed=3)
    rng = np.random.default_rng(0)
    for t in range(40):
        arm = learner.select() if contexts is None else learner.select(contexts[t])
        learner.update(arm, float(rng.random() < 0.5))
    assert list(learner.describe()["levels"]) == ["price", "text"]
