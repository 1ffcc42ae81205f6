"""Columns that are categories, and frames of pandas and polars: coded by hand they make the same agent."""

import dataclasses
import json
import sqlite3

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import adadim
from adadim import Agent, Category, Features
from adadim.agent import sqlite
from adadim.agent.logged import LOG_COLUMNS
from adadim.core.columns import Coding, Column, coded_names
from adadim.core.design import Design
from agent_runs import log_of, numbers, written
from refusals import assert_refuses

POLICY = adadim.LinUCB(ridge=0.5, radius=0.7)
CONTEXT = {"device": Category(["phone", "desktop"]), "hour": float, "member": float}
ARM = {
    "kind": Category(["shoe", "hat"], unknown="error"),
    "price": float,
    "stock": Category([1, 2], missing="indicator"),
}
SHELF = {
    "s-1": {"kind": "shoe", "price": 3.5, "stock": 1},
    "s-2": {"kind": "hat", "price": 1.0, "stock": 2},
    "s-3": {"kind": "hat", "price": -2.0, "stock": 7},
    "s-4": {"kind": "shoe", "price": 0.5, "stock": None},
}
VISITORS = [
    {"device": "phone", "hour": 0.3, "member": 1},
    {"device": "desktop", "hour": -1.2, "member": 0},
    {"device": "tablet", "hour": 0.8, "member": 1},
    {"device": "phone", "hour": -0.1, "member": 0},
    {"device": "fridge", "hour": 2.0, "member": 0},
]
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame}


def context_numbers(visitor):
    """A context, coded by hand."""
    device = visitor["device"]
    levels = [device == "phone", device == "desktop", device not in ("phone", "desktop")]
    return [visitor["hour"], visitor["member"], *map(float, levels)]


def arm_numbers(article):
    """An arm, coded by hand."""
    kind, stock = article["kind"], article["stock"]
    other = stock is not None and stock not in (1, 2)
    levels = [kind == "shoe", kind == "hat", stock == 1, stock == 2, other, stock is None]
    return [article["price"], *map(float, levels)]


def create(path, **options):
    return Agent.create(path, context=CONTEXT, arm=ARM, **({"policy": POLICY, "noise": 0.3} | options))


def plain(path, **options):
    return Agent.create(path, context=5, arm=7, **({"policy": POLICY, "noise": 0.3} | options))


def shelf_frame(kind):
    columns = {"sku": list(SHELF), **{name: [row[name] for row in SHELF.values()] for name in ARM}}
    return FRAMES[kind](columns)


def visitors_frame(kind, count=5):
    rows = (VISITORS * count)[:count]
    return FRAMES[kind]({name: [row[name] for row in rows] for name in ("member", "device", "hour")})


def exported(agent, folder):
    return pl.read_parquet(agent.export(folder / "log.parquet"))


def test_columns_are_numbers_first_then_all_levels(tmp_path):
    agent = create(tmp_path / "a.db", features=Features(products=1))
    context = ["hour", "member", "device=phone", "device=desktop", "device other"]
    arm = ["price", "kind=shoe", "kind=hat", "stock=1", "stock=2", "stock other", "stock missing"]
    assert agent.columns == ["constant", *arm, *context, *(f"price x {name}" for name in context)]
    assert agent.levels == {"arm": 8, "context": 13, "products": 18}
    assert agent.context_columns == CONTEXT
    assert agent.arm_columns == ARM
    agent.close()
    with Agent.open(tmp_path / "a.db") as again:
        assert (again.context_columns, again.arm_columns) == (CONTEXT, ARM)


