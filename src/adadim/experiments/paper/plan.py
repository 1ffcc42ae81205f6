"""What is run for the paper: its policies, its figures as studies, and these with something changed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from adadim.core.checks import one_of, shown, suggestion
from adadim.errors import StudyError
from adadim.policies import DynamicBalancing, LinUCB, LinUCBPlusPlus, LinUCBPlusPlusCorral, Policy, SmoothCorral
from adadim.policies.parameters import Bonus
from adadim.policies.released import ReleasedDynamicBalancing, ReleasedLinUCB, ReleasedLinUCBPlusPlus
from adadim.study import Results, Study, to_spec

Variant = Literal["theory", "released"]
VARIANTS: tuple[Variant, ...] = ("released", "theory")

# Labels of the studies of this experiment; the paper's claims are not about varied ones.
EXPERIMENT, VARIED = "paper", "paper, varied"

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
PAPER_HORIZON = 2500
DIMS = (5, 10, 15, 20, 25, 30, 35)
DIM_KEY = "intrinsic_dim"
MAX_STUDY_NAME = 80  # characters of a varied study's name, without its hash


@dataclass(frozen=True)
class Figure:
    """One of the paper's figures with experiments: its name in the paper and its title.

    It shows `curves`, regret over time at one d*, or else the final regret against the hardness level alpha; `theta` is
    the shape of the reward parameter, and an `expressive` action set is closed under truncation.
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
        common = {"kind": "sphere", "arms": arms, "dim": dim, "horizon": PAPER_HORIZON, "noise": 0.1}
        shape = {"theta": self.theta, "expressive": self.expressive}
        return {f"d{d}": {**common, **shape, DIM_KEY: d} for d in self.dims}


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


def study(figure: str, variant: Variant = "released", trials: int = PAPER_TRIALS, seed: int = 0) -> Study:
    """The study behind one of the paper's `FIGURES`, with policies of a variant as in `policies`.

    Each of the trials has an instance of its own; the paper has 100.

    Examples
    --------
    >>> plan = study("fig2b", trials=3)
    >>> plan.name, len(plan.cells)
    ('fig2b-released', 42)
    """
    paper_figure = FIGURES[one_of(figure, "figure", tuple(FIGURES))]
    instances = paper_figure.instances()
    chosen: dict[str, Any] = dict(policies(variant, expressive=paper_figure.expressive))
    chosen["oracle"] = {**to_spec(replace(chosen["oracle"], dim=1)), "dim": "@intrinsic_dim"}
    return Study(
        name=study_name(figure, variant),
        instances=instances,
        policies=chosen,
        trials=trials,
        seed=seed,
        record=100 if paper_figure.curves else 10,
        labels={
            "title": f"{paper_figure.title} ({variant})",
            "experiment": EXPERIMENT,
            "figure": figure,
            "variant": variant,
            "policies": LABELS,
            "instances": _labels_of(instances),
        },
    )


def study_name(figure: str, variant: str) -> str:
    """Name of the study behind a figure, and of its results folder."""
    return f"{figure}-{variant}"


