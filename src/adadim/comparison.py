"""The standing comparison: every policy of the library on families of problems that differ in kind.

The families are split into "development" and "held-out", and the split was fixed before any policy was run on any of
them. Parameters of policies are chosen on the first alone; the second is for reporting. Both hold every kind of problem
with other parameters, and some things are held-out only: a spike at d* = 100, binary features of which all matter,
clicks over 20,000 rounds, a target that no prefix of the features explains. A family may be added to the
development split at any time; one whose results have been looked at may not become held-out. A third group, "paper",
holds the configurations of the paper's figures 2b, 3b, 4a and 4b.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from adadim import paper
from adadim.policies import (
    UCB,
    Corral,
    DynamicBalancing,
    EvidenceLinUCB,
    Greedy,
    LinUCB,
    LinUCBPlusPlus,
    LinUCBPlusPlusCorral,
    Random,
    SmoothCorral,
    SupLinUCB,
    TaperedLinUCB,
)
from adadim.study import Study, StudyError, to_spec
from adadim.study.kinds import suggestion

__all__ = ["FAMILIES", "LEFT_OUT", "ORACLE", "PUBLISHED", "SPLITS", "Family", "Split", "policies", "study"]

Split = Literal["development", "held-out", "paper"]
SPLITS: tuple[Split, ...] = ("development", "held-out", "paper")

ORACLE, PUBLISHED = "oracle", "linucb++"
"""The policies that all others are measured against: LinUCB told d*, and the paper's Algorithm 1."""

LEFT_OUT = {"Single": "an adapter for policies of the reader's own, not a policy"}
"""Public policies of the library that the comparison does not run, and why."""

RECORDS = 10

Dims = tuple[int, int]  # d* and d
Named = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Family:
    """Problems of one kind at one setting of its parameters, one for each replication.

    Attributes
    ----------
    name : str
        What it is called in tables.
    split : {"development", "held-out", "paper"}
        What it may be used for.
    instance : dict
        The instance as in a `Study`. Its `intrinsic_dim` is d*, which only the oracle is told.
    """

    name: str
    split: Split
    instance: dict[str, Any]


def _drawn(kind: str, theta: str, dims: Dims, arms: int, horizon: int, noise: float, **more: Any) -> Named:
    """Arms drawn at random, theta of a shape."""
    return _sized(f"{kind}-{theta}", kind, dims, arms=arms, horizon=horizon, noise=noise, theta=theta, **more)


def _data(data: str, dims: Dims, arms: int, horizon: int, noise: float, **more: Any) -> Named:
    """Real samples."""
    return _sized(data, "pca", dims, data=data, arms=arms, horizon=horizon, noise=noise, **more)


def _clicks(theta: str, dims: Dims, arms: int, horizon: int) -> Named:
    """Bernoulli rewards."""
    return _sized(f"clicks-{theta}", "clicks", dims, arms=arms, horizon=horizon, theta=theta)


def _sized(name: str, kind: str, dims: Dims, **parameters: Any) -> Named:
    return f"{name}-{dims[0]}/{dims[1]}", {"kind": kind, "dim": dims[1], "intrinsic_dim": dims[0], **parameters}


def _hidden(dims: Dims, horizon: int, delta: float, target: int) -> Named:
    """Member of the lower-bound family at alpha = 1/2, where d = sqrt(T)."""
    known = {"alpha": 0.5, "delta": delta, "target": target, "intrinsic_dim": dims[0]}
    return f"lower-bound-{dims[0]}/{dims[1]}", {"kind": "lower_bound", "horizon": horizon, **known}


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
    _clicks("uniform", (6, 100), arms=200, horizon=4000),
    _clicks("flip", (12, 300), arms=300, horizon=2000),
    _hidden((1, 50), horizon=2500, delta=0.3, target=0),
    _hidden((35, 50), horizon=2500, delta=0.3, target=10),
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
    _clicks("decay", (10, 40), arms=100, horizon=20_000),
    _clicks("spike", (3, 200), arms=300, horizon=1000),
    _hidden((1, 64), horizon=4096, delta=0.2, target=0),
    _hidden((52, 64), horizon=4096, delta=0.2, target=20),
)