@pytest.mark.parametrize("policy", [POLICY, adadim.EvidenceLinUCB(), adadim.LinTS()], ids=repr)
@pytest.mark.parametrize("in_call", [False, True], ids=["catalogue", "given"])
def test_decisions_are_those_of_an_agent_with_columns_coded_by_hand(tmp_path, policy, in_call):
    agent, other = (make(tmp_path / f"{make.__name__}.db", policy=policy) for make in (create, plain))
    by_hand, rng = {name: arm_numbers(arm) for name, arm in SHELF.items()}, np.random.default_rng(3)
    agent.set_arms(SHELF)
    other.set_arms(by_hand)
    for visitor in VISITORS * 3:
        numbers_ = context_numbers(visitor)
        one = agent.ask(SHELF if in_call else None, context=visitor)
        two = other.ask(by_hand if in_call else None, context=numbers_)
        assert (one.arm, one.probability) == (two.arm, two.probability)
        assert numbers(agent.estimate(context=visitor)).tolist() == numbers(other.estimate(context=numbers_)).tolist()
        reward = float(rng.normal())
        agent.tell(one.id, reward)
        other.tell(two.id, reward)
    assert exported(agent, tmp_path)["features"].equals(exported(other, tmp_path)["features"])
    assert agent.rebuild() < 1e-9
    agent.close()
    with Agent.open(tmp_path / "create.db") as again:
        for visitor in VISITORS:
            reopened, twin = again.estimate(context=visitor), other.estimate(context=context_numbers(visitor))
            assert np.abs(numbers(reopened) - numbers(twin)).max() < 1e-9


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_are_the_same_as_dicts(tmp_path, kind):
    framed, by_dict = create(tmp_path / "a.db"), create(tmp_path / "b.db")
    framed.set_arms(shelf_frame(kind), name="sku")
    by_dict.set_arms(SHELF)
    assert {name: arm.values for name, arm in framed.arms.items()} == SHELF
    visitors = visitors_frame(kind, 12)
    made = framed.ask_many(visitors)
    rows = [by_dict.ask(context=(VISITORS * 3)[k]) for k in range(12)]
    assert [one.arm for one in made] == [one.arm for one in rows]
    for at in range(3):
        one = visitors.iloc[[at]] if kind == "pandas" else visitors[at]
        assert framed.ask(context=one).arm == by_dict.ask(context=VISITORS[at]).arm
    assert framed.ask_many(visitors[:0]) == []
    framed.tell_many({one.id: 1.0 for one in made})
    by_dict.tell_many({one.id: 1.0 for one in rows})
    assert framed.estimate(context=VISITORS[2]) == by_dict.estimate(context=VISITORS[2])
    assert [slate.arms for slate in framed.ask_many(visitors, slots=2)] == [
        by_dict.ask(context=(VISITORS * 3)[k], slots=2).arms for k in range(12)
    ]


@pytest.mark.any_store
def test_what_pandas_has_beside_frames(tmp_path):
    agent = create(tmp_path / "a.db")
    indexed = shelf_frame("pandas").set_index("sku").astype({"kind": "category", "stock": "Int64"})
    agent.set_arms(indexed.assign(margin=[0.1, 0.2, 0.3, 0.4]), costs="margin")
    assert {name: (arm.values, arm.cost) for name, arm in agent.arms.items()} == {
        name: (values, cost) for (name, values), cost in zip(SHELF.items(), [0.1, 0.2, 0.3, 0.4], strict=True)
    }
    visitors = visitors_frame("pandas")
    for at, visitor in enumerate(VISITORS):
        assert agent.estimate(context=visitors.iloc[at]) == agent.estimate(context=visitor)
    assert agent.estimate(indexed, VISITORS[0]) == agent.estimate(SHELF, VISITORS[0])
    assert agent.estimate(context=["phone", 0.3, 1]) == agent.estimate(context=VISITORS[0])  # as they were declared
    assert (
        agent.estimate({"s-1": agent.arms["s-1"].features}, VISITORS[0])["s-1"]
        == agent.estimate(["s-1"], VISITORS[0])["s-1"]
    )
    numbered = shelf_frame("pandas").assign(sku=[11, 12, 13, 14])
    agent.set_arms(numbered, name="sku")
    assert set(agent.arms) == {*SHELF, "11", "12", "13", "14"}


@pytest.mark.any_store
@pytest.mark.parametrize("kind", FRAMES)
def test_columns_without_names_are_taken_in_their_order(tmp_path, kind):
    rows = np.arange(6.0).reshape(2, 3)
    frame = FRAMES[kind]({f"c{k}": rows[:, k] for k in range(3)})
    agent = Agent.create(tmp_path / "a.db", context=3, arm=1, policy=POLICY, noise=0.3)
    agent.set_arms({"a": [1.0], "b": [2.0]})
    agent.ask_many(frame)
    assert exported(agent, tmp_path)["context"].to_list() == rows.tolist()
    ready = Agent.create(tmp_path / "b.db", dim=3, policy=POLICY, noise=0.3)
    ready.set_arms(FRAMES[kind]({"name": ["a", "b"], "x": [1.0, 2.0], "y": [3.0, 4.0]}), name="name")
    assert ready.arms["b"].features.tolist() == [2.0, 4.0]
    assert len(ready.ask_many(FRAMES[kind]({"z": [1.0, 2.0, 3.0]}))) == 3