def policies(variant: Variant = "released", intrinsic_dim: int = 12, expressive: bool = False) -> dict[str, Policy]:
    """The six policies of the paper's figures.

    Parameters
    ----------
    variant : {"theory", "released"}
        "theory" follows the paper's text. "released" follows the authors' released code where it departs from it:
        squared bonus everywhere; arms rescaled in LinUCB++; the index of UCB on mixture-arms; and in Dynamic Balancing
        the upper reference, the unguarded width, ties among inactive bases and a uniform first pull of each base.
        The default is "released", as that of the commands, since that code made the paper's figures. The study's label
        "variant" says which it is.
    intrinsic_dim, expressive
        d*, which only the oracle knows, and whether the action set is closed under truncation: learners in d_i features
        then use only the arms that are zero after them.

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
        released_base = ReleasedLinUCB(ridge=0.1, bonus=bonus, only_supported=expressive)
        balancing = ReleasedDynamicBalancing(base=released_base, reference="upper")
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


def vary(
    plan: Study,
    changes: Mapping[str, Any],
    policies: Mapping[str, Any] | None = None,
    plugins: Mapping[str, Any] | None = None,
) -> Study:
    """A study of `adadim.paper.study` with some values changed and policies added, under a name of its own.

    Parameters
    ----------
    changes : mapping
        ``"noise"`` and the like change a parameter of every instance; ``"intrinsic_dim"`` may be a list, which makes an
        instance of each; ``"record"`` sets the record points; ``"linucb++.beta"`` a hyper-parameter of one policy.
    policies, plugins : mapping, optional
        Policies to add, by name, and classes of your own that they use, see `adadim.study.load_plugin`.

    Examples
    --------
    >>> from adadim import paper
    >>> varied = vary(paper.study("fig2a", trials=3), {"dim": 900, "noise": 0.5, "linucb++.beta": 0.6})
    >>> varied.name, varied.instances["d12"]["dim"], varied.policies["linucb++"]["beta"]
    ('fig2a-released_dim=900_noise=0.5_linucb++.beta=0.6', 900, 0.6)
    >>> vary(paper.study("fig2b"), {"intrinsic_dim": [3, 8]}).instances.keys()
    dict_keys(['d3', 'd8'])
    """
    tables = plan.to_dict()
    for key, value in changes.items():
        if key in ("trials", "seed"):
            raise StudyError(f"{key}: has an option of its own: --{key} {value}")
        if key == "record":
            tables["record"] = value
        elif "." in key:
            name, _, parameter = key.rpartition(".")
            if name not in tables["policies"]:
                raise StudyError(f"{key}: the study has no policy {name!r}; {suggestion(name, tables['policies'])}")
            tables["policies"][name][parameter] = value
        elif key != DIM_KEY:
            tables["instances"] = {name: {**table, key: value} for name, table in tables["instances"].items()}
    if DIM_KEY in changes:
        dims = changes[DIM_KEY] if isinstance(changes[DIM_KEY], list) else [changes[DIM_KEY]]
        if not dims:
            raise StudyError(f"{DIM_KEY}: must be a number or a list of some, got {shown(changes[DIM_KEY])}")
        first = next(iter(tables["instances"].values()))
        tables["instances"] = {f"d{d}": {**first, DIM_KEY: d} for d in dims}
    for name, policy in (policies or {}).items():
        if name in tables["policies"]:
            raise StudyError(f"policies: the study has a policy {name!r} already; choose another name")
        tables["policies"][name] = policy
    texts = {k: v if isinstance(v, str) else json.dumps(v, separators=(",", ":")) for k, v in changes.items()}
    written = [f"{key}={text}" for key, text in texts.items()] + list(policies or {})
    tables["name"] = _varied_name(plan.name, written)
    title = f"{plan.labels['title']}, varied: {', '.join(written)}"
    labels = {"title": title, "experiment": VARIED, "changes": written, "instances": _labels_of(tables["instances"])}
    tables["labels"] |= labels
    return Study.from_dict(tables, plugins={**plan.plugins, **(plugins or {})})


def _labels_of(instances: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What the analysis must know of each instance."""
    return {name: {key: t[key] for key in (DIM_KEY, "horizon") if key in t} for name, t in instances.items()}


def unvaried(results: Results) -> bool:
    """Whether results are those of a study of the paper as it is, whatever its number of trials and its seed."""
    labels = results.labels
    if labels.get("experiment") != EXPERIMENT or labels.get("variant") not in VARIANTS:
        return False
    unchanged = study(labels["figure"], labels["variant"], trials=results.trials).to_dict()
    as_stored = json.loads(json.dumps(unchanged))
    return all(results.study[key] == as_stored[key] for key in ("instances", "policies", "record"))


def _varied_name(name: str, changes: list[str]) -> str:
    """Name of a varied study and of its folder: not too long for a folder, and different for different changes."""
    full = "_".join([name, *changes])
    safe = re.sub(r"[^A-Za-z0-9=.,+\[\]_-]", "-", full)
    if safe == full and len(safe) <= MAX_STUDY_NAME:
        return safe
    return f"{safe[:MAX_STUDY_NAME]}-{hashlib.sha256(full.encode()).hexdigest()[:8]}"