PAPER = tuple(
    (f"{figure}-{name}", instance)
    for figure in ("fig2b", "fig3b", "fig4a", "fig4b")
    for name, instance in paper.FIGURES[figure].instances().items()
)

FAMILIES: tuple[Family, ...] = tuple(
    Family(name, split, instance)
    for split, table in zip(SPLITS, (DEVELOPMENT, HELD_OUT, PAPER), strict=True)
    for name, instance in table
)
"""Every family of the comparison, by split."""


def policies() -> dict[str, Any]:
    """Every policy of the library by the name it has in the comparison, as a `Study` takes them.

    Those of the paper are there as its text has them; of the released variants, LinUCB++ and the oracle. The oracle
    is told d* as ``"@intrinsic_dim"``.

    Examples
    --------
    >>> list(policies())[:3]
    ['oracle', 'linucb++', 'recommended']
    """
    told = {"dim": "@intrinsic_dim"}
    # Learners in some features use the arms supported on them; where the set is not expressive, those are all arms.
    base = LinUCB(arms="supported")
    return {
        ORACLE: {**to_spec(LinUCB(dim=1)), **told},
        PUBLISHED: LinUCBPlusPlus(),
        "recommended": EvidenceLinUCB(),
        "tapered": TaperedLinUCB(),
        "linucb++reuse": LinUCBPlusPlus(reuse=True),
        "linucb": LinUCB(),
        "greedy": Greedy(),
        "linucb++corral": LinUCBPlusPlusCorral(),
        "smooth-corral": SmoothCorral(base=base),
        "corral": Corral(base=base),
        "dynamic-balancing": DynamicBalancing(base=base),
        "suplinucb": SupLinUCB(),
        "ucb": UCB(),
        "random": Random(),
        "linucb++released": LinUCBPlusPlus(bonus="squared", rescale=True),
        "oracle-released": {**to_spec(LinUCB(bonus="squared", dim=1)), **told},
    }


def study(
    split: Split,
    trials: int = 20,
    seed: int = 0,
    policy: Sequence[str] | None = None,
    family: Sequence[str] | None = None,
    candidates: Mapping[str, Any] | None = None,
    plugins: Mapping[str, Any] | None = None,
) -> Study:
    """The comparison on one group of families, as a study.

    Parameters
    ----------
    split : {"development", "held-out", "paper"}
        Which families.
    trials, seed
        As in `Study`.
    policy : sequence of str, optional
        Keys of `policies` to run; by default all. The two references are always among them.
    family : sequence of str, optional
        Names of families of that split to run on; by default all.
    candidates : mapping, optional
        Further policies by name, as a `Study` takes them; "@intrinsic_dim" stands for d*, which a fair one is not told.
    plugins : mapping, optional
        As in `Study`, for candidates of the user's own.

    Examples
    --------
    >>> plan = study("development", trials=3, policy=["tapered"], family=["lower-bound-1/50"])
    >>> [cell.policy for cell in plan.cells]
    ['oracle', 'linucb++', 'tapered']
    """
    if split not in SPLITS:
        raise StudyError(f"split: must be one of {', '.join(map(repr, SPLITS))}, got {split!r}")
    available = policies()
    instances = {f.name: f.instance for f in FAMILIES if f.split == split}
    wanted = None if policy is None else {ORACLE, PUBLISHED, *policy}
    for name in candidates or {}:
        if name in available:
            raise StudyError(f"candidates.{name}: there is a policy of that name already; give it another")
    return Study(
        name=f"regret-{split}",
        instances=_chosen(instances, family, "family"),
        policies=_chosen(available, wanted, "policy") | dict(candidates or {}),
        trials=trials,
        seed=seed,
        record=RECORDS,
        plugins=plugins or {},
    )


def _chosen(table: dict[str, Any], names: Collection[str] | None, what: str) -> dict[str, Any]:
    for name in names or ():
        if name not in table:
            raise StudyError(f"{what}: none is called {name!r}; {suggestion(name, table)}")
    return {name: value for name, value in table.items() if names is None or name in names}