def past(library, **columns):
    rows = [{**VISITORS[k % 5], **SHELF[f"s-{k % 4 + 1}"], "reward": k % 2, "arm": f"s-{k % 4 + 1}"} for k in range(20)]
    table = {name: [row[name] for row in rows] for name in ("reward", "arm", *CONTEXT, *ARM)} | columns
    return rows, FRAMES[library]({name: values for name, values in table.items() if values is not None})


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("named", [False, True], ids=["columns", "catalogue"])
def test_a_frame_of_the_agents_columns_is_learned(tmp_path, kind, named):
    options = {"features": Features(products=2, own=3)}
    agent, other = create(tmp_path / "a.db", **options), plain(tmp_path / "b.db", **options)
    rows, frame = past(kind, probability=[0.5] * 20, note=["x"] * 20, **(dict.fromkeys(ARM) if named else {}))
    agent.set_arms(SHELF)
    agent.retire_arm("s-2")  # what was learned from it stays
    built = log_of(other).settings.design.build(
        np.array([arm_numbers(row) for row in rows]),
        np.array([context_numbers(row) for row in rows]),
        [row["arm"] for row in rows],
    )
    assert agent.learn(frame) == 20
    assert agent.learn(frame) == 0
    other.learn((built, [row["reward"] for row in rows]))
    log = exported(agent, tmp_path)
    assert np.array_equal(log["features"].to_list(), built)
    assert log["probability"].to_list() == [0.5] * 20
    for name in (*CONTEXT, *ARM):
        assert log[name].to_list() == [row[name] for row in rows]
    one, two = (
        agent.estimate(SHELF, VISITORS[0]),
        other.estimate({name: arm_numbers(arm) for name, arm in SHELF.items()}, context_numbers(VISITORS[0])),
    )
    assert one == two


def test_an_export_has_the_values_that_were_given(tmp_path):
    agent = create(tmp_path / "a.db", missing="indicator")
    agent.set_arms(SHELF)
    other = Agent.open(tmp_path / "a.db")
    visitors = [*VISITORS, {"device": None, "hour": 1.0, "member": 1}, {"device": "tablet", "hour": None, "member": 1}]
    chosen = [agent.ask(context=visitor).arm for visitor in visitors]
    changed = {"s-9": {"kind": "hat", "price": 1.0, "stock": 12}}
    chosen.append(agent.ask(changed, context=visitors[0]).arm)
    agent.set_arm("s-3", {"kind": None, "price": 2.0, "stock": 8})  # decisions of before keep what it was then
    arms = [SHELF.get(name, changed["s-9"]) for name in chosen]
    agent.tell_many(dict.fromkeys(range(1, 9), 1.0))
    for one in (agent, other):
        log = exported(one, tmp_path)
        assert log.columns == [*LOG_COLUMNS, *CONTEXT, *ARM]
        for name in CONTEXT:
            assert log[name].to_list() == [visitor[name] for visitor in [*visitors, visitors[0]]]
        for name in ARM:
            assert log[name].to_list() == [arm[name] for arm in arms]
        assert one.arms["s-3"].values == {"kind": None, "price": 2.0, "stock": 8}
    read = adadim.play.logs.read_log(tmp_path / "log.parquet")
    assert read.dim == agent.dim
    again = create(tmp_path / "b.db", missing="indicator")
    assert again.learn(tmp_path / "log.parquet") == 8
    assert exported(again, tmp_path).select(*CONTEXT, *ARM).equals(log.select(*CONTEXT, *ARM))
    smaller = create(tmp_path / "c.db", missing="indicator", features=Features(products=0))
    assert smaller.learn(log) == 8  # by its own columns: it makes other features of them
    assert exported(smaller, tmp_path).select(*CONTEXT, *ARM).equals(log.select(*CONTEXT, *ARM))
    for one, twin in ((agent, again), (other, again)):
        for visitor in visitors:
            assert np.abs(numbers(one.estimate(SHELF, visitor)) - numbers(twin.estimate(SHELF, visitor))).max() < 1e-9


