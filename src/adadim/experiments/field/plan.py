"""What is run: each source's experiments as a study, and the numbers it reports."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from adadim import policies as library
from adadim.core.checks import integer, one_of
from adadim.experiments.field.learners import CONFIDENCE, NESTED, OwnArmsUCB, masters
from adadim.policies.base import Policy
from adadim.study import Study

EXPERIMENT = "field"  # label of the studies of this experiment
READING = 0.03  # relative error of a number read off a figure


@dataclass(frozen=True)
class Reported:
    """A number of a source: instance and policy as in the study, the mean regret reported.

    The error is half the width of its 95% interval, or of what a figure can be read to. The remark says what the number
    really measured, or what had to be guessed.
    """

    instance: str
    policy: str
    value: float
    error: float
    remark: str = ""


@dataclass(frozen=True)
class PublishedTable:
    """The experiments of one source: the paper, as many trials as it has, and what a `Study` takes.

    `reported` are the source's numbers, `horizons` its rounds by instance, where they are not those run by default.
    `on_sphere` are numbers of "d3rb24" where arms are all points of the sphere; the study does not run these.
    """

    name: str
    source: str
    trials: int
    instances: Mapping[str, Mapping[str, Any]]
    policies: Mapping[str, Policy]
    only: Mapping[str, Sequence[str]]
    reported: Sequence[Reported]
    horizons: Mapping[str, int] = field(default_factory=dict)
    on_sphere: Sequence[Reported] = ()

    def source_horizon(self, instance: str) -> int:
        """Rounds that the source has."""
        return self.horizons[instance] if instance in self.horizons else int(self.instances[instance]["horizon"])


def study(name: str, trials: int | None = None, seed: int = 0, horizon: int | None = None) -> Study:
    """The study behind one of `TABLES`.

    Trials and rounds, fewer to try it out, are by default as many as the source has ("arora21": a tenth of the rounds).

    Examples
    --------
    >>> plan = study("osom20", trials=3)
    >>> plan.name, [cell.policy for cell in plan.cells][:3]
    ('osom20', ['ucb', 'oful', 'osom'])
    """
    table = TABLES[one_of(name, "name", tuple(TABLES))]
    instances = {key: dict(value) for key, value in table.instances.items()}
    if horizon is not None:
        integer(horizon, "horizon", meaning="the number of rounds")
        instances = {key: {**value, "horizon": horizon} for key, value in instances.items()}
    return Study(
        name=name,
        instances=instances,
        policies=dict(table.policies),
        trials=table.trials if trials is None else trials,
        seed=seed,
        record=10,
        only=dict(table.only),
        labels={
            "title": table.source,
            "experiment": EXPERIMENT,
            "table": name,
            "instances": {key: {"horizon": value["horizon"]} for key, value in instances.items()},
        },
    )


def _read_off(values: Mapping[str, Sequence[int]], policies: Iterable[str], remark: str) -> list[Reported]:
    """Numbers read off a figure: instance to one for each of the policies."""
    return [
        Reported(instance, policy, value, READING * value, remark)
        for instance, row in values.items()
        for policy, value in zip(policies, row, strict=True)
    ]


def sampler(dim: int, factor: float) -> Policy:
    """Thompson sampling with draws theta_hat + factor sqrt(d) V^(-1/2) xi (noise 1); greedy if the factor is 0."""
    if factor == 0:
        return library.Greedy(ridge=1.0, dim=dim)
    return library.LinTS(ridge=1.0, dim=dim, scale=factor * math.sqrt(dim))


def _d3rb24() -> PublishedTable:
    common = {"kind": "sphere_rounds", "arms": 10, "noise": 1.0}
    leading = np.arange(5) / np.linalg.norm(np.arange(5))
    exp4 = {**common, "theta": [float(i) for i in range(10)], "horizon": 1000}
    exp6 = {**common, "theta": [*leading.tolist(), *[0.0] * 10], "horizon": 20_000}
    groups = {  # instance: its table, and the bases
        "exp4-released": ({**exp4, "noise_mean": 1.0}, [sampler(10, c) for c in CONFIDENCE]),
        "exp4-printed": (exp4, [sampler(10, c) for c in CONFIDENCE]),
        "exp6-released": ({**exp6, "noise_mean": 1.0}, [sampler(d, float(d)) for d in NESTED]),
        "exp6-printed": (exp6, [sampler(d, 2.0) for d in NESTED]),
    }
    printed = "the algorithm and the noise as the paper has them, against a number that its code made"
    released = "made with the authors' code: noise of mean 1, masters that divide by sqrt(n)"
    scaled = f"{released}, Thompson sampling of scale d_i"
    others = {
        "corral": "as that code has it: losses 1 - reward not clipped, eta = 0.1 / sqrt(T), smoothing fed back",
        "rb-grid": "as that code has it: each base floor(ln T) times, with coefficients 1, 2, 4 and so on",
        "ucb": "as that code has it: indices of at most 1, which most bases reach",
        "greedy": "as that code has it: means above 1 count as 1",
        "exp3": "as that code has it: rewards not clipped, sums discounted by 0.9",
    }

    def published(experiment: str, values: Sequence[int], errors: Sequence[int], remark: str) -> list[Reported]:
        """Numbers of the seven masters: for the released variant of all, and for the printed one of two."""
        balancing = ("d3rb", "ed2rb")
        numbers = dict(zip((*balancing, *others), zip(values, errors, strict=True), strict=True))
        remarks = {"released": dict.fromkeys(balancing, remark) | others, "printed": dict.fromkeys(balancing, printed)}
        return [
            Reported(f"{experiment}-{variant}", f"{experiment}-{variant}-{name}", *numbers[name], text)
            for variant, by_name in remarks.items()
            for name, text in by_name.items()
        ]

    exp4_values = (411, 406, 1632, 1073, 1644, 991, 1086), (100, 94, 30, 184, 160, 298, 70)
    exp5_values = (1733, 1556, 3166, 4223, 3932, 3385, 3315), (230, 198, 26, 40, 16, 306, 20)
    exp6_values = (2347, 2365, 5294, 6258, 5718, 4778, 5742), (102, 96, 44, 38, 50, 506, 46)
    reported = [
        *published("exp4", *exp4_values, released),
        *published("exp6", *exp6_values, scaled),
        *(
            Reported("exp6-released", f"exp6-released-dim-{d}", value, error, "authors' stored runs")
            for d, value, error in ((2, 7334, 183), (5, 763, 28), (10, 3898, 25), (15, 6495, 17))
        ),
    ]
    later = {  # EXP3 was another one in that run
        "d3rb": (1009, 120),
        "ed2rb": (1017, 116),
        "corral": (2599, 40),
        "rb-grid": (3151, 70),
        "ucb": (3031, 41),
        "greedy": (2185, 308),
    }
    stored = "a later run of the authors, stored beside their code"
    on_sphere = [
        *(Reported("exp3-released", f"exp3-released-{name}", *numbers, stored) for name, numbers in later.items()),
        *published("exp5", *exp5_values, scaled),
    ]
    policies: dict[str, Policy] = {f"exp6-released-dim-{d}": sampler(d, float(d)) for d in NESTED}
    for instance, (_, bases) in groups.items():
        played = masters(tuple(bases), instance.split("-")[1])
        policies |= {f"{instance}-{name}": policy for name, policy in played.items()}
    only = {entry.policy: [entry.instance] for entry in reported}
    instances = {instance: table for instance, (table, _) in groups.items()}
    horizons = dict.fromkeys((entry.instance for entry in on_sphere), 1000)
    source = "Pacchiano, Dann and Gentile 2024, table 1"
    return PublishedTable("d3rb24", source, 100, instances, policies, only, reported, horizons, on_sphere)


def _osom20() -> PublishedTable:
    common = {"kind": "biased_arms", "arms": 5, "dim": 50, "horizon": 300, "noise": 1.0}
    instances = {"simple": {**common, "norm": 0.0}, "complex": {**common, "norm": 1.0}}
    policies = {"ucb": library.OSOM(model="simple"), "oful": library.OSOM(model="complex"), "osom": library.OSOM()}
    guessed = "delta and the shape of the ellipsoid are not given; read off a figure"
    # Measured over 200 replications: the arm of the largest mu alone loses 6 in 300 rounds to features of norm 1.
    too_much = (
        "with theta and contexts of norm 1, always playing the arm of the largest mu loses 6 in 300 rounds: a regret "
        "of 200 was made with larger ones"
    )
    values = {"simple": (27, 60, 28), "complex": (200, 38, 34)}
    reported = _read_off(values, policies, guessed)
    reported[3] = replace(reported[3], remark=too_much)
    source = "Chatterji, Muthukumar and Bartlett 2020, experiments"
    return PublishedTable("osom20", source, 50, instances, policies, {}, reported)


def _albdim21() -> PublishedTable:
    common = {
        "kind": "biased_arms",
        "arms": 25,
        "intrinsic_dim": 20,
        "bias": 0.0,
        "distribution": "gaussian",
        "noise": 0.01,
    }
    instances = {
        "d200": {**common, "dim": 200, "horizon": 1000},
        "d500": {**common, "dim": 500, "horizon": 2000},
    }
    policies: dict[str, Policy] = {
        "alb-dim": library.ALBDim(support="coordinates", first_phase=50),
        "oful": library.LinUCB(radius="oful-2011", ridge=1.0),
        "oracle": library.LinUCB(radius="oful-2011", ridge=1.0, dim=20),
    }
    other = (
        "made by another algorithm: exploration and the error of the chosen coordinates are not counted, the bonus is "
        "a tenth; read off a figure"
    )
    plain = "with a tenth of the bonus, and a norm of theta that is not given; read off a figure"
    values = {"d200": (325, 860, 130), "d500": (700, 2060, 390)}
    reported = _read_off(values, policies, plain)
    reported = [replace(entry, remark=other) if entry.policy == "alb-dim" else entry for entry in reported]
    source = "Ghosh, Sankararaman and Ramchandran 2021, dimension"
    return PublishedTable("albdim21", source, 25, instances, policies, {}, reported)


def _rb20() -> PublishedTable:
    oful, ucb = library.LinUCB(radius="oful-2011", ridge=1.0), library.OSOM(model="simple")
    context = {"kind": "shared_contexts"}
    instances = {
        "fig1-right": {**context, "models": 2, "dim": 3, "distribution": "uniform", "noise": 1.0, "horizon": 10_000},
        "fig2-middle": {**context, "models": 2, "dim": 10, "largest": 1 / 3, "noise": math.sqrt(0.1), "horizon": 1000},
        "fig2-right": {**context, "models": 5, "dim": 10, "relevant": False, "noise": math.sqrt(0.1), "horizon": 200},
    }

    def balancing(arms: int) -> Policy:
        return library.RegretBalancing(bases=(ucb, oful), bound=library.SqrtBound(c=math.sqrt(arms)), reward_scale=1.0)

    policies: dict[str, Policy] = {
        "rb-linear": library.RegretBalancingLinear(ridge=1.0),
        "linucb": oful,
        "rb-2": balancing(2),
        "rb-5": balancing(5),
        "ucb": ucb,
        "oful": oful,
    }
    read = "read off a figure; ridge and delta are not given"
    wide = "read off a figure; which radius is not said, and noise of variance 0.1 as in its neighbour is a guess"
    reported = [
        *_read_off({"fig1-right": (490, 490)}, ("rb-linear", "linucb"), read),
        *_read_off({"fig2-middle": (137, 190, 105)}, ("rb-2", "ucb", "oful"), read),
        *_read_off({"fig2-right": (44, 29, 61)}, ("rb-5", "ucb", "oful"), wide),
    ]
    only = {policy: [entry.instance for entry in reported if entry.policy == policy] for policy in policies}
    source = "Abbasi-Yadkori, Pacchiano and Phan 2020, figures 1 and 2"
    return PublishedTable("rb20", source, 100, instances, policies, only, reported)


def _arora21() -> PublishedTable:
    instances = {
        "gap-0.2": {"kind": "owned_arms", "best": 0.7, "horizon": 100_000},
        "gap-0.02": {"kind": "owned_arms", "best": 0.52, "horizon": 100_000},
    }
    bases = (OwnArmsUCB(0, 10), *(OwnArmsUCB(10 + 5 * i, 5) for i in range(5)))
    owned = (10.0, 5.0, 5.0, 5.0, 5.0, 5.0)
    policies: dict[str, Policy] = {
        "ucb-c": library.UCBCorral(bases=bases, complexities=owned, variant="released", reward_scale=1.0),
        "tsallis": library.TsallisCorral(bases=bases, penalty=None, loss_range=(0.0, 1.0)),
        "corral": library.Corral(bases=bases, loss_range=(0.0, 1.0)),
    }
    remark = "read off a figure; here bases learn from rewards as they are, and are never restarted"
    values = {"gap-0.2": (35_000, 2_500, 22_000), "gap-0.02": (70_000, 10_000, 10_000)}
    reported = _read_off(values, policies, remark)
    source, horizons = "Arora, Marinov and Mohri 2021, experiments", dict.fromkeys(instances, 1_000_000)
    return PublishedTable("arora21", source, 75, instances, policies, {}, reported, horizons)


def _from_released_code(instance: str, values: Mapping[str, tuple[float, float]], remark: str) -> list[Reported]:
    """Numbers of runs of released code, with their standard errors."""
    return [Reported(instance, policy, value, 2 * error, remark) for policy, (value, error) in values.items()]


def _linmed25() -> PublishedTable:
    instances = {"end-of-optimism": {"kind": "end_of_optimism", "horizon": 10_000}}
    policies: dict[str, Policy] = {
        "oful": library.LinUCB(radius="oful-2011", ridge=0.01),  # confidence 1/sqrt(T) is the 0.01 of that code
        "linmed-99": library.LinMED(a_emp=0.99, a_opt=0.005),
        "linmed-90": library.LinMED(),
        "linmed-50": library.LinMED(a_emp=0.5, a_opt=0.25),
    }
    values = {
        "oful": (1.001, 0.0005),
        "linmed-99": (2.158, 0.200),
        "linmed-90": (3.442, 0.105),
        "linmed-50": (5.277, 0.201),
    }
    reported = _from_released_code(
        "end-of-optimism", values, "a run of the authors' released code, not a number of the paper"
    )
    source = "Balagopalan and Jun 2025, end of optimism"
    return PublishedTable("linmed25", source, 20, instances, policies, {}, reported)


def _adalinucb24() -> PublishedTable:
    sizes = {"arms": 30, "dim": 16, "intrinsic_dim": 4}
    instances = {"four-of-sixteen": {"kind": "sphere", **sizes, "noise": 3**-0.5, "horizon": 10_000}}
    mixture, exp3 = library.RadiusMixture(released=True), library.RadiusExp3(released=True)
    policies: dict[str, Policy] = {
        "ada-uniform": replace(exp3, weights="uniform"),
        "ada-theory": exp3,
        "sparse-uniform": replace(mixture, weights="uniform"),
        "sparse-known": replace(mixture, sparsity=4),
        "sparse-theory": mixture,
    }
    values = {
        "ada-uniform": (566.0, 34.0),
        "ada-theory": (505.0, 63.0),
        "sparse-uniform": (1495.0, 71.0),
        "sparse-known": (991.0, 26.0),
        "sparse-theory": (797.0, 19.0),
    }
    remark = (
        "a run of the authors' released code, not a number of the paper; its noise is uniform on [-1, 1], here "
        "Gaussian of that variance, and theta has norm 1"
    )
    reported = _from_released_code("four-of-sixteen", values, remark)
    source = "Jin, Jang and Cesa-Bianchi 2024, four of sixteen coefficients"
    return PublishedTable("adalinucb24", source, 10, instances, policies, {}, reported)


def _alexp23() -> PublishedTable:
    instances = {"legendre": {"kind": "legendre", "horizon": 100}}
    triples = tuple(itertools.combinations(range(6), 3))
    anytime = library.ALEXP(groups=triples, released=True)
    policies: dict[str, Policy] = {"horizon": replace(anytime, anytime=False), "anytime": anytime}
    values = {"horizon": (5.75, 1.57), "anytime": (5.91, 2.41)}
    remark = (
        "a run of the authors' released code, not a number of the paper, with another solver of the Lasso; how its "
        "polynomials are scaled is not known"
    )
    reported = _from_released_code("legendre", values, remark)
    return PublishedTable("alexp23", "Kassraie et al. 2023, Legendre", 10, instances, policies, {}, reported)


def _luo25() -> PublishedTable:
    instances = {
        "vehicle": {"kind": "labelled", "data": "vehicle", "horizon": 800, "noise": 0.2, "constants": False},
    }
    ratio = library.MaxRatio(ridge=1e-6, theta_norm=5.0)
    policies: dict[str, Policy] = {
        "ts-mr": ratio,
        "greedy-mr": replace(ratio, inflation=0.0),
        "lints": library.LinTS(ridge=1e-6),
        "greedy": library.Greedy(ridge=1e-6),
        "oful": replace(ratio, inflation=0.0, threshold=0.0),
    }
    values = {
        "ts-mr": (266.0, 2.4),
        "greedy-mr": (253.9, 2.9),
        "lints": (272.1, 5.0),
        "greedy": (251.4, 6.6),
        "oful": (371.3, 3.0),
    }
    remark = (
        "a run of the authors' released code, not a number of the paper: wrong labels in 800 rows; here columns have "
        "equal variance, on which optimism depends"
    )
    reported = _from_released_code("vehicle", values, remark)
    return PublishedTable("luo25", "Luo and Bayati 2025, vehicle", 8, instances, policies, {}, reported)


def _systems26() -> PublishedTable:
    sizes = {"arms": 100, "dim": 20, "intrinsic_dim": 4, "noise": 0.1, "horizon": 2000}
    ridge, ratio = 0.01, library.MaxRatio(ridge=0.01)
    narrow = library.LinUCB(ridge=ridge, scale=0.35)
    policies: dict[str, Policy] = {
        "feel-good": library.FeelGood(draws=500),
        "prior-thompson": library.PriorThompson(),
        "linucb": narrow,
        "certified": library.Certified(narrow),
        "ids": library.IDS(ridge=ridge),
        "lints": library.LinTS(ridge=ridge),
        "prior-elimination": library.PriorElimination(),
        "radius-mixture": library.RadiusMixture(ridge=ridge),
        "radius-exp3": library.RadiusExp3(ridge=ridge, weights="uniform"),
        "linmed": library.LinMED(),
        "alexp": library.ALEXP(released=True),
        "greedy-mr": replace(ratio, inflation=0.0),
        "ts-mr": ratio,
    }
    values = {
        "feel-good": (8.4, 0.4),
        "prior-thompson": (9.1, 1.7),
        "linucb": (11.5, 0.4),
        "certified": (11.5, 0.4),
        "ids": (15.5, 1.6),
        "lints": (18.9, 0.8),
        "prior-elimination": (35.0, 5.8),
        "radius-mixture": (45.4, 1.6),
        "radius-exp3": (80.4, 3.4),
        "linmed": (85.2, 13.5),
        "alexp": (92.0, 44.0),
        "greedy-mr": (113.0, 3.0),
        "ts-mr": (122.0, 5.0),
    }
    remark = "separate implementations, which were written for the specification of these systems"
    reported = _from_released_code("four-of-twenty", values, remark)
    instances = {"four-of-twenty": {"kind": "sphere", **sizes}}
    return PublishedTable("systems26", "thirteen systems on one instance", 8, instances, policies, {}, reported)


_BUILT = (
    _d3rb24(),
    _osom20(),
    _albdim21(),
    _rb20(),
    _arora21(),
    _linmed25(),
    _adalinucb24(),
    _alexp23(),
    _luo25(),
    _systems26(),
)
TABLES = {table.name: table for table in _BUILT}
"""The experiments of other papers, by name."""
