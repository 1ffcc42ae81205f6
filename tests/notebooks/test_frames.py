"""Tables of pandas and polars as features, and results as such tables."""

import numpy as np
import pytest

import adadim
from adadim.study import Study, run

NAMES = ["constant", "price", "age", "clicks"]


@pytest.fixture(params=["pandas", "polars"])
def library(request):
    return pytest.importorskip(request.param)


@pytest.fixture
def numbers():
    values = np.random.default_rng(0).standard_normal((60, 4))
    values[:, 0] = 1.0
    return values / 4  # no arm is longer than 1


def frame(library, numbers):
    return library.DataFrame({name: numbers[:, i] for i, name in enumerate(NAMES)})


def test_problems_of_tables_are_those_of_their_numbers(library, numbers):
    table = frame(library, numbers)
    named, plain = (adadim.Problem(x, horizon=50, noise=0.1) for x in (table, numbers))
    assert named.names == tuple(NAMES)
    assert plain.names is None
    np.testing.assert_array_equal(named.actions.base, plain.actions.base)
    arms = []
    for problem in (named, plain):
        learner = adadim.EvidenceLinUCB().start(problem, seed=3)
        for _ in range(30):
            arm = learner.select()
            learner.update(arm, float(numbers[arm, :2].sum()))
            arms.append(arm)
    assert arms[:30] == arms[30:]
    assert "constant, price, age, clicks" in named._repr_html_()


def test_column_names_are_shown_in_answers(library, numbers):
    table = frame(library, numbers)
    rewards = numbers[:, 0] + 2 * numbers[:, 1] + 0.01 * np.random.default_rng(1).standard_normal(60)
    found = adadim.dimension(table, rewards)
    assert found.names == tuple(NAMES)
    assert str(found).startswith("2 of 4 features matter, up to 'price', (probability ")
    assert str(adadim.dimension(numbers, rewards)).startswith("2 of 4 features matter (probability ")
    np.testing.assert_array_equal(found.probabilities, adadim.dimension(numbers, rewards).probabilities)
    by_level = adadim.dimension(table, rewards, levels={"basic": 2, "all": 4})
    assert "up to 'basic'," in str(by_level)
    learner = adadim.LinUCB(dim=3).start(adadim.Problem(table, horizon=50, noise=0.1))
    learner.update(learner.select(), 1.0)
    assert learner.describe()["features"] == ["constant", "price", "age"]
    assert "features" not in adadim.LinUCB().start(adadim.Problem(numbers, horizon=9, noise=0.1)).describe()
    instance = adadim.Instance(table, theta=[1.0, 2.0, 0.0, 0.0], horizon=200, noise=0.1)
    learner = adadim.simulate(adadim.EvidenceLinUCB(), instance).learner
    assert learner.dimension().names == tuple(NAMES)


def test_integers_and_booleans_are_numbers_and_text_is_not(library):
    table = library.DataFrame({"constant": [1, 0], "new": [False, True]})
    assert adadim.Problem(table, horizon=9).actions.base.tolist() == [[[1.0, 0.0], [0.0, 1.0]]]
    with pytest.raises(TypeError, match=r"column 'colour' must hold numbers without gaps, but is .*drop it"):
        adadim.Problem(library.DataFrame({"a": [1.0], "colour": ["red"]}), horizon=9)
    gap = library.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1.0, float("nan"), 2.0]})
    for call in (lambda: adadim.Problem(gap, horizon=9), lambda: adadim.dimension(gap, [1.0, 2.0, 3.0])):
        with pytest.raises(ValueError, match="column 'b' must hold finite numbers, but row 2 has nan; drop such rows"):
            call()


def test_columns_of_one_name():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match="must have different names"):
        adadim.Problem(pandas.DataFrame([[1.0, 2.0]], columns=["a", "a"]), horizon=9)


def test_outcomes_results_and_dimensions_as_tables(library, tmp_path, numbers):
    name = library.__name__

    def table(thing):
        made = getattr(thing, f"to_{name}")()
        assert isinstance(made, library.DataFrame)
        return {column: list(made[column]) for column in made.columns}

    sizes = {"arms": 12, "dim": 6, "intrinsic_dim": 2, "horizon": 40}
    outcome = adadim.simulate(adadim.UCB(), adadim.instances.sphere(**sizes, replications=[4, 9]), record=2)
    found = table(outcome)
    assert found["replication"] == [4, 4, 9, 9]
    assert found["time"] == [20, 40, 20, 40]
    assert found["regret"] == outcome.regret.ravel().tolist()
    results = run(Study("s", {"i": {"kind": "sphere", **sizes}}, {"u": adadim.UCB()}, 2, record=1), tmp_path, jobs=1)
    found = table(results)
    assert found["policy"] == ["u", "u"]
    assert found["regret"] == results.final("i", "u").tolist()
    dimension = adadim.dimension(frame(library, numbers), numbers[:, 1])
    found = table(dimension)
    assert found["features"] == [1, 2, 3, 4]
    assert found["name"] == NAMES
    assert found["probability"] == dimension.probabilities.tolist()
    assert found["tail"] == pytest.approx(dimension.tail.tolist())
    assert set(table(outcome_dimension(sizes))) == {"replication", "features", "probability", "prior", "tail"}


def outcome_dimension(sizes):
    instance = adadim.instances.sphere(**sizes, replications=range(2))
    return adadim.simulate(adadim.LinUCB(), instance).learner.dimension()


def test_without_pandas(monkeypatch):
    instance = adadim.Instance(np.eye(2), theta=[0.9, 0.1], horizon=5, noise=0.1)
    outcome = adadim.simulate(adadim.UCB(), instance)
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas; or use to_polars"):
        outcome.to_pandas()
    assert outcome.to_polars().height == 5