@pytest.mark.any_store
def test_a_csv_file_has_the_values_that_were_given(tmp_path):
    context = {"zip": Category(["01", "10"]), "member": Category([True, False]), "floor": Category([1, 2])}
    agent, other = (Agent.create(tmp_path / f"{k}.db", context=context, arm=1, missing="indicator") for k in range(2))
    rows = [("01", True, 1), ("10", False, 7), ("007", None, None), (None, True, 2)]
    for row in rows:
        agent.tell(agent.ask({"a": [1.0]}, context=row).id, 1.0)
    frames = [pl.read_parquet(agent.export(tmp_path / "log.parquet"))]
    assert other.learn(agent.export(tmp_path / "log.csv")) == 4
    frames.append(exported(other, tmp_path))
    for frame in frames:
        assert frame.select(*context).rows() == rows
    without = frames[0].select("reward", "arm 1", *context)
    without.write_csv(tmp_path / "own.csv")
    third = Agent.create(tmp_path / "3.db", context=context, arm=1, missing="indicator")
    assert third.learn(tmp_path / "own.csv") == 4
    assert exported(third, tmp_path).select("features", *context).equals(frames[0].select("features", *context))


@pytest.mark.any_store
def test_categories_are_compared_where_a_program_runs_again(tmp_path):
    with create(tmp_path / "a.db") as agent:
        agent.replace_features(context=CONTEXT | {"device": Category(["phone", "desktop", "tablet"])})
    options = {"arm": ARM, "policy": POLICY, "noise": 0.3, "exist_ok": True}
    longer = CONTEXT | {"device": Category(["phone", "desktop", "tablet"])}
    Agent.create(tmp_path / "a.db", context=longer, **options).close()
    message = r"context is \[.device: Category\(values=\('phone', 'desktop', 'tablet'\).*'hour', 'member'\] there, \["
    assert_refuses(adadim.AgentExistsError, message, Agent.create, tmp_path / "a.db", context=CONTEXT, **options)


@pytest.mark.any_store
def test_names_that_the_log_has_itself_are_longer_in_it(tmp_path):
    context = {"time": Category(["day", "night"]), "context time": float}
    agent = Agent.create(tmp_path / "a.db", context=context, arm=["policy"], features=Features(arm=False))
    agent.ask({"a": [2.0]}, context={"time": "dusk", "context time": 3.0})
    log = exported(agent, tmp_path)
    assert log.columns == [*LOG_COLUMNS, "context time", "context context time", "arm policy"]
    assert log.select(log.columns[-3:]).rows() == [("dusk", 3.0, 2.0)]
    assert agent.learn(log.with_columns(reward=pl.lit(1.0)).drop("features", "design")) == 1


@pytest.mark.any_store
def test_only_what_was_chosen_is_kept_with_its_values(tmp_path):
    agent = create(tmp_path / "a.db", keep="chosen")
    agent.ask(SHELF, context=VISITORS[2])
    (row,) = exported(agent, tmp_path).to_dicts()
    assert {name: row[name] for name in CONTEXT} == VISITORS[2]
    assert {name: row[name] for name in ARM} == SHELF[row["arm"]]


def test_a_value_that_is_added_is_0_in_what_was_decided_before(tmp_path):
    agent = create(tmp_path / "a.db")
    agent.set_arms(SHELF)
    other, rng, truth = Agent.open(tmp_path / "a.db"), np.random.default_rng(5), []

    def play(count):
        for visitor in (VISITORS * 4)[:count]:
            reward = float(rng.normal())
            decision = agent.ask(context=visitor)
            agent.tell(decision.id, reward)
            truth.append((decision.arm, visitor, reward, len(agent.columns)))

    play(10)
    before = agent.columns
    longer = CONTEXT | {"device": Category(["phone", "desktop", "tablet"]), "speed": float, "plan": Category(["free"])}
    context = [*agent.columns[8:13], "speed", "device=tablet", "plan=free", "plan other"]
    wider = ARM | {"kind": Category(["shoe", "hat", "sock"], unknown="error")}
    agent.replace_features(context=longer, arm=wider)
    assert agent.columns[1:8] == before[1:8]
    assert agent.columns[8] == "kind=sock"
    assert agent.columns[9:18] == context
    assert agent.context_columns == longer
    for visitor in VISITORS:
        visitor_now = visitor | {"speed": 1.5, "plan": "free"}
        decision = other.ask(context=visitor_now)
        other.tell(decision.id, 0.5)
        truth.append((decision.arm, visitor_now, 0.5, len(agent.columns)))
    log = exported(other, tmp_path)
    assert log["device"].to_list() == [visitor["device"] for _, visitor, _, _ in truth]
    assert log["plan"].to_list() == [None] * 10 + ["free"] * 5
    assert log["speed"].to_list() == [0.0] * 10 + [1.5] * 5

    twin = Agent.create(tmp_path / "b.db", context=9, arm=8, policy=POLICY, noise=0.3)
    for name, visitor, reward, dim in truth:
        device, new = visitor["device"], dim > len(before)
        listed = ("phone", "desktop", "tablet") if new else ("phone", "desktop")
        row = [visitor["hour"], visitor["member"], device == "phone", device == "desktop", device not in listed]
        row += [visitor.get("speed", 0.0), new and device == "tablet", new, 0.0]
        arm = [*arm_numbers(SHELF[name]), 0.0]
        decision = twin.ask({name: arm}, [float(value) for value in row])
        twin.tell(decision.id, reward)
    ask = VISITORS[2] | {"speed": 1.0, "plan": "gold"}
    coded = [0.8, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0]
    arms = {name: [*arm_numbers(arm), 0.0] for name, arm in SHELF.items()}
    for one in (agent, other, Agent.open(tmp_path / "a.db")):
        assert np.abs(numbers(one.estimate(context=ask)) - numbers(twin.estimate(arms, coded))).max() < 1e-9
        assert one.rebuild() < 1e-9
    agent.set_arm("s-1", SHELF["s-1"] | {"kind": "sock"})
    assert agent.arms["s-1"].values == SHELF["s-1"] | {"kind": "sock"}


