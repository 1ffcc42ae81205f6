"""The paper's studies with something changed: sizes, noise, hyper-parameters, further policies."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from adadim.checks import shown, suggestion
from adadim.errors import StudyError
from adadim.experiments.paper.plan import EXPERIMENT, VARIANTS, study
from adadim.study import Results, Study

__all__ = ["VARIED", "unvaried", "vary"]

VARIED = "paper, varied"
"""Label of a varied study: the paper's claims are not about it."""

OPTIONS = ("trials", "seed")
DIM = "intrinsic_dim"
LONGEST = 80  # characters of a varied study's name


def vary(
    plan: Study,
    changes: Mapping[str, Any],
    policies: Mapping[str, Any] | None = None,
    plugins: Mapping[str, Any] | None = None,
) -> Study:
    """A study of the paper with some values changed and policies added, under a name of its own.

    Parameters
    ----------
    plan : Study
        What `adadim.paper.study` gives.
    changes : mapping
        ``"noise"`` and the like change a parameter of every instance; ``"intrinsic_dim"`` may be a list, which makes an
        instance of each; ``"record"`` says when to look; ``"linucb++.beta"`` changes a hyper-parameter of one policy.
    policies : mapping, optional
        Policies to add, by name.
    plugins : mapping, optional
        Classes of your own that they use, see `adadim.study.load_plugin`.

    Examples
    --------
    >>> from adadim import paper
    >>> varied = vary(paper.study("fig2a", trials=3), {"dim": 900, "noise": 0.5, "linucb++.beta": 0.6})
    >>> varied.name, varied.instances["d12"]["dim"], varied.policies["linucb++"]["beta"]
    ('fig2a-theory_dim=900_noise=0.5_linucb++.beta=0.6', 900, 0.6)
    >>> vary(paper.study("fig2b"), {"intrinsic_dim": [3, 8]}).instances.keys()
    dict_keys(['d3', 'd8'])
    """
    tables = plan.to_dict()
    for key, value in changes.items():
        if key in OPTIONS:
            raise StudyError(f"{key}: has an option of its own: --{key} {value}")
        if key == "record":
            tables["record"] = value
        elif "." in key:
            _set_policy(tables["policies"], key, value)
        elif key != DIM:
            tables["instances"] = {name: {**table, key: value} for name, table in tables["instances"].items()}
    if DIM in changes:
        dims = changes[DIM] if isinstance(changes[DIM], list) else [changes[DIM]]
        if not dims:
            raise StudyError(f"{DIM}: must be a number or a list of some, got {shown(changes[DIM])}")
        first = next(iter(tables["instances"].values()))
        tables["instances"] = {f"d{d}": {**first, DIM: d} for d in dims}
    for name, policy in (policies or {}).items():
        if name in tables["policies"]:
            raise StudyError(f"policies: the study has a policy {name!r} already; choose another name")
        tables["policies"][name] = policy
    said = [f"{key}={_text(value)}" for key, value in changes.items()] + list(policies or {})
    tables["name"] = _name(plan.name, said)
    tables["labels"] = _labels(tables, said)
    return Study.from_dict(tables, plugins={**plan.plugins, **(plugins or {})})


def unvaried(results: Results) -> bool:
    """Whether results are those of a study of the paper as it is, whatever its number of trials and its seed."""
    found = results.labels
    if found.get("experiment") != EXPERIMENT or found.get("variant") not in VARIANTS:
        return False
    wanted = study(found["figure"], found["variant"], trials=results.trials).to_dict()
    as_stored = json.loads(json.dumps(wanted))
    return all(results.study[key] == as_stored[key] for key in ("instances", "policies", "record"))


def _set_policy(policies: dict[str, Any], key: str, value: Any) -> None:
    name, _, parameter = key.rpartition(".")
    if name not in policies:
        raise StudyError(f"{key}: the study has no policy {name!r}; {suggestion(name, policies)}")
    policies[name][parameter] = value


def _name(name: str, said: list[str]) -> str:
    whole = "_".join([name, *said])
    safe = re.sub(r"[^A-Za-z0-9=.,+\[\]_-]", "-", whole)
    if safe == whole and len(safe) <= LONGEST:
        return safe
    return f"{safe[:LONGEST]}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def _labels(tables: dict[str, Any], said: list[str]) -> dict[str, Any]:
    labels = tables["labels"]
    described = {
        name: {key: table[key] for key in (DIM, "horizon") if key in table}
        for name, table in tables["instances"].items()
    }
    title = f"{labels['title']}, varied: {', '.join(said)}"
    return {**labels, "title": title, "experiment": VARIED, "changes": said, "instances": described}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
