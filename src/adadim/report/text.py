"""Texts of reports: what the labels of a study say, and tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from adadim.errors import StoreError
from adadim.study import Results


def title(results: Results) -> str:
    """Title of a study: its label "title", or else its name."""
    return str(results.labels.get("title", results.name))


def name_of(results: Results, group: str, name: str, otherwise: str | None = None) -> str:
    """The label of a policy, an instance ("panels") or one of the "axes"; without one, `otherwise` or its name."""
    labels = results.labels.get(group)
    text = labels.get(name) if isinstance(labels, dict) else None
    return text if isinstance(text, str) else otherwise or name


def policy_label(results: Results, policy: str) -> str:
    """What a policy is called in a figure: ``labels["policies"][policy]``, or else its name in the study."""
    return name_of(results, "policies", policy)


def label(results: Results, *keys: str) -> Any:
    """The label under nested keys; `StoreError` where there is none, as in folders of older versions.

    Examples
    --------
    >>> import tempfile
    >>> from adadim.study import Study, run
    >>> sphere = {"kind": "sphere", "arms": 5, "dim": 3, "intrinsic_dim": 2, "horizon": 20}
    >>> plan = Study("mine", {"s": sphere}, {"random": {"kind": "Random"}}, trials=1, labels={"colour": "red"})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     label(run(plan, folder, jobs=1), "colour")
    'red'
    """
    value: Any = results.labels
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            raise StoreError(
                f"{results.folder}: the manifest has no label {'.'.join(keys)!r}; run the study again, which finds the "
                "stored blocks and only adds the labels"
            )
        value = value[key]
    return value


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""A header and rows as a Markdown table.

    Examples
    --------
    >>> markdown_table(["a", "b"], [["1", "x|y"]])
    '| a | b |\n| --- | --- |\n| 1 | x\\|y |\n'
    """
    lines = [header, ["---"] * len(header), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