@pytest.mark.any_store
@pytest.mark.parametrize("kind", FRAMES)
def test_kinds_are_inferred_from_a_frame(tmp_path, kind):
    frame = shelf_frame(kind)
    articles = frame.drop(columns="sku") if kind == "pandas" else frame.drop("sku")
    visitors = visitors_frame(kind)
    if kind == "pandas":
        visitors["device"] = pd.Categorical(visitors["device"], ["phone", "desktop", "tablet", "fridge"])
    else:
        visitors = visitors.cast({"device": pl.Enum(["phone", "desktop", "tablet", "fridge"])})
    agent = Agent.create(tmp_path / "a.db", context=visitors, arm=articles, missing="indicator")
    every = Category(["phone", "desktop", "tablet", "fridge"], missing="indicator")
    assert agent.context_columns == {"member": float, "device": every, "hour": float}
    assert agent.arm_columns == {"kind": Category(["hat", "shoe"], missing="indicator"), "price": float, "stock": float}
    agent.set_arms(frame, name="sku")
    agent.ask_many(visitors)
    found = exported(agent, tmp_path)
    assert found["device"].to_list() == [visitor["device"] for visitor in VISITORS]
    many = FRAMES[kind]({"text": [f"t{k}" for k in range(101)]})
    assert_refuses(
        ValueError, "column 'text' of arm has 101 different texts", Agent.create, tmp_path / "b.db", arm=many
    )
    dates = FRAMES[kind]({"day": pd.to_datetime(["2026-01-01"]).to_pydatetime()})
    assert_refuses(
        TypeError, "column 'day' of arm must hold numbers or texts", Agent.create, tmp_path / "b.db", arm=dates
    )


def test_a_category_is_a_value():
    device = Category(["phone", "desktop"])
    assert device == Category(("phone", "desktop")) != Category(["desktop", "phone"])
    assert repr(device) == "Category(values=('phone', 'desktop'), unknown='level', missing='error')"
    assert hash(device) == hash(Category(["phone", "desktop"]))
    assert Category(np.array([1, 2])).values == (1, 2)
    assert Category([True, False]).kind is bool
    with pytest.raises(dataclasses.FrozenInstanceError):
        device.unknown = "error"
    assert adadim.agent.Category is Category
    for wrong, message in (
        ("phone", "values must be a list of values"),
        (3, "values must be a list of values"),
        ([], "values must have at least one value"),
        (["a", "a"], "values must be different"),
        (["a", 1], "values must be of one kind"),
        ([True, 1], "values must be of one kind"),
        ([0.5], "a value of a category must be a text, a whole number, True or False, got 0.5"),
        ([None], "a value of a category must be a text"),
        ([""], "a value of a category must be a text of 1 to 200 characters"),
        (["a\n"], "no control characters"),
        ([2**70], "a value of a category must be below"),
    ):
        assert_refuses((ValueError, TypeError), message, Category, wrong)
    assert_refuses(ValueError, "unknown must be 'level' or 'error', got 'no'", Category, ["a"], unknown="no")
    assert_refuses(ValueError, "missing must be 'error' or 'indicator', got 'no'", Category, ["a"], missing="no")


