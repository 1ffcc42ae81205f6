"""An agent that makes its features: of a context and of arms, by a description that is data."""

import dataclasses
import sqlite3
import zlib

import numpy as np
import polars as pl
import pytest

import adadim
from adadim import Agent, Features, FileError
from adadim.agent import sqlite
from adadim.agent.log import PolicyRow
from adadim.play.logs import read_log
from agent_runs import Hands, decider_of, failing_writes, log_of, numbers, scores_of, written
from refusals import assert_refuses

CONTEXT, ARM = 3, 4
CATALOGUE = {f"sku {k}": row for k, row in enumerate(np.random.default_rng(8).normal(size=(6, ARM)).round(3))}
KINDS = [
    Features(),
    Features(products=2, own=5),
    Features(constant=False, context=False, own=3),
    Features(arm=False, context=False),
    Features(products=0),
]


def by_hand(features, arm, context, name):
    """One row of features, written out."""
    row = [1.0] if features.constant else []
    row += list(arm) if features.arm else []
    row += list(context) if features.context else []
    for number in context:
        row += [number * value for value in (arm if features.products is None else arm[: features.products])]
    own = [0.0] * features.own
    if features.own:
        own[zlib.crc32(name.encode()) % features.own] = 1.0
    return np.array(row + own)


def contexts(count, seed=0, size=CONTEXT):
    return np.random.default_rng(seed).normal(size=(count, size))


def create(path, features=None, arms=CATALOGUE, context=CONTEXT, **options):
    agent = Agent.create(path, context=context, arm=len(arms["sku 0"]), features=features, **options)
    agent.set_arms(arms)
    return agent


def exported(agent, folder):
    return pl.read_parquet(agent.export(folder / "log.parquet"))


@pytest.mark.parametrize("features", KINDS, ids=str)
def test_features_and_columns_are_those_made_by_hand(tmp_path, features):
    agent = create(tmp_path / "a.db", features)
    made = []
    for context in contexts(15):
        arm = agent.ask(context=context).arm
        made.append(by_hand(features, CATALOGUE[arm], context, arm))
    assert np.array_equal(exported(agent, tmp_path)["features"].to_list(), made)
    assert agent.dim == len(made[0]) == len(agent.columns)
    assert agent.features == features
    assert list(agent.levels.values())[-1] == agent.dim


def test_columns_and_levels_have_names(tmp_path):
    features = Features(products=1, own=2)
    agent = Agent.create(tmp_path / "a.db", context=["hour", "new"], arm=["price", "size"], features=features)
    columns = ["constant", "price", "size", "hour", "new", "price x hour", "price x new", "own 1", "own 2"]
    assert agent.columns == columns
    assert agent.levels == {"arm": 3, "context": 5, "products": 7, "own": 9}
    agent.set_arms({"a": {"size": 2.0, "price": 1.0}, "b": [3.0, 4.0]})
    assert agent.arms["a"].features.tolist() == [1.0, 2.0]
    twice = [agent.estimate(context={"new": 1.0, "hour": 0.5}), agent.estimate(context=[0.5, 1.0])]
    assert twice[0] == twice[1]
    assert agent.ask(context={"new": 1.0, "hour": 0.5}).arm in "ab"
    agent.close()
    with Agent.open(tmp_path / "a.db") as again:
        assert (again.columns, again.features) == (columns, features)
    plain = Agent.create(tmp_path / "b.db", dim=2, levels={"all": 2})
    assert (plain.columns, plain.features, plain.levels) == (None, None, {"all": 2})
    mine = Agent.create(tmp_path / "c.db", context=2, arm=2, levels={"half": 4})
    assert mine.levels == {"half": 4}
    assert mine.columns[1:5] == ["arm 1", "arm 2", "context 1", "context 2"]


def test_the_order_of_products_is_that_of_interactions(tmp_path):
    """Arms that are one-hot: the same columns, but for the context in between."""
    agent = Agent.create(tmp_path / "a.db", context=2, arm=3, features=Features(context=False))
    agent.set_arms({f"arm {k}": row for k, row in enumerate(np.eye(3))})
    context = np.array([0.5, -2.0])
    position = int(agent.ask(context=context).arm[-1])
    assert np.array_equal(exported(agent, tmp_path)["features"].to_list()[0], adadim.interactions(context, 3)[position])


