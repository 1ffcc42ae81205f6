"""The families of problems that policies are compared on.

They are split into "development" and "held-out", and the split was fixed before any policy was run on any of
them. Parameters of policies are chosen on the first alone; the second is for reporting. Both hold every kind of problem
with other parameters, and some things are held-out only: a spike at d* = 100, binary features of which all matter,
clicks over 20,000 rounds, a target that no prefix of the features explains. A family may be added to the
development split at any time; one whose results have been looked at may not become held-out. A third group, "paper",
holds the configurations of the paper's figures 2b, 3b, 4a and 4b.

Where features come with each round there are two groups more, "contexts" for development and "contexts-held-out". Unit
norms and decaying theta are held-out only. The real tables with labels go to the two alternately, in the order of the
alphabet: digits, optdigits and satimage for development, letter, penbased and yeast held-out.

Where rewards come late there are two groups too, "late" and "late-held-out", with fixed arms and features that come
with each round, Gaussian rewards and clicks; rewards take 100 rounds, 1,000, a geometric number, or anything from 200
to 2,000, and of some one in ten never come. No combination of features, theta and d*/d is in both, and balls,
heavy tails, and unit norms, repeated sets and decaying theta of features that come with each round are held-out only.
After a first look at three of the development group, and at none of the other, the horizon of those with delays from
200 to 2,000 was raised to 12,000 in both: in 6,000 rounds much of the loss is that no reward has come.

Problems as users have them are in two groups more, "everyday" and "everyday-held-out": columns in no order or in the
wrong one, one-hot columns, groups of arms, counts of words, correlated columns, rewards far from zero with and without
a constant column, late rewards; heavy tails are held-out only. The splits of late and of everyday problems, and the
rule for choosing the recommended policy (docs/notebook/how-the-default-was-chosen.md), were written down before any
policy was run on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from adadim.experiments.paper.plan import FIGURES

Split = Literal[
    "development",
    "held-out",
    "paper",
    "contexts",
    "contexts-held-out",
    "late",
    "late-held-out",
    "everyday",
    "everyday-held-out",
]
SPLITS: tuple[Split, ...] = get_args(Split)
CONTEXTUAL: tuple[Split, ...] = ("contexts", "contexts-held-out")
"""Groups in which features come with each round."""
LATE: tuple[Split, ...] = ("late", "late-held-out", "everyday", "everyday-held-out")
"""Groups in which rewards come late, of some families at least."""

Dims = tuple[int, int]  # d* and d
Named = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Family:
    """Problems of one kind at one setting of its parameters, one for each replication.

    It has the name that tables give it, the split that says what it may be used for, and the instance as in a `Study`,
    whose `intrinsic_dim` is d*, which only the oracle is told.
    """

    name: str
    split: Split
    instance: dict[str, Any]

    @property
    def contextual(self) -> bool:
        """Whether features come with each round."""
        return self.instance["kind"] in ("contexts", "labelled") or self.instance.get("per_round", False)


def _family(name: str, kind: str, dims: Dims, **parameters: Any) -> Named:
    return f"{name}-{dims[0]}/{dims[1]}", {"kind": kind, "dim": dims[1], "intrinsic_dim": dims[0], **parameters}


def _drawn(kind: str, theta: str, dims: Dims, **sizes: Any) -> Named:
    """Arms drawn at random, theta of a shape; "clicks" have Bernoulli rewards."""
    return _family(f"{kind}-{theta}", kind, dims, **sizes, theta=theta)


def _data(data: str, dims: Dims, **sizes: Any) -> Named:
    """Real samples."""
    return _family(data, "pca", dims, data=data, **sizes)


def _hidden(dims: Dims, horizon: int, delta: float, target: int) -> Named:
    """Member of the lower-bound family at alpha = 1/2, where d = sqrt(T)."""
    member = {"alpha": 0.5, "delta": delta, "target": target, "intrinsic_dim": dims[0]}
    return f"lower-bound-{dims[0]}/{dims[1]}", {"kind": "lower_bound", "horizon": horizon, **member}


def _contexts(distribution: str, theta: str, dims: Dims, **sizes: Any) -> Named:
    """Features drawn anew each round; clicks have Bernoulli rewards."""
    clicks = "clicks-" if sizes.get("rewards") == "bernoulli" else ""
    return _family(
        f"contexts-{clicks}{distribution}-{theta}", "contexts", dims, **sizes, distribution=distribution, theta=theta
    )


def _late(family: Named, never: float = 0.0, **delay: Any) -> Named:
    """A family with rewards that come late."""
    name, instance = family
    when = "-".join(str(value) for value in delay.values() if value != "uniform")  # from 200 to 2000: 200-2000
    return f"late-{when}-{name}", {**instance, "delay": {**delay, "never": never}}


def _everyday(distribution: str, dims: Dims, arms: int, horizon: int, noise: float, **more: Any) -> Named:
    """Problems as users have them; the name has distribution, constant, first and last of the features that matter."""
    kind = "rounds" if more.get("per_round") else "everyday"
    constant = f"-constant{more['constant']:+g}{'' if more.get('column') else '-hidden'}" if "constant" in more else ""
    name = f"{kind}-{distribution}{constant}-{more.get('first', 1)}to{dims[0]}/{dims[1]}"
    sizes = {"dim": dims[1], "intrinsic_dim": dims[0], "arms": arms, "horizon": horizon}
    more = {{"first": "first_relevant"}.get(key, key): value for key, value in more.items()}
    return name, {"kind": "everyday", **sizes, "noise": noise, "distribution": distribution, **more}


def _labels(data: str, covariates: int, arms: int, horizon: int) -> Named:
    """Labels of a real table to guess, by its first components; d* is unknown, so the oracle has all features."""
    dim = 1 + arms * (1 + covariates)
    sizes = {"covariates": covariates, "intrinsic_dim": dim, "horizon": horizon}
    return f"{data}-{dim}/{dim}", {"kind": "labelled", "data": data, **sizes}


DEVELOPMENT = (
    _drawn("sphere", "uniform", (5, 200), arms=400, horizon=2500, noise=0.1),
    _drawn("sphere", "uniform", (1, 100), arms=200, horizon=1000, noise=0.3),
    _drawn("sphere", "uniform", (60, 60), arms=200, horizon=3000, noise=0.1),
    _drawn("sphere", "decay", (12, 1000), arms=500, horizon=800, noise=0.03),
    _drawn("sphere", "decay", (10, 30), arms=100, horizon=20_000, noise=1.0),
    _drawn("sphere", "flip", (20, 400), arms=500, horizon=2000, noise=0.1),
    _drawn("sphere", "spike", (35, 300), arms=500, horizon=2000, noise=0.1),
    _drawn("sphere", "heavy", (200, 200), arms=400, horizon=2000, noise=0.1),
    _drawn("ball", "decay", (8, 100), arms=300, horizon=2000, noise=0.1),
    _drawn("ball", "flip", (15, 400), arms=400, horizon=1000, noise=0.03),
    _drawn("anisotropic", "uniform", (10, 300), arms=400, horizon=2000, noise=0.03, decay=1.0),
    _drawn("anisotropic", "flip", (30, 150), arms=300, horizon=1000, noise=0.1, decay=0.5),
    _drawn("products", "uniform", (10, 55), arms=100, horizon=2000, noise=0.1, attributes=10, expressive=True),
    _drawn("products", "decay", (78, 298), arms=80, horizon=1500, noise=0.03, attributes=12, expressive=True),
    _drawn("polynomials", "uniform", (10, 66), arms=300, horizon=2000, noise=0.03, variables=2),
    _data("digits", (12, 60), arms=400, horizon=2000, noise=0.1),
    _data("diabetes", (10, 100), arms=300, horizon=500, noise=0.3, kernel="rbf"),
    _drawn("clicks", "uniform", (6, 100), arms=200, horizon=4000),
    _drawn("clicks", "flip", (12, 300), arms=300, horizon=2000),
    _hidden((1, 50), horizon=2500, delta=0.3, target=0),
    _hidden((35, 50), horizon=2500, delta=0.3, target=10),
    _family("powers", "powers", (2, 4), arms=40, horizon=2000, noise=0.1, top=30.0),
)

HELD_OUT = (
    _drawn("sphere", "uniform", (100, 1000), arms=500, horizon=600, noise=0.03),
    _drawn("sphere", "uniform", (30, 30), arms=150, horizon=5000, noise=0.5),
    _drawn("sphere", "decay", (25, 500), arms=500, horizon=1500, noise=0.3),
    _drawn("sphere", "flip", (8, 60), arms=100, horizon=10_000, noise=1.0),
    _drawn("sphere", "spike", (3, 40), arms=100, horizon=500, noise=0.1),
    _drawn("sphere", "spike", (100, 400), arms=500, horizon=2500, noise=0.05),
    _drawn("sphere", "heavy", (50, 50), arms=150, horizon=8000, noise=0.3),
    _drawn("ball", "uniform", (30, 250), arms=400, horizon=1500, noise=0.1),
    _drawn("ball", "spike", (1, 50), arms=150, horizon=5000, noise=0.5),
    _drawn("anisotropic", "decay", (50, 500), arms=400, horizon=800, noise=0.03, decay=0.25),
    _drawn("anisotropic", "heavy", (300, 300), arms=400, horizon=1500, noise=0.05, decay=0.75),
    _drawn("products", "flip", (14, 105), arms=100, horizon=4000, noise=0.05, attributes=14, expressive=True),
    _drawn("products", "uniform", (36, 36), arms=100, horizon=1000, noise=0.3, attributes=8, expressive=True),
    _drawn("polynomials", "decay", (20, 84), arms=300, horizon=3000, noise=0.1, variables=3),
    _drawn("polynomials", "spike", (4, 30), arms=200, horizon=1000, noise=0.05, variables=1),
    _data("breast_cancer", (4, 30), arms=300, horizon=1000, noise=0.3),
    _data("digits", (400, 400), arms=400, horizon=1500, noise=0.2, kernel="rbf", linear=False),
    _drawn("clicks", "decay", (10, 40), arms=100, horizon=20_000),
    _drawn("clicks", "spike", (3, 200), arms=300, horizon=1000),
    _hidden((1, 64), horizon=4096, delta=0.2, target=0),
    _hidden((52, 64), horizon=4096, delta=0.2, target=20),
    _family("powers", "powers", (4, 7), arms=80, horizon=1200, noise=0.3, top=5.0),
)

PAPER_FAMILIES = tuple(
    (f"{figure}-{name}", instance)
    for figure in ("fig2b", "fig3b", "fig4a", "fig4b")
    for name, instance in FIGURES[figure].instances().items()
)

CONTEXTS = (
    _contexts("gaussian", "uniform", (4, 50), arms=20, horizon=3000, noise=0.1),
    _contexts("gaussian", "uniform", (1, 100), arms=10, horizon=1000, noise=0.3),
    _contexts("gaussian", "heavy", (100, 100), arms=20, horizon=2000, noise=0.1),
    _contexts("correlated", "flip", (10, 60), arms=10, horizon=2000, noise=0.1),
    _contexts("bounded", "uniform", (20, 20), arms=30, horizon=2000, noise=0.3),
    _contexts("repeated", "spike", (8, 80), arms=20, horizon=1500, noise=0.1),
    _labels("digits", 20, arms=10, horizon=1797),
    _labels("optdigits", 30, arms=10, horizon=2000),
    _labels("satimage", 36, arms=6, horizon=2000),
)

CONTEXTS_HELD_OUT = (
    _contexts("gaussian", "decay", (6, 120), arms=15, horizon=2500, noise=0.3),
    _contexts("sphere", "uniform", (1, 60), arms=20, horizon=2000, noise=0.1),
    _contexts("sphere", "decay", (30, 30), arms=50, horizon=3000, noise=0.3),
    _contexts("correlated", "spike", (5, 100), arms=20, horizon=1500, noise=0.05),
    _contexts("bounded", "flip", (12, 40), arms=10, horizon=4000, noise=0.1),
    _contexts("repeated", "heavy", (50, 50), arms=10, horizon=1000, noise=0.3),
    _labels("letter", 16, arms=26, horizon=3000),
    _labels("penbased", 16, arms=10, horizon=2500),
    _labels("yeast", 30, arms=14, horizon=2417),
)

CLICKS: dict[str, Any] = {"rewards": "bernoulli"}
SLOW: dict[str, Any] = {"distribution": "uniform", "least": 200, "most": 2000, "never": 0.1}

LATE_DEVELOPMENT = (
    _late(_drawn("sphere", "uniform", (5, 100), arms=200, horizon=4000, noise=0.1), rounds=100),
    _late(_drawn("sphere", "decay", (20, 60), arms=150, horizon=4000, noise=0.3), rounds=1000),
    _late(
        _drawn("anisotropic", "flip", (10, 80), arms=200, horizon=3000, noise=0.1, decay=0.5),
        distribution="geometric",
        mean=300,
        never=0.1,
    ),
    _late(_drawn("clicks", "uniform", (6, 40), arms=100, horizon=12_000), **SLOW),
    _late(_contexts("gaussian", "uniform", (4, 50), arms=20, horizon=4000, noise=0.1), rounds=1000),
    _late(_contexts("correlated", "flip", (10, 60), arms=10, horizon=3000, noise=0.1), rounds=100, never=0.1),
    _late(
        _contexts("bounded", "uniform", (20, 20), arms=30, horizon=4000, noise=0.3), distribution="geometric", mean=500
    ),
    _late(_contexts("gaussian", "uniform", (5, 30), **CLICKS, arms=20, horizon=12_000), **SLOW),
)

LATE_HELD_OUT = (
    _late(_drawn("sphere", "flip", (8, 60), arms=150, horizon=5000, noise=0.3), rounds=1000),
    _late(_drawn("ball", "decay", (12, 120), arms=300, horizon=3000, noise=0.1), rounds=100),
    _late(_drawn("sphere", "heavy", (50, 50), arms=200, horizon=12_000, noise=0.1), **SLOW),
    _late(_drawn("clicks", "decay", (10, 30), arms=100, horizon=6000), distribution="geometric", mean=300, never=0.1),
    _late(_contexts("sphere", "decay", (30, 30), arms=40, horizon=4000, noise=0.3), rounds=100),
    _late(_contexts("gaussian", "decay", (6, 80), arms=15, horizon=12_000, noise=0.3), **SLOW),
    _late(_contexts("repeated", "heavy", (30, 30), arms=10, horizon=3000, noise=0.3), rounds=1000),
    _late(
        _contexts("sphere", "decay", (8, 24), **CLICKS, arms=15, horizon=6000),
        distribution="geometric",
        mean=500,
        never=0.1,
    ),
)

PER_ROUND: dict[str, Any] = {"per_round": True}
COLUMN: dict[str, Any] = {"column": True}

EVERYDAY = (
    _everyday("gaussian", (60, 60), arms=150, horizon=2000, noise=1.0, first=58),
    _everyday("one-hot", (30, 30), arms=30, horizon=2000, noise=1.0),
    _everyday("counts", (40, 100), arms=200, horizon=2000, noise=1.0, first=15),
    _everyday("gaussian", (8, 12), arms=60, horizon=2000, noise=3.0, first=2, constant=20.0, **COLUMN),
    _everyday("binary", (6, 20), arms=100, horizon=2000, noise=2.0, constant=50.0),
    _everyday("correlated", (25, 40), arms=150, horizon=1500, noise=1.0, first=21),
    _everyday("groups", (104, 104), arms=96, horizon=2000, noise=0.5),
    _everyday("binary", (36, 50), arms=120, horizon=1500, noise=1.0, first=30, constant=5.0, **COLUMN),
    _everyday("correlated", (30, 30), arms=10, horizon=1500, noise=1.0, first=29, **PER_ROUND),
    _everyday("one-hot", (40, 40), arms=8, horizon=1500, noise=1.0, **PER_ROUND),
    _everyday("counts", (30, 60), arms=15, horizon=1500, noise=1.0, first=10, **PER_ROUND),
    _everyday("gaussian", (5, 15), arms=10, horizon=1500, noise=2.0, first=2, constant=20.0, **COLUMN, **PER_ROUND),
    _everyday("gaussian", (4, 30), arms=10, horizon=1500, noise=1.0, constant=-30.0, **PER_ROUND),
    _late(_everyday("gaussian", (40, 40), arms=100, horizon=2000, noise=1.0, first=38), rounds=100),
    _late(_everyday("binary", (5, 20), arms=10, horizon=1500, noise=1.0, constant=10.0, **PER_ROUND), rounds=100),
)

EVERYDAY_HELD_OUT = (
    _everyday("heavy", (45, 80), arms=200, horizon=1500, noise=1.0, first=40),
    _everyday("one-hot", (50, 50), arms=50, horizon=2500, noise=0.7),
    _everyday("counts", (60, 80), arms=150, horizon=2500, noise=1.5, first=30),
    _everyday("binary", (10, 16), arms=80, horizon=2000, noise=4.0, first=2, constant=50.0, **COLUMN),
    _everyday("gaussian", (5, 25), arms=150, horizon=1500, noise=2.0, constant=-20.0),
    _everyday("correlated", (40, 60), arms=120, horizon=2000, noise=0.7, first=35),
    _everyday("groups", (65, 65), arms=60, horizon=1500, noise=1.0),
    _everyday("gaussian", (30, 30), arms=100, horizon=1000, noise=1.0, first=12, constant=5.0, **COLUMN),
    _everyday("heavy", (20, 20), arms=12, horizon=2000, noise=1.0, first=19, **PER_ROUND),
    _everyday("one-hot", (36, 36), arms=6, horizon=2000, noise=0.7, **PER_ROUND),
    _everyday("counts", (20, 40), arms=10, horizon=2000, noise=0.7, first=5, **PER_ROUND),
    _everyday("binary", (6, 25), arms=12, horizon=1500, noise=3.0, first=2, constant=50.0, **COLUMN, **PER_ROUND),
    _everyday("correlated", (6, 40), arms=10, horizon=2000, noise=1.0, constant=8.0, **PER_ROUND),
    _late(_everyday("one-hot", (24, 24), arms=24, horizon=2500, noise=1.0), distribution="geometric", mean=150),
    _late(
        _everyday(
            "correlated", (25, 25), arms=10, horizon=2000, noise=1.0, first=22, constant=15.0, **COLUMN, **PER_ROUND
        ),
        rounds=200,
    ),
)

SPLIT_TABLES = (
    DEVELOPMENT,
    HELD_OUT,
    PAPER_FAMILIES,
    CONTEXTS,
    CONTEXTS_HELD_OUT,
    LATE_DEVELOPMENT,
    LATE_HELD_OUT,
    EVERYDAY,
    EVERYDAY_HELD_OUT,
)
FAMILIES: tuple[Family, ...] = tuple(
    Family(name, split, instance) for split, table in zip(SPLITS, SPLIT_TABLES, strict=True) for name, instance in table
)
"""Every family of the comparison, by split."""