@pytest.mark.in_a_file
def test_wrong_uses_are_refused_in_one_sentence(tmp_path):
    agent = create(tmp_path / "a.db")
    agent.set_arms(SHELF)
    before = written(tmp_path / "a.db")
    visitor, article = VISITORS[0], SHELF["s-1"]
    for call, message in (
        (lambda: agent.ask(context=visitor | {"device": None}), "context has no value in column 'device', got None"),
        (lambda: agent.ask(context=visitor | {"hour": np.nan}), "context has no value in column 'hour', got nan"),
        (lambda: agent.ask(context=visitor | {"hour": np.inf}), "context must be finite, but column 'hour' is inf"),
        (lambda: agent.ask(context=visitor | {"hour": "12"}), "context must have a number in column 'hour', got '12'"),
        (lambda: agent.ask(context=visitor | {"device": 3}), "context must have a text in column 'device', got 3"),
        (lambda: agent.ask(context=visitor | {"device": ["phone"]}), "must have a text in column 'device'"),
        (lambda: agent.ask(context=visitor | {"device": "x" * 201}), "a text of at most 200 characters in column"),
        (lambda: agent.ask(context=visitor | {"devise": 3}), "context has no column 'devise'; did you mean 'device'?"),
        (
            lambda: agent.ask(context={"hour": 3, "member": 1}),
            "context must have the column 'device', which is missing",
        ),
        (lambda: agent.ask(context=["phone", 3]), r"context must be 3 values \(\['device', 'hour', 'member'\]\)"),
        (lambda: agent.ask(context=3), "context must be a sequence of numbers, got 3"),
        (lambda: agent.ask_many([visitor, visitor | {"hour": None}]), "context 2 has no value in column 'hour'"),
        (lambda: agent.ask_many(visitor), "contexts must be a sequence with a context for each decision"),
        (
            lambda: agent.set_arm("c", article | {"kind": "shoo"}),
            "features of 'c' has 'shoo' in column 'kind', which is",
        ),
        (lambda: agent.set_arm("c", article | {"kind": "shoo"}), "not one of its values; did you mean 'shoe'?"),
        (lambda: agent.set_arm("c", article | {"stock": 1.5}), "must have a whole number in column 'stock', got 1.5"),
        (lambda: agent.set_arms(SHELF, name="sku"), "name= is the column of a frame"),
        (lambda: agent.learn([visitor | article]), "a log needs the column 'reward'"),
        (
            lambda: agent.learn([{**visitor, "reward": 1}]),
            "the log has no column 'kind'; choose from .*it needs device",
        ),
        (lambda: agent.learn([{"hours": 1.0, "device": "a", "reward": 1}]), "no column 'hour'; did you mean 'hours'?"),
        (
            lambda: agent.learn([{**visitor, "arm": "s-8", "reward": 1}]),
            "arm 's-8' in row 1 of the log is not in the catalogue; did you mean",
        ),
        (
            lambda: agent.learn([visitor | article | {"reward": 1}, visitor | article | {"reward": 1, "hour": None}]),
            "row 2 of the log has no value in column 'hour'",
        ),
        (lambda: agent.replace_features(context=CONTEXT), "give one of them more columns"),
        (lambda: agent.replace_features(context={"device": float}), "context must have its column of before 'hour'"),
        (
            lambda: agent.replace_features(context=CONTEXT | {"device": float}),
            "'device' is a category and cannot become",
        ),
        (
            lambda: agent.replace_features(context=CONTEXT | {"device": Category(["desktop", "phone", "x"])}),
            "values of column 'device' must begin with those of before",
        ),
        (
            lambda: agent.replace_features(context=CONTEXT | {"device": Category(["phone", "desktop"], "error")}),
            "column 'device' was created with unknown='level', which cannot change",
        ),
        (lambda: agent.replace_features(context=CONTEXT | {"device=phone": float}), "'device=phone' appears twice"),
    ):
        assert_refuses((ValueError, TypeError), message, call)
    assert written(tmp_path / "a.db") == before
    for options, message in (
        ({"context": {"a": str}, "arm": 1}, r"kind of context column 'a' must be float or adadim.Category"),
        ({"context": {"a": ["x", "y"]}, "arm": 1}, r"kind of context column 'a' must be float or adadim.Category"),
        ({"context": {3: float}, "arm": 1}, "a column of context must have a name of 1 to 200 characters, got 3"),
        ({"context": {"a": Category(["b"])}, "arm": ["a"]}, "different names, but 'a' appears twice"),
        ({"context": {"a": Category(["b"]), "a=b": float}, "arm": 1}, "different names, but 'a=b' appears twice"),
        ({"context": 1, "arm": 1, "missing": "zero"}, "missing must be 'error' or 'indicator', got 'zero'"),
        ({"dim": 3, "missing": "indicator"}, "missing= is for columns of context= and arm="),
        ({"context": 1, "arm": {}}, "arm must have at least 1 columns"),
    ):
        assert_refuses((ValueError, TypeError), message, Agent.create, tmp_path / "b.db", **options)
    assert not (tmp_path / "b.db").exists()