@pytest.mark.parametrize("policy", [adadim.EvidenceLinUCB(), adadim.LinTS()], ids=repr)
@pytest.mark.parametrize("given", [False, True], ids=["catalogue", "given"])
def test_decisions_are_those_of_an_agent_with_ready_made_features(tmp_path, policy, given):
    features, rng = Features(own=4), np.random.default_rng(3)
    agent = create(tmp_path / "a.db", features, policy=policy, noise=0.3)
    plain = Agent.create(tmp_path / "b.db", dim=agent.dim, policy=policy, noise=0.3)
    for at, context in enumerate(contexts(20)):
        built = {name: by_hand(features, arm, context, name) for name, arm in CATALOGUE.items()}
        one, other = agent.ask(CATALOGUE if given else None, context), plain.ask(built)
        assert (one.arm, one.probability) == (other.arm, other.probability)
        assert numbers(agent.estimate(context=context)).tolist() == numbers(plain.estimate(built)).tolist()
        if at % 3:
            reward = float(rng.normal())
            agent.tell(one.id, reward)
            plain.tell(other.id, reward)
    assert agent.rebuild() < 1e-9
    log = exported(agent, tmp_path)
    assert log["features"].equals(exported(plain, tmp_path)["features"])
    batch = contexts(9, seed=5)
    many = agent.ask_many(batch, CATALOGUE if given else None)
    for context, decision in zip(batch, many, strict=True):
        built = {name: by_hand(features, arm, context, name) for name, arm in CATALOGUE.items()}
        other = plain.ask(built)
        assert (decision.id, decision.arm, decision.probability) == (other.id, other.arm, other.probability)


@pytest.mark.in_a_file
def test_arms_that_were_changed_or_retired_keep_what_they_were(tmp_path):
    features, rng = Features(own=3), np.random.default_rng(4)
    agent = create(tmp_path / "a.db", features)
    other = Agent.open(tmp_path / "a.db")
    now, state, made, offers = dict(CATALOGUE), dict.fromkeys(CATALOGUE, "active"), [], []
    for at, context in enumerate(contexts(60)):
        name = f"sku {rng.integers(8)}"
        if at % 4 == 0:
            now[name], state[name] = rng.normal(size=ARM), "active"
            agent.set_arm(name, now[name])
        elif at % 4 == 2 and state.get(name) == "active":
            (agent.retire_arm if at % 8 == 2 else agent.mask_arm)(name)
            state[name] = "retired" if at % 8 == 2 else "masked"
        active = [name for name in now if state[name] == "active"]
        asked = None if at % 3 else active[::-2]
        decision = (agent if at % 2 else other).ask(asked, context=context)
        offers.append(active if asked is None else asked)
        made.append(
            (
                by_hand(features, now[decision.arm], context, decision.arm),
                np.concatenate([now[name] for name in offers[-1]]),
            )
        )
        if at % 5:
            agent.tell(decision.id, float(rng.normal()))
    assert agent.rebuild() < 1e-9
    for opened in (agent, Agent.open(tmp_path / "a.db")):
        log = exported(opened, tmp_path)
        assert log["offered"].to_list() == offers
        for row, (chosen, own) in enumerate(made):
            assert np.array_equal(log["features"][row].to_numpy(), chosen)
            assert np.array_equal(log["offered_features"][row].to_numpy(), own)
    with sqlite3.connect(tmp_path / "a.db") as file:
        assert file.execute("SELECT max(length(features)) FROM decisions").fetchone() == (0,)
        assert file.execute("SELECT max(length(arms)) FROM offers").fetchone()[0] < 200


def asked_log(agent, truth, count, seed, size, told=2):
    """Ask in contexts of `size` numbers, tell two of three rewards, and write down what happened."""
    rng = np.random.default_rng(seed)
    for at, context in enumerate(contexts(count, seed, size)):
        decision = agent.ask(context=context)
        reward = float(rng.normal()) if at % 3 < told else None
        truth.append((context, decision.arm, dict(agent.arms)[decision.arm].features, reward))
        if reward is not None:
            agent.tell(decision.id, reward)


