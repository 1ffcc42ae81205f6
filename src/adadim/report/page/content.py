"""A study as plain data for a page: what was run, how to run it again, and the regret of every trial.

Regret travels as 32-bit floats in base64, since a page of numbers as text would be several times as large. Where a
study is too large for a page, rounds are left out first and trials then, and the page says so.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adadim.codec import finite, to_toml
from adadim.errors import InvalidValueError
from adadim.report.labels import instance_label, policy_label, title
from adadim.report.looks import looks_of
from adadim.study import Results
from adadim.theory import hardness

__all__ = ["FLOATS", "study_content"]

FLOATS = 700_000
"""Numbers that all studies of a page may hold together: 3.7 MB of text."""

DASHES: dict[str, list[float]] = {"-": [], "--": [6, 3], "-.": [7, 2.5, 1.5, 2.5], ":": [1.5, 2.5]}


def study_content(results: Results, rerun: Sequence[str], floats: int = FLOATS) -> dict[str, Any] | None:
    """A study as plain data, or None if no trial of it is finished.

    Parameters
    ----------
    results : Results
        The study.
    rerun : sequence of str
        Commands that run it again; empty if its own TOML file is the way.
    floats : int
        Numbers it may hold.
    """
    cells = [cell for cell in results.cells() if len(results.replications(*cell))]
    if not cells:
        return None
    instances = [name for name in results.instances if any(name == instance for instance, _ in cells)]
    policies = [name for name in results.policies if any(name == policy for _, policy in cells)]
    keep, most_trials, note = _what_fits(results, cells, floats)
    own = results.labels.get("looks")
    looks = looks_of(results.study["policies"], own if isinstance(own, dict) else None)
    written = [
        _cell(results, cell, instances.index(cell[0]), policies.index(cell[1]), keep, most_trials) for cell in cells
    ]
    return {
        "name": results.name,
        "title": title(results),
        "trials": results.trials,
        "seed": results.study.get("seed", 0),
        "version": results.version,
        "policies": [_policy(results, name, looks[name], cells) for name in policies],
        "instances": [
            {"name": instance_label(results, name), "parameters": _parameters(results, name)} for name in instances
        ],
        "cells": written,
        "note": note,
        "toml": to_toml(results.study),
        "rerun": list(rerun),
    }


def _what_fits(results: Results, cells: Sequence[tuple[str, str]], floats: int) -> tuple[int, int, str]:
    """Rounds and trials to keep of each cell, and what to tell readers of what was left out."""
    shapes = [(len(results.replications(*cell)), len(results.curves(*cell)[0])) for cell in cells]
    widest, most = max(n for _, n in shapes), max(r for r, _ in shapes)
    keep = widest
    while keep > 1 and sum(r * min(n, keep) for r, n in shapes) > floats:
        keep = keep * 3 // 4
    trials = most
    while trials > 1 and sum(min(r, trials) * min(n, keep) for r, n in shapes) > floats:
        trials = trials * 3 // 4
    parts = []
    if keep < widest:
        parts.append(f"about {keep} of {widest} recorded rounds")
    if trials < most:
        parts.append(f"the first {trials} of {most} trials")
    return keep, trials, f"To stay small, this page holds {' and '.join(parts)}." if parts else ""


def _cell(
    results: Results, cell: tuple[str, str], instance: int, policy: int, keep: int, most_trials: int
) -> dict[str, Any]:
    times, regret = results.curves(*cell)
    numbers = results.replications(*cell)[:most_trials]
    # Spread evenly, and always with the last round.
    columns = np.unique(np.linspace(len(times) - 1, 0, num=min(keep, len(times))).round().astype(int))
    values = np.ascontiguousarray(regret[: len(numbers), columns], dtype="<f4")
    return {
        "instance": instance,
        "policy": policy,
        "times": times[columns].tolist(),
        "trials": _ranges(numbers.tolist()),
        "regret": base64.b64encode(values.tobytes()).decode("ascii"),
    }


def _ranges(numbers: Sequence[int]) -> list[list[int]]:
    """Rising numbers as ranges [first, last].

    Examples
    --------
    >>> _ranges([0, 1, 2, 5])
    [[0, 2], [5, 5]]
    """
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def _policy(results: Results, name: str, look: Mapping[str, Any], cells: Sequence[tuple[str, str]]) -> dict[str, Any]:
    first = next(cell for cell in cells if cell[1] == name)
    parameters = results.hyper_parameters(*first)
    return {
        "name": name,
        "label": policy_label(results, name),
        "kind": parameters.pop("kind"),
        "parameters": {key: finite(value) for key, value in parameters.items()},
        "colour": look["color"],
        "dash": DASHES[look["linestyle"]],
        "marker": look["marker"],
        "hollow": "markerfacecolor" in look or "fillstyle" in look,
    }


def _parameters(results: Results, instance: str) -> Mapping[str, Any]:
    """Parameters of an instance, and alpha where it has one."""
    parameters = {key: finite(value) for key, value in results.parameters(instance).items()}
    try:
        return {**parameters, "alpha": hardness(parameters["intrinsic_dim"], parameters["horizon"])}
    except (KeyError, TypeError, InvalidValueError):
        return parameters