@pytest.mark.in_a_file
@pytest.mark.parametrize("kind", FRAMES)
def test_wrong_frames_are_refused_without_printing_them(tmp_path, kind):
    agent = create(tmp_path / "a.db")
    agent.set_arms(SHELF)
    before = written(tmp_path / "a.db")
    visitors, shelf = visitors_frame(kind), shelf_frame(kind)

    def renamed(frame, **names):
        return frame.rename(columns=names) if kind == "pandas" else frame.rename(names)

    shape = r"got a DataFrame of shape \(5, 3\)"
    for call, message in (
        (lambda: agent.ask(context=visitors), f"context must be one row, {shape}; ask_many"),
        (lambda: agent.ask(visitors), f"a frame of arms must have their names: .*{shape}"),
        (lambda: agent.set_arms(shelf), "a frame of arms must have their names"),
        (lambda: agent.set_arms(shelf, name="skuu"), "name must be a column of the frame of arms.*did you mean 'sku'"),
        (lambda: agent.set_arms(shelf, name="kind"), "names of arms must be different, but 'shoe' is in two rows"),
        (lambda: agent.set_arms(shelf, name="price"), "the name of an arm must be a text"),
        (lambda: agent.set_arms(shelf, name="sku", costs="cost"), "costs must be a column of the frame of arms"),
        (lambda: agent.ask_many(renamed(visitors, hour="hours")), "context has no column 'hours'; did you mean 'hour'"),
        (lambda: agent.ask_many(visitors[["hour"]]), "context must have the column 'device', which is missing"),
        (lambda: agent.set_arms(renamed(shelf, price="prize"), name="sku"), "arm has no column 'prize'; did you mean"),
        (lambda: agent.set_arm("x", visitors), f"features of 'x' must be one row, {shape}"),
        (lambda: agent.correct(1, visitors), f"reward must be a finite number, {shape}"),
        (lambda: agent.tell(1, visitors["hour"]), r"must be a finite number, got a Series of shape \(5,\)"),
    ):
        with pytest.raises((ValueError, TypeError), match=message) as caught:
            call()
        assert isinstance(caught.value, adadim.AdadimError)
        assert "\n" not in str(caught.value)
    assert written(tmp_path / "a.db") == before


@pytest.mark.in_a_file
def test_damage_to_a_value_is_noticed(tmp_path):
    agent = create(tmp_path / "a.db")
    agent.set_arms(SHELF)
    agent.tell(agent.ask(context=VISITORS[2]).id, 1.0)
    agent.close()
    with sqlite3.connect(tmp_path / "a.db") as file:
        assert file.execute("SELECT unlisted FROM decisions").fetchone() == ('{"device": "tablet"}',)
        file.execute('UPDATE decisions SET unlisted = \'{"device": "tables"}\'')
        file.execute("DELETE FROM snapshot")
    file.close()
    assert_refuses(adadim.FileError, r"a\.db: damaged .*restore it from a backup", Agent.open, tmp_path / "a.db")


