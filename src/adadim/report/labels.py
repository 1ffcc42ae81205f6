"""What the labels of a study say: its title, the names that people read, and what an experiment needs to know."""

from __future__ import annotations

from typing import Any

from adadim.errors import StoreError
from adadim.study import Results

__all__ = ["axis_label", "instance_label", "label", "policy_label", "title"]


def title(results: Results) -> str:
    """Title of a study: its label "title", or else its name."""
    return str(results.labels.get("title", results.name))


def policy_label(results: Results, policy: str) -> str:
    """What a policy is called in a figure: ``labels["policies"][policy]``, or else its name in the study."""
    names = results.labels.get("policies")
    found = names.get(policy) if isinstance(names, dict) else None
    return found if isinstance(found, str) else policy


def instance_label(results: Results, instance: str) -> str:
    """What an instance is called in a figure: ``labels["panels"][instance]``, or else its name in the study."""
    names = results.labels.get("panels")
    found = names.get(instance) if isinstance(names, dict) else None
    return found if isinstance(found, str) else instance


def axis_label(results: Results, axis: str, otherwise: str) -> str:
    """What an axis is called: ``labels["axes"]["x"]`` or ``["y"]``, or else `otherwise`."""
    names = results.labels.get("axes")
    found = names.get(axis) if isinstance(names, dict) else None
    return found if isinstance(found, str) else otherwise


def label(results: Results, *keys: str) -> Any:
    """The label under nested keys; `StoreError` where there is none, as in folders of older versions.

    Examples
    --------
    >>> import tempfile
    >>> from adadim.study import Study, run
    >>> sphere = {"kind": "sphere", "arms": 5, "dim": 3, "intrinsic_dim": 2, "horizon": 20}
    >>> plan = Study("mine", {"s": sphere}, {"random": {"kind": "Random"}}, trials=1, labels={"colour": "red"})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = run(plan, folder, jobs=1)
    >>> label(results, "colour")
    'red'
    >>> label(results, "instances", "s")
    Traceback (most recent call last):
    adadim.errors.StoreError: ...: the manifest has no label 'instances.s'; run the study again, which finds ...
    """
    found: Any = results.labels
    for key in keys:
        if not isinstance(found, dict) or key not in found:
            raise StoreError(
                f"{results.folder}: the manifest has no label {'.'.join(keys)!r}; run the study again, which finds the "
                "stored blocks and only adds the labels"
            )
        found = found[key]
    return found