@pytest.mark.parametrize("memory", [None, 30.0])
@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("features", [Features(own=4), Features(products=2), Features(arm=False)], ids=str)
def test_appended_features_are_as_if_they_had_been_there_with_zeros(tmp_path, features, memory, compacted):
    clock, policy = Hands(0.0), adadim.LinUCB(ridge=0.5, radius=0.7)
    options = {"policy": policy, "noise": 0.3, "memory": memory}
    agent = create(tmp_path / "a.db", features, clock=clock, **options)
    other, truth = Agent.open(tmp_path / "a.db", clock=clock), []
    old = agent.columns
    asked_log(agent, truth, 16, 1, CONTEXT)
    complete = np.random.default_rng(2).normal(size=(4, agent.dim))
    agent.learn((complete, [0.1, 0.2, 0.3, 0.4]))
    asked_log(other, truth, 8, 3, CONTEXT)
    if compacted:
        clock.now = 10.0
        assert agent.compact(before=5.0) > 15
    assert agent.replace_features(context=CONTEXT + 1) == agent.dim
    asked_log(other, truth, 9, 4, CONTEXT + 1)  # it has followed
    before = other.dim
    assert other.replace_features(context=CONTEXT + 2, arm=ARM + 1) == other.dim >= before
    assert agent.estimate(context=np.ones(CONTEXT + 2)) == other.estimate(context=np.ones(CONTEXT + 2))
    longer = {name: np.append(row, 0.3 * k) for k, (name, row) in enumerate(CATALOGUE.items())}
    agent.set_arms(longer)
    asked_log(agent, truth, 12, 5, CONTEXT + 2)

    fresh = Agent.create(tmp_path / "b.db", context=CONTEXT + 2, arm=ARM + 1, features=features, **options)
    assert fresh.columns == agent.columns
    assert fresh.levels == agent.levels
    for at, (context, name, own, reward) in enumerate(truth):
        if at == 16:
            rows = np.zeros((4, fresh.dim))
            rows[:, [fresh.columns.index(column) for column in old]] = complete
            fresh.learn((rows, [0.1, 0.2, 0.3, 0.4]))
        whole = [np.append(x, np.zeros(size - len(x))) for x, size in ((context, CONTEXT + 2), (own, ARM + 1))]
        decision = fresh.ask({name: whole[1]}, whole[0])
        if reward is not None:
            fresh.tell(decision.id, reward)
    grid = {f"x{k}": row for k, row in enumerate(np.random.default_rng(6).normal(size=(8, ARM + 1)))}
    context = [0.3, -1.0, 0.5, 2.0, -0.4]
    for one in (agent, other, Agent.open(tmp_path / "a.db", clock=clock)):
        assert np.abs(numbers(one.estimate(grid, context)) - numbers(fresh.estimate(grid, context))).max() < 1e-9
        built = {str(k): row for k, row in enumerate(np.random.default_rng(7).normal(size=(9, fresh.dim)))}
        assert np.abs(scores_of(one, built) - scores_of(fresh, built)).max() < 1e-9  # open ones count alike
        assert np.abs(one.dimension().probabilities - fresh.dimension().probabilities).max() < 1e-9
        assert one.rebuild() < 1e-9
    if not compacted:
        mine, theirs = exported(agent, tmp_path), exported(fresh, tmp_path)
        assert np.array_equal(mine["features"].to_list(), theirs["features"].to_list())
        assert mine["context"].equals(theirs["context"])


@pytest.mark.parametrize("many", [False, True], ids=["ask", "ask_many"])
def test_features_that_another_replaces_in_the_middle_of_a_call(tmp_path, monkeypatch, many):
    agent = create(tmp_path / "a.db")
    other = Agent.open(tmp_path / "a.db")
    agent.ask_many(contexts(3))
    prepare = decider_of(agent).prepare

    def replacing(number):
        monkeypatch.undo()
        other.replace_features(context=CONTEXT + 1)
        return prepare(number)

    monkeypatch.setattr(decider_of(agent), "prepare", replacing)
    asked = contexts(4, seed=1)
    made = agent.ask_many(asked) if many else [agent.ask(context=asked[0])]
    for one in (agent, other):
        assert one.status()["decisions"] == 3 + len(made)
        assert one.dim == other.dim == 1 + ARM + (ARM + 1) * (CONTEXT + 1)
        assert one.rebuild() < 1e-9
    rows = exported(agent, tmp_path)["features"].to_list()[3:]
    for row, context, decision in zip(rows, asked, made, strict=False):
        assert np.array_equal(row, by_hand(Features(), CATALOGUE[decision.arm], [*context, 0.0], decision.arm))


