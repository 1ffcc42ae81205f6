"""What is run for the paper: its policies, and its figures as studies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from adadim.checks import one_of
from adadim.policies import (
    DynamicBalancing,
    LinUCB,
    LinUCBPlusPlus,
    LinUCBPlusPlusCorral,
    Policy,
    SmoothCorral,
)
from adadim.policies.confidence import Bonus
from adadim.policies.released import ReleasedDynamicBalancing, ReleasedLinUCB, ReleasedLinUCBPlusPlus
from adadim.study import Study, to_spec

__all__ = [
    "EXPERIMENT",
    "FIGURES",
    "LABELS",
    "PAPER_TRIALS",
    "VARIANTS",
    "Figure",
    "Variant",
    "policies",
    "study",
    "study_name",
]

Variant = Literal["theory", "released"]
VARIANTS: tuple[Variant, ...] = ("released", "theory")

EXPERIMENT = "paper"
"""Label of the studies of this experiment."""

LABELS = {
    "linucb": "LinUCB",
    "oracle": "LinUCB Oracle",
    "linucb++": "LinUCB++",
    "linucb++corral": "LinUCB++ with Corral",
    "smooth-corral": "Smooth Corral",
    "dynamic-balancing": "Dynamic Balancing",
}
"""What the policies are called in figures and claims."""

PAPER_TRIALS = 100
HORIZON = 2500
DIMS = (5, 10, 15, 20, 25, 30, 35)


@dataclass(frozen=True)
class Figure:
    """One of the paper's figures with experiments.

    Attributes
    ----------
    name : str
        As in the paper: "fig2a", ...
    title : str
        What it shows.
    curves : bool
        Regret over time at one d*, or final regret against the hardness level alpha.
    theta : str
        Shape of the reward parameter.
    expressive : bool
        Whether the action set is closed under truncation.
    """

    name: str
    title: str
    curves: bool
    theta: str = "uniform"
    expressive: bool = False

    @property
    def dims(self) -> tuple[int, ...]:
        """Intrinsic dimensions d* it shows."""
        return (12,) if self.curves else DIMS

    def instances(self) -> dict[str, dict[str, Any]]:
        """The instances behind it, by name ("d12" for d* = 12)."""
        arms, dim = (800, 400) if self.expressive else (1200, 600)
        common = {
            "kind": "sphere",
            "arms": arms,
            "dim": dim,
            "horizon": HORIZON,
            "noise": 0.1,
            "theta": self.theta,
            "expressive": self.expressive,
        }
        return {f"d{d}": {**common, "intrinsic_dim": d} for d in self.dims}


FIGURES = {
    figure.name: figure
    for figure in (
        Figure("fig2a", "Regret over time", curves=True),
        Figure("fig2b", "Regret against hardness", curves=False),
        Figure("fig3a", "Regret over time, expressive action set", curves=True, expressive=True),
        Figure("fig3b", "Regret against hardness, expressive action set", curves=False, expressive=True),
        Figure("fig4a", "Regret against hardness, decaying theta", curves=False, theta="decay"),
        Figure("fig4b", "Regret against hardness, flipped theta", curves=False, theta="flip"),
    )
}
"""The paper's figures with experiments, by name."""


def study(figure: str, variant: Variant = "theory", trials: int = PAPER_TRIALS, seed: int = 0) -> Study:
    """The study behind one of the paper's figures.

    Parameters
    ----------
    figure : str
        A key of `FIGURES`.
    variant : {"theory", "released"}
        As in `policies`.
    trials : int
        Replications, each with an instance of its own; the paper has 100.
    seed : int
        Seed of instances, noise and policies.

    Examples
    --------
    >>> plan = study("fig2b", trials=3)
    >>> plan.name, len(plan.cells)
    ('fig2b-theory', 42)
    """
    shown = FIGURES[one_of(figure, "figure", tuple(FIGURES))]
    instances = shown.instances()
    chosen: dict[str, Any] = dict(policies(variant, expressive=shown.expressive))
    chosen["oracle"] = {**to_spec(replace(chosen["oracle"], dim=1)), "dim": "@intrinsic_dim"}
    return Study(
        name=study_name(figure, variant),
        instances=instances,
        policies=chosen,
        trials=trials,
        seed=seed,
        record=100 if shown.curves else 10,
        labels={
            "title": f"{shown.title} ({variant})",
            "experiment": EXPERIMENT,
            "figure": figure,
            "variant": variant,
            "policies": LABELS,
            "instances": {
                name: {key: table[key] for key in ("intrinsic_dim", "horizon")} for name, table in instances.items()
            },
        },
    )


def study_name(figure: str, variant: str) -> str:
    """Name of the study behind a figure, and of its results folder."""
    return f"{figure}-{variant}"


def policies(variant: Variant = "theory", intrinsic_dim: int = 12, expressive: bool = False) -> dict[str, Policy]:
    """The six policies of the paper's figures.

    Parameters
    ----------
    variant : {"theory", "released"}
        "theory" follows the paper's text. "released" follows the authors' released code where it departs from it:
        squared bonus everywhere; arms rescaled in LinUCB++; the index of UCB on mixture-arms; and in Dynamic Balancing
        the upper reference, the unguarded width, ties among inactive bases and a uniform first pull of each base.
        Functions take the text unless told; the commands `reproduce` and `show` take the code, which made the paper's
        figures. Either way the study's label "variant" says which it is.
    intrinsic_dim : int
        d*, which only the oracle knows.
    expressive : bool
        Whether the action set is closed under truncation: learners in d_i features then use only the arms that are zero
        after them.

    Examples
    --------
    >>> list(policies("theory"))
    ['linucb', 'oracle', 'linucb++', 'linucb++corral', 'smooth-corral', 'dynamic-balancing']
    >>> policies("released")["linucb"].bonus
    'squared'
    """
    released = one_of(variant, "variant", ("theory", "released")) == "released"
    bonus: Bonus = "squared" if released else "norm"
    base = LinUCB(ridge=0.1, bonus=bonus, only_supported=expressive)
    linucbpp, balancing = LinUCBPlusPlus(beta=0.5, expressive=expressive), DynamicBalancing(base=base)
    if released:
        linucbpp = ReleasedLinUCBPlusPlus(beta=0.5, bonus=bonus, expressive=expressive)
        first = ReleasedLinUCB(ridge=0.1, bonus=bonus, only_supported=expressive)
        balancing = ReleasedDynamicBalancing(base=first, reference="upper")
    return {
        "linucb": LinUCB(ridge=0.1, bonus=bonus),
        "oracle": LinUCB(ridge=0.1, bonus=bonus, dim=intrinsic_dim),
        "linucb++": linucbpp,
        "linucb++corral": LinUCBPlusPlusCorral(
            beta=0.5, bonus=bonus, expressive=expressive, index="released" if released else "self-normalised"
        ),
        "smooth-corral": SmoothCorral(base=base, beta=0.5),
        "dynamic-balancing": balancing,
    }
