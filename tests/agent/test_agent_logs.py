"""Logs of other systems, and the agent's own in a file."""

import numpy as np
import polars as pl
import pytest

import adadim
from adadim import Agent
from adadim.core.frames import read_frame
from agent_runs import numbers, played, ridge
from refusals import assert_refuses

RNG = np.random.default_rng(4)
X, R = RNG.normal(size=(25, 3)), RNG.normal(size=25)
GRID = {"a": [1.0, 0.0, 0.0], "b": [0.3, 1.0, -1.0]}


def records():
    return [{"features": x.tolist(), "reward": float(r), "arm": "old"} for x, r in zip(X, R, strict=True)]


def columns():
    return pl.DataFrame({"reward": R, **{f"x{j + 1}": X[:, j] for j in range(3)}})


def csv_file(folder):
    columns().write_csv(folder / "log.csv")
    return folder / "log.csv"


FORMS = {
    "arrays": lambda folder: (X, R),
    "lists": lambda folder: (X.tolist(), R.tolist()),
    "records": lambda folder: records(),
    "generator": lambda folder: iter(records()),
    "polars": lambda folder: pl.DataFrame(records()),
    "pandas": lambda folder: pytest.importorskip("pandas").DataFrame(records()),
    "pandas columns": lambda folder: pytest.importorskip("pandas").DataFrame(columns().to_dict(as_series=False)),
    "columns": lambda folder: columns(),
    "dict": lambda folder: columns().to_dict(as_series=False),
    "csv": csv_file,
    "csv as text": lambda folder: str(csv_file(folder)),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_log_in_any_form_is_learned_once(tmp_path, form):
    agent = Agent.create(tmp_path / "a.db", dim=3, policy=adadim.LinUCB(ridge=0.5), noise=1.0)
    assert agent.learn(FORMS[form](tmp_path)) == 25
    _, theta = ridge(X, R, 0.5)
    assert np.allclose(numbers(agent.estimate(GRID))[:, 0], np.array(list(GRID.values())) @ theta)
    assert agent.learn(FORMS[form](tmp_path)) == 0
    status = agent.status()
    assert (status["learned"], status["decisions"], status["rewards"], status["outstanding"]) == (25, 0, 0, 0)
    assert agent.rebuild() < 1e-9
    assert agent.ask(GRID).id == 26


def test_what_is_exported_can_be_learned_by_another(tmp_path):
    agent, features, rewards = played(tmp_path / "a.db", count=40)
    waiting = agent.ask({"x": features[0], "y": features[1]})
    assert agent.export(tmp_path / "log.parquet") == tmp_path / "log.parquet"
    log = pl.read_parquet(tmp_path / "log.parquet")
    assert log.height == 41
    assert log["decision"].to_list() == list(range(1, 42))
    assert np.array_equal(np.array(log["features"].to_list())[:40], features)
    assert np.array_equal(log["reward"].to_numpy()[:40], rewards)
    last = log.row(40, named=True)
    assert (last["reward"], last["arm"], last["policy"]) == (None, waiting.arm, 1)
    assert last["offered"] == ["x", "y"]
    assert np.array_equal(np.reshape(last["offered_features"], (2, 4)), features[:2])
    assert last["probability"] == waiting.probability
    other = Agent.create(tmp_path / "b.db", dim=4)
    assert other.learn(tmp_path / "log.parquet") == 40
    grid = {"a": features[0], "b": features[1]}
    assert np.abs(numbers(other.estimate(grid)) - numbers(agent.estimate(grid))).max() < 1e-9
    assert {path.name for path in tmp_path.iterdir() if "log" in path.name} == {"log.parquet"}


def test_an_export_of_several_batches_and_of_nothing(tmp_path, monkeypatch):
    agent, _, _ = played(tmp_path / "a.db", count=25)
    agent.ask({"x": [1.0] * 4}, None)
    agent.learn(([[1.0, 2.0, 3.0, 4.0]], [0.5]))
    monkeypatch.setattr("adadim.agent.tables.BATCH_ROWS", 70)
    log = pl.read_parquet(agent.export(tmp_path / "new" / "log.parquet"))
    assert log["decision"].to_list() == list(range(1, 28))
    assert log["policy"].to_list() == [1] * 26 + [None]
    empty = Agent.create(tmp_path / "b.db", dim=2).export(tmp_path / "empty.parquet")
    assert pl.read_parquet(empty).schema == log.schema


ODD_NAMES = ["1", "007", 'with "quotes", and a comma', "[2]", "été"]


def exported_twice(agent, folder):
    """The log of an agent, from a Parquet file and from a CSV file."""
    return [read_frame(agent.export(folder / f"log{kind}")) for kind in (".parquet", ".csv")]


@pytest.mark.filterwarnings("ignore::adadim.EvaluationWarning")
@pytest.mark.parametrize("design", [{"dim": 3}, {"context": 1, "arm": 2}], ids=["ready-made", "made"])
def test_csv_has_what_parquet_has(tmp_path, design, monkeypatch):
    rng = np.random.default_rng(0)
    with Agent.create(tmp_path / "a.db", **design, policy=adadim.Random()) as agent:
        agent.set_arms({name: rng.normal(size=2) for name in ODD_NAMES})
        for k in range(60):
            asked = agent.ask(context=rng.normal(size=1), slots=2 if k % 5 == 0 else None)
            if k % 4:
                agent.tell(
                    getattr(asked, "decisions", [asked])[0].id, float(rng.normal()) * 10.0 ** rng.integers(-9, 9)
                )
        agent.learn((rng.normal(size=(2, agent.dim)), [1.0, 2.0]))  # without an offer, an arm or a probability
        monkeypatch.setattr("adadim.agent.tables.BATCH_ROWS", 70)  # several batches
        parquet, csv = exported_twice(agent, tmp_path)
        text = (tmp_path / "log.csv").read_text(encoding="utf-8").splitlines()
    assert text[0] == ",".join(parquet.columns)
    assert len(text) == 1 + len(parquet) == 1 + 60 + 12 + 2
    assert csv.columns == parquet.columns
    for name in parquet.columns:
        assert csv[name].to_list() == parquet[name].to_list(), name
    with Agent.create(tmp_path / "b.db", dim=agent.dim) as one, Agent.create(tmp_path / "c.db", dim=agent.dim) as two:
        assert one.learn(tmp_path / "log.parquet") == two.learn(tmp_path / "log.csv") == 47
        assert one.learn(tmp_path / "log.csv") == 0  # it is the same log
    for policy in (adadim.recommended, adadim.Greedy()):
        found = [adadim.evaluate(policy, tmp_path / f"log{kind}", warmup=0) for kind in (".parquet", ".csv")]
        assert found[0].estimates == found[1].estimates


def test_an_empty_log_in_csv_has_its_heading(tmp_path):
    with Agent.create(tmp_path / "a.db", dim=2) as agent:
        parquet, csv = exported_twice(agent, tmp_path)
    assert csv.columns == parquet.columns
    assert len(csv) == 0


@pytest.mark.parametrize("name", ["log.json", "log", "log.CSV", "log.parquet.gz", "log.ndjson"])
def test_a_log_is_not_exported_under_another_name(tmp_path, name):
    with Agent.create(tmp_path / "a.db", dim=2) as agent:
        assert_refuses(ValueError, rf"path must end in .parquet or .csv, got '.*{name}'", agent.export, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_a_context_is_exported_on_its_own(tmp_path):
    agent = Agent.create(tmp_path / "a.db", dim=3)
    agent.ask({"x": [5.0]}, context=[1.0, 2.0])
    row = pl.read_parquet(agent.export(tmp_path / "log.parquet")).row(0, named=True)
    assert (row["features"], row["context"], row["offered_features"]) == ([1.0, 2.0, 5.0], [1.0, 2.0], [5.0])


BAD = [
    (3, "a log must be a DataFrame"),
    ([3], "a record of a log must be a dict"),
    ({"features": [[1, 2, 3]]}, "needs the column 'reward'"),
    ({"reward": [1.0]}, "needs the column 'features', lists of 3 numbers, or x1 to x3; x1 is missing"),
    ({"reward": [1.0], "features": [[1, 2]]}, "features must be 3 numbers in each of 1 rows"),
    ({"reward": [1.0, 2.0], "features": [[1, 2, 3], [1, 2]]}, "features must be 3 numbers"),
    ({"reward": [1.0], "features": [["a", "b", "c"]]}, "features must be 3 numbers"),
    (
        {"reward": [1.0], "features": [[1, 2, float("nan")]]},
        r"finite and at most 1e\+30 in size, but row 1 is not",
    ),
    (
        {"reward": [float("inf")], "features": [[1, 2, 3]]},
        r"finite and at most 1e\+30 in size, but row 1 is not",
    ),
    ({"reward": ["much"], "features": [[1, 2, 3]]}, "column 'reward' of the log must hold numbers, but row 1"),
    ({"reward": [None], "features": [[1, 2, 3]]}, "no row with a reward"),
    ({"reward": [1.0], "features": [[1, 2, 3]], "probability": [0.0]}, r"probability must be in \(0, 1\]"),
    ({"reward": [1.0], "features": [[1, 2, 3]], "arm": [""]}, "name of an arm"),
    ({"reward": [1.0, 2.0], "features": [[1, 2, 3]]}, "must have the same number of rows"),
    ((X, R[:3]), "features must be 3 numbers in each of 3 rows"),
    ("nowhere.parquet", "no such file"),
    ("log.txt", "must be a .parquet, .csv or .ndjson file"),
]


@pytest.mark.parametrize(("log", "message"), BAD, ids=lambda value: str(value)[:50])
def test_bad_logs_are_refused_and_nothing_is_written(tmp_path, log, message):
    agent = Agent.create(tmp_path / "a.db", dim=3)
    assert_refuses((ValueError, TypeError), message, agent.learn, log)
    assert agent.status()["learned"] == 0