def test_a_replacement_that_fails_changes_nothing(tmp_path, monkeypatch):
    agent = create(tmp_path / "a.db", policy=adadim.LinUCB(ridge=0.5), noise=0.3)
    asked_log(agent, [], 8, 1, CONTEXT)
    before = numbers(agent.estimate(context=np.ones(CONTEXT)))
    failing_writes(monkeypatch, PolicyRow, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        agent.replace_features(arm=ARM + 3)
    monkeypatch.undo()
    for one in (agent, Agent.open(tmp_path / "a.db")):
        assert np.abs(numbers(one.estimate(context=np.ones(CONTEXT))) - before).max() < 1e-12
        assert one.dim == 1 + ARM + CONTEXT + ARM * CONTEXT
        assert one.rebuild() < 1e-9


def size_after(path, count, ask):
    """Bytes by which the file grows with each of `count` decisions, after what was written beside it is in it."""
    sizes = []
    for _ in range(2):
        with sqlite3.connect(path) as file:
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        file.close()
        sizes.append(path.stat().st_size)
        if len(sizes) == 1:
            ask(count)
    return (sizes[1] - sizes[0]) / count


@pytest.mark.in_a_file
def test_a_decision_over_the_catalogue_takes_less_than_200_bytes(tmp_path):
    rng = np.random.default_rng(1)
    arms = {f"article-{k}": rng.normal(size=24) for k in range(40)}
    path = tmp_path / "a.db"
    agent = Agent.create(path, context=8, arm=24, features=Features(products=1), policy=adadim.Greedy())
    agent.set_arms(arms)

    def ask(count):
        for batch in np.split(rng.normal(size=(count, 8)), count // 100):
            agent.tell_many({decision.id: float(rng.normal()) for decision in agent.ask_many(batch)})

    ask(2000)  # the sums of each half-life are then written, which takes as much however many decisions there are
    assert 64 < size_after(path, 2000, ask) < 200  # with their rewards
    assert agent.rebuild() < 1e-9


def test_ready_made_features_of_a_catalogue_are_not_written_again(tmp_path):
    rng, path = np.random.default_rng(1), tmp_path / "a.db"
    agent = Agent.create(path, dim=20, policy=adadim.Greedy())
    agent.set_arms({f"article-{k}": rng.normal(size=12) for k in range(40)})
    assert size_after(path, 1000, lambda count: agent.ask_many(rng.normal(size=(count, 8)))) < 200


@pytest.mark.parametrize("options", [{"dim": 7}, {"context": CONTEXT, "arm": ARM}], ids=str)
@pytest.mark.in_a_file
def test_only_what_was_chosen_is_kept_if_that_is_wanted(tmp_path, options):
    rng, agents, sizes = np.random.default_rng(2), {}, {}
    rounds = [{f"arm {k}": row for k, row in enumerate(rows)} for rows in rng.normal(size=(60, 30, ARM))]
    for keep in ("all", "chosen"):
        path = tmp_path / f"{keep}.db"
        agents[keep] = agent = Agent.create(path, keep=keep, **options)

        def ask(count, agent=agent):
            for at, (arms, context) in enumerate(zip(rounds, contexts(count), strict=True)):
                agent.tell(agent.ask(arms, context).id, np.sin(at))

        sizes[keep] = size_after(path, 60, ask)
    assert sizes["chosen"] < 400 < 30 * ARM * 8 < sizes["all"]
    logs = {keep: exported(agent, tmp_path) for keep, agent in agents.items()}
    for column in ("decision", "arm", "features", "reward", "probability"):
        assert logs["all"][column].equals(logs["chosen"][column])
    assert logs["chosen"]["offered"].null_count() == logs["chosen"]["offered_features"].null_count() == 60
    for row, arms in enumerate(rounds):
        assert np.array_equal(logs["all"]["offered_features"][row].to_numpy(), np.concatenate(list(arms.values())))
    for agent in agents.values():
        assert agent.rebuild() < 1e-9
    agents["chosen"].set_arms(rounds[0])
    agents["chosen"].ask(["arm 3", "arm 1"], contexts(1)[0])
    last = exported(agents["chosen"], tmp_path).row(60, named=True)  # of the catalogue all is known
    assert last["offered"] == ["arm 3", "arm 1"]
    assert last["offered_features"] == [*rounds[0]["arm 3"], *rounds[0]["arm 1"]]


def test_offers_are_compressed(tmp_path):
    agent, path = Agent.create(tmp_path / "a.db", dim=50), tmp_path / "a.db"
    rng = np.random.default_rng(3)
    rounds = rng.integers(2, size=(40, 30, 50)).astype(float)

    def ask(count):
        for rows in rounds[:count]:
            agent.ask({f"arm {k}": row for k, row in enumerate(rows)})

    assert size_after(path, 40, ask) < 0.3 * 30 * 50 * 8
    log = exported(agent, tmp_path)
    assert np.array_equal(np.reshape(log["offered_features"].to_list(), rounds.shape), rounds)


@pytest.mark.in_a_file
def test_one_offer_of_sixteen_says_whether_they_are_compressed(tmp_path):
    """What is offered is restored all the same, also where offers change from numbers like noise to round ones."""
    rng = np.random.default_rng(3)
    offers = [rng.normal(size=(8, 6)) for _ in range(20)] + [np.full((8, 6), float(k)) for k in range(20)]
    with Agent.create(tmp_path / "a.db", dim=6) as agent:
        for arms in offers:
            agent.ask({f"arm {k}": row for k, row in enumerate(arms)})
        log = exported(agent, tmp_path)
    for row, arms in enumerate(offers):
        assert np.array_equal(log["offered_features"][row].to_numpy(), arms.ravel())
    with sqlite3.connect(tmp_path / "a.db") as file:
        packed = [row[0] for row in file.execute("SELECT packed FROM offers ORDER BY id")]
    assert packed == [0] * 31 + [1] * 9  # offers 1, 16 and 32 are sampled


@pytest.mark.filterwarnings("ignore::adadim.EvaluationWarning")
def test_what_is_exported_is_evaluated_with_all_its_products(tmp_path):
    features, rng = Features(products=2, own=3), np.random.default_rng(5)
    agent = create(tmp_path / "a.db", features, policy=adadim.Random())
    theta, seen = rng.normal(size=agent.dim), []
    for at, context in enumerate(contexts(300)):
        if at == 150:
            agent.set_arm("sku 9", rng.normal(size=ARM))
        arms = {name: arm.features for name, arm in agent.arms.items()}
        table = np.array([by_hand(features, arm, context, name) for name, arm in arms.items()])
        decision = agent.ask(context=context)
        seen.append((table, list(arms).index(decision.arm)))
        agent.tell(decision.id, float(table[seen[-1][1]] @ theta + 0.1 * rng.normal()))
    agent.export(tmp_path / "log.parquet")
    log = read_log(tmp_path / "log.parquet")
    assert (len(log), log.dim, log.uniform) == (300, agent.dim, True)
    for row, (table, position) in enumerate(seen):
        (offer,) = log.offers(row, row + 1)
        assert np.array_equal(offer, table)
        assert log.chosen[row] == position
    found = adadim.evaluate(adadim.recommended, log)
    assert found.dr.low > found.logged.high
    other = Agent.create(tmp_path / "b.db", context=CONTEXT, arm=ARM, features=features)
    assert other.learn(tmp_path / "log.parquet") == 300
    one, two = (numbers(a.estimate(CATALOGUE, np.ones(CONTEXT))) for a in (agent, other))
    assert np.abs(one - two).max() < 1e-6
    frame = pl.read_parquet(tmp_path / "log.parquet")
    wrong = frame.with_columns(design=pl.lit('{"context": 1}'))
    assert_refuses(ValueError, "row 1 of the log: design says nothing about features", read_log, wrong)
    small = log_of(agent).settings.design.to_json().replace('"arm 4"', '"arm 4", "x"').replace(', "context 3"', "")
    wrong = frame.with_columns(design=pl.lit(small))
    assert_refuses(ValueError, "design is of 5 numbers of an arm and 2 of a context, got 4 and 3", read_log, wrong)


def test_a_description_is_a_value():
    features = Features(products=2, own=16)
    assert repr(features) == "Features(constant=True, arm=True, context=True, products=2, own=16)"
    assert features == Features(products=2, own=16) != Features(products=2)
    assert hash(features) == hash(Features(products=2, own=16))
    with pytest.raises(dataclasses.FrozenInstanceError):
        features.own = 3
    assert Features.from_json(features.to_json()) == features
    assert_refuses(ValueError, "features have no part 'owm'; did you mean 'own'?", Features.from_json, '{"owm": 3}')
    assert_refuses(TypeError, "features must be described by a mapping", Features.from_json, "[]")
    assert_refuses(TypeError, "features must be described by a mapping", Features.from_json, "{")
    assert adadim.agent.Features is Features


BAD = [
    ({}, "give dim=, the number of features; or context= and arm="),
    ({"context": 3}, "give dim=, the number of features; or context= and arm="),
    ({"dim": 3, "context": 2}, "give either dim= or context="),
    ({"dim": 3, "features": Features()}, "give either dim= or context="),
    ({"context": -1, "arm": 3}, "context must be an integer in 0..100000"),
    ({"context": 2, "arm": 0}, "arm must be an integer in 1..100000"),
    ({"context": 2, "arm": 2.5}, "arm must be a number of columns, or their names, got 2.5"),
    ({"context": "hour", "arm": 2}, "context must be a number of columns, or their names, got 'hour'"),
    ({"context": ["a", "a"], "arm": 2}, "columns must have different names, but 'a' appears twice"),
    ({"context": ["a"], "arm": ["a"]}, "columns must have different names, but 'a' appears twice"),
    ({"context": ["a"], "arm": ["b", "b x a"]}, "columns must have different names, but 'b x a' appears twice"),
    ({"context": [3], "arm": 2}, "a column of context must have a name of 1 to 200 characters, got 3"),
    ({"context": ["a\0"], "arm": 2}, "no control characters"),
    ({"context": 2, "arm": []}, "arm must have at least 1 columns"),
    ({"context": 2, "arm": 3, "features": Features(products=4)}, "products = 4 are more than the 3 features of an arm"),
    ({"context": 2, "arm": 3, "features": {"own": 3}}, r"features must be adadim.Features\(...\), got"),
    (
        {"context": 0, "arm": 3, "features": Features(constant=False, arm=False)},
        "leaves no column",
    ),
    ({"context": 100_000, "arm": 100_000}, "dim = 10000200001 is too much"),
    ({"dim": 3, "keep": "some"}, "keep must be 'all' or 'chosen', got 'some'"),
]


@pytest.mark.parametrize(("options", "message"), BAD, ids=lambda value: str(value)[:40])
def test_what_does_not_fit_makes_no_file(tmp_path, options, message):
    assert_refuses((ValueError, TypeError), message, Agent.create, tmp_path / "a.db", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", [{"own": -1}, {"products": 1.5}, {"constant": 1}, {"arm": "yes"}], ids=str)
def test_a_wrong_description_is_refused(wrong):
    (name,) = wrong
    assert_refuses((ValueError, TypeError), f"{name} must be", Features, **wrong)


@pytest.mark.in_a_file
def test_bad_calls_are_refused_and_nothing_is_written(tmp_path):
    agent = Agent.create(tmp_path / "a.db", context=["hour", "new"], arm=["price", "size"])
    agent.set_arms({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    before = written(tmp_path / "a.db")
    for context, message in (
        ([1.0], "context must be 2 numbers, as the agent was created for, got 1"),
        (None, "context must be 2 numbers, as the agent was created for, got none"),
        ([1.0, 2.0, 3.0], "context must be 2 numbers, as the agent was created for, got 3"),
        ({"hour": 1.0, "now": 2.0}, "context has no column 'now'; did you mean 'new'?"),
        ({"hour": 1.0, 3: 2.0}, "context has no column 3; choose from hour, new"),
        ({"hour": 1.0}, "context must have the column 'new', which is missing"),
        ({"hour": 1.0, "new": np.nan}, "context has no value in column 'new', got nan; give one, or create"),
        ([1e16, 1.0], r"context must be at most 1e\+15 in size, but column 'hour' is 1e\+16"),
        ("12", "context must be a sequence of numbers"),
    ):
        assert_refuses((ValueError, TypeError), message, agent.ask, context=context)
        assert_refuses((ValueError, TypeError), message, agent.estimate, context=context)
        assert_refuses(
            (ValueError, TypeError), message.replace("context", "context 2", 1), agent.ask_many, [[1, 2], context]
        )
    for arm, message in (
        ([1.0], "features of 'c' must be 2 numbers, as the agent was created for, got 1"),
        ({"price": 1.0, "sise": 2.0}, "features of 'c' has no column 'sise'; did you mean 'size'?"),
        ({"price": 1.0}, "features of 'c' must have the column 'size', which is missing"),
        ([1.0, 1e16], r"features of 'c' must be at most 1e\+15 in size"),
    ):
        assert_refuses((ValueError, TypeError), message, agent.set_arm, "c", arm)
        assert_refuses((ValueError, TypeError), message, agent.ask, {"c": arm}, [1.0, 2.0])
    for options, message in (
        ({}, "give one of them more columns"),
        ({"context": 2}, "give one of them more columns"),
        ({"context": 1}, "context must be an integer in 2..100000"),
        ({"context": ["hour"]}, "context must have at least 2 columns"),
        ({"context": ["new", "hour", "x"]}, r"context must begin with its columns of before, \['hour', 'new'\]"),
        ({"arm": ["price", "size", "hour"]}, "columns must have different names, but 'hour' appears twice"),
        ({"arm": 3, "levels": {"a": 99}}, "levels must be an integer in 1..12"),
    ):
        assert_refuses((ValueError, TypeError), message, agent.replace_features, **options)
    assert written(tmp_path / "a.db") == before
    assert agent.status()["decisions"] == 0
    plain = Agent.create(tmp_path / "b.db", dim=2)
    assert_refuses(ValueError, "this agent takes ready-made features", plain.replace_features, context=3)
    assert_refuses(TypeError, "must be a sequence of numbers", plain.ask, {"a": {"x": 1.0, "y": 2.0}})


DAMAGE = [
    "UPDATE decisions SET catalogue = 3 WHERE number = 5",
    "UPDATE decisions SET context = zeroblob(24) WHERE number = 5",
    "UPDATE decisions SET arm = 'sku 1' WHERE number = 5 AND arm != 'sku 1'",
    "UPDATE arms SET features = zeroblob(32) WHERE name = 'sku 2'",
    """UPDATE settings SET value = replace(value, '"own": 0', '"own": 1') WHERE key = 'designs'""",
    "UPDATE settings SET value = '\"most\"' WHERE key = 'keep'",
]


@pytest.mark.parametrize("statement", DAMAGE)
@pytest.mark.in_a_file
def test_damage_is_noticed(tmp_path, statement):
    agent = create(tmp_path / "a.db", policy=adadim.Greedy())
    for name in ("sku 2", "sku 3"):
        for _ in range(4):
            agent.tell(agent.ask([name], context=np.ones(CONTEXT)).id, 1.0)
    agent.close()
    with sqlite3.connect(tmp_path / "a.db") as file:
        assert file.execute(statement).rowcount
        file.execute("DELETE FROM snapshot")
    file.close()
    assert_refuses(FileError, r"a\.db: damaged .*restore it from a backup", Agent.open, tmp_path / "a.db")


@pytest.mark.in_a_file
def test_a_catalogue_that_lost_rows_is_noticed(tmp_path):
    agent = create(tmp_path / "a.db")
    agent.tell(agent.ask(context=np.ones(CONTEXT)).id, 1.0)
    agent.close()
    with sqlite3.connect(tmp_path / "a.db") as file:
        file.execute("DELETE FROM arms")
        file.execute("DELETE FROM snapshot")
    file.close()
    words = "arm 'sku .' of decision 1 is not in the catalogue of that time"
    assert_refuses(FileError, words, Agent.open, tmp_path / "a.db")


@pytest.mark.in_a_file
def test_a_settings_row_that_does_not_fit_is_named(tmp_path):
    create(tmp_path / "a.db").close()
    with sqlite3.connect(tmp_path / "a.db") as file:
        file.execute("UPDATE settings SET value = '7', seal = ? WHERE key = 'dim'", (sqlite.checksum("dim", "7"),))
    file.close()
    assert_refuses(FileError, "features of 20 columns do not fit dim = 7", Agent.open, tmp_path / "a.db")