@pytest.mark.in_a_file
def test_a_file_without_categories_is_opened_and_gets_them(tmp_path):
    """A file of the version before has no place for values that are not listed; its checksums hold."""
    path, steps = tmp_path / "a.db", sqlite.STEPS.index(sqlite.CATEGORIES)
    agent = Agent.create(path, context=["hour"], arm=["price"], policy=POLICY, noise=0.3)
    agent.set_arms({"a": [1.0], "b": [2.0]})
    agent.tell(agent.ask(context=[0.5]).id, 1.0)
    before = agent.estimate(context=[0.5])
    agent.close()
    with sqlite3.connect(path) as file:
        for table in ("decisions", "arms"):
            file.execute(f"ALTER TABLE {table} DROP COLUMN unlisted")
        file.execute(f"PRAGMA user_version = {steps}")
        (designs,) = file.execute("SELECT value FROM settings WHERE key = 'designs'").fetchone()
    file.close()
    assert set(json.loads(designs)[0]) == {"context", "arm", "features"}  # as version 0.3 wrote it
    with Agent.open(path) as again:
        assert again.estimate(context=[0.5]) == before
        again.replace_features(context={"hour": float, "device": Category(["phone"])})
        again.ask(context={"hour": 1.0, "device": "tablet"})
        assert exported(again, tmp_path)["device"].to_list() == [None, "tablet"]
        assert again.rebuild() < 1e-9


# Properties of the coding, for any columns

texts = st.text(st.characters(categories=("L", "N", "Zs")), min_size=1, max_size=6)
categories = st.builds(
    Category,
    st.one_of(
        st.lists(texts, min_size=1, max_size=4, unique=True),
        st.lists(st.integers(-5, 5), min_size=1, max_size=4, unique=True),
        st.just([True, False]),
    ),
    st.sampled_from(["level", "error"]),
    st.sampled_from(["error", "indicator"]),
)


@st.composite
def columns_and_rows(draw):
    kinds = draw(st.lists(st.one_of(st.sampled_from(["error", "indicator"]), categories), min_size=1, max_size=5))
    columns = [
        Column(f"c{k}", kind, kind.missing) if isinstance(kind, Category) else Column(f"c{k}", None, kind)
        for k, kind in enumerate(kinds)
    ]

    def values(column):
        if column.category is None:
            choices = st.floats(-1e15, 1e15) | st.integers(-1000, 1000)
        else:
            choices = st.sampled_from(column.category.values)
            if column.category.unknown == "level" and column.category.kind is not bool:
                choices |= texts if column.category.kind is str else st.integers(-(2**62), 2**62)
        return choices | st.none() if column.missing == "indicator" else choices

    return columns, draw(st.lists(st.fixed_dictionaries({c.name: values(c) for c in columns}), min_size=1, max_size=6))


@pytest.mark.in_a_file
@given(columns_and_rows())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_values_come_back_and_each_column_has_one_indicator(drawn):
    columns, rows = drawn
    names = coded_names(columns)
    coding = Coding(tuple(columns), names)
    coded, unlisted = coding.code({c.name: [row[c.name] for row in rows] for c in columns}, len(rows), str)
    assert coding.decode(coded, unlisted) == {c.name: [row[c.name] for row in rows] for c in columns}
    count = sum(column.category is None for column in columns)
    assert names[:count] == tuple(column.name for column in columns if column.category is None)
    for column in columns:
        for row, numbers_, new in zip(rows, coded, unlisted, strict=True):
            value, by_name = row[column.name], dict(zip(names, numbers_.tolist(), strict=True))
            ones = [name for name in column.indicators if by_name[name]]
            if value is None:
                assert ones == [f"{column.name} missing"]
            elif column.category is None:
                assert ones == []
                assert by_name[column.name] == value
            else:
                listed = value in column.category.values
                assert ones == [f"{column.name}={value}" if listed else f"{column.name} other"]
                assert new.get(column.name) == (None if listed else value)
    design = Design(names, ("arm 1",), Features(), tuple(columns), ())
    assert Design.from_json(design.to_json()) == design


@pytest.mark.in_a_file
@given(columns_and_rows(), st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_a_column_does_not_take_is_refused_by_its_name(drawn, data):
    columns, rows = drawn
    column, at = data.draw(st.sampled_from(columns)), data.draw(st.integers(0, len(rows) - 1))
    wrong = [[1, 2], 1.5 if column.category is not None else "text"]
    if column.missing == "error":
        wrong += [None, np.nan, pd.NA]
    if column.category is not None and column.category.unknown == "error":
        wrong.append({str: "not there", int: 99, bool: "no"}[column.category.kind])
    rows[at] = rows[at] | {column.name: data.draw(st.sampled_from(wrong))}
    coding = Coding(tuple(columns), coded_names(columns))
    with pytest.raises((ValueError, TypeError), match=rf"^row {at} .*column '{column.name}'"):
        coding.code({c.name: [row[c.name] for row in rows] for c in columns}, len(rows), lambda row: f"row {row}")
