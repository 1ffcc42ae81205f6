"""Results as one web page: a single file that can be shared and needs no network.

`write_page` puts studies, claims, tables and a heat map into an HTML file; how it looks and behaves is in the files
page.html, page.css and *.js beside this one. It opens with the first study: a figure and a sentence on which policy
wins, and by how much. The blocks follow, then the other studies; statistics can be folded out.

Names of policies and studies come from outside. They travel as JSON, in which no character can end the element
that holds it, and the script puts them on the page as text and never as HTML. A content security policy admits this one
script, by its hash, and no connection of any kind. Regret travels as 32-bit floats in base64, to be small. Where a
study is too large for a page, rounds are left out first and trials then, and the page says so.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import html
import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata, resources
from pathlib import Path
from typing import Any, Literal

import numpy as np

from adadim.core.codec import finite_or_none, to_toml
from adadim.core.files import write_atomic
from adadim.core.on_demand import on_demand as _on_demand
from adadim.errors import InvalidValueError, StoreError, StudyError
from adadim.policies.names import TRUE_DIM
from adadim.report.looks import looks_of
from adadim.report.text import name_of, policy_label, title
from adadim.study import Results
from adadim.theory import hardness

__all__ = ["Claims", "Heading", "HeatMap", "Table", "html_page", "write_page"]

SCRIPTS = ("elements.js", "charts.js", "tables.js", "page.js")
PACKAGES = ("adadim", "numpy", "scipy", "polars", "joblib", "torch")
DASHES: dict[str, list[float]] = {"-": [], "--": [6, 3], "-.": [7, 2.5, 1.5, 2.5], ":": [1.5, 2.5]}
FLOATS = 700_000  # numbers that all studies of a page may hold together: 3.7 MB of text

__getattr__, __dir__ = _on_demand(__name__, {}, former={"Column": "Heading"})

CellValue = str | int | float | bool | None


@dataclass(frozen=True)
class Heading:
    """A column of a table: its heading, and what it holds, in a sentence that is shown with the heading.

    By its kind numbers are written with four digits, verdicts in colour.
    """

    name: str
    means: str = ""
    kind: Literal["text", "number", "verdict"] = "text"


@dataclass(frozen=True)
class Table:
    """A table of a page, which readers can sort by any column, under a title and paragraphs of text.

    Each row has a cell for each column. `choose` is the name of the column by whose values readers can narrow the table
    down, if any; `meanings`, of words in the table, are listed above it.
    """

    title: str
    text: Sequence[str]
    columns: Sequence[Heading]
    rows: Sequence[Sequence[CellValue]]
    choose: str = ""
    meanings: Mapping[str, str] | None = None

    def plain(self) -> dict[str, Any]:
        """The table as plain data."""
        rows, meanings = finite_or_none([list(row) for row in self.rows]), list((self.meanings or {}).items())
        return {"kind": "table", **asdict(self), "rows": rows, "meanings": meanings}


@dataclass(frozen=True)
class Claims:
    """Sentences with verdicts, as a short list; the table of the statistics behind them is in a fold.

    Each of `claims` is the group that it stands under, the sentence, and pairs of a case (one variant of an experiment)
    and the verdict there.
    """

    title: str
    text: Sequence[str]
    claims: Sequence[tuple[str, str, Sequence[tuple[str, str]]]]
    statistics: Table

    def plain(self) -> dict[str, Any]:
        """The claims as plain data."""
        return {"kind": "claims", **asdict(self), "statistics": self.statistics.plain()}


@dataclass(frozen=True)
class HeatMap:
    """Ratios of families (rows, each a group and a name) and policies (columns), for one or several references.

    `ratios` maps a reference to {(row, column): (ratio, low, high)}, `regrets` (row, column) to the mean regret; what
    is missing stays empty.
    """

    title: str
    text: Sequence[str]
    families: Sequence[tuple[str, str]]
    policies: Sequence[str]
    ratios: Mapping[str, Mapping[tuple[int, int], tuple[float, float, float]]]
    regrets: Mapping[tuple[int, int], float]

    def plain(self) -> dict[str, Any]:
        """The heat map as plain data."""
        pairs = [[(i, j) for j in range(len(self.policies))] for i in range(len(self.families))]
        return {
            "kind": "heat map",
            "title": self.title,
            "text": list(self.text),
            "families": [list(family) for family in self.families],
            "policies": list(self.policies),
            "references": list(self.ratios),
            "ratios": [
                [[[_finite_rounded(x) for x in cells.get(pair, ())] for pair in row] for row in pairs]
                for cells in self.ratios.values()
            ],
            "regrets": [[_finite_rounded(self.regrets.get(pair)) for pair in row] for row in pairs],
        }


PagePart = Table | HeatMap | Claims


def _finite_rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.5g}")


def write_page(
    path: str | Path,
    studies: Sequence[Results],
    title: str,
    blocks: Sequence[PagePart] = (),
    reruns: Mapping[str, Sequence[str]] | None = None,
) -> Path:
    """Write a page of studies as one HTML file; see `html_page`.

    Examples
    --------
    >>> import tempfile
    >>> from adadim.study import Study, run
    >>> sphere = {"kind": "sphere", "arms": 5, "dim": 3, "intrinsic_dim": 2, "horizon": 20}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = run(Study("mine", {"s": sphere}, {"random": {"kind": "Random"}}, trials=1), folder, jobs=1)
    ...     size = write_page(folder + "/report.html", [results], "My study").stat().st_size
    >>> size < 100_000
    True
    """
    return write_atomic(Path(path), html_page(studies, title, blocks, reruns).encode())


def html_page(
    studies: Sequence[Results],
    title: str,
    blocks: Sequence[PagePart] = (),
    reruns: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Text of a page. The same results on the same machine give the same text: it holds no date.

    Studies without a finished trial are named and left out; blocks stand after the first study. `reruns` has the name
    of a study and the commands that run it again; by default the page shows its TOML file, to be run.
    """
    reruns = reruns or {}
    share = FLOATS // max(len(studies), 1)
    sizes = [sum(results.curves(*cell)[1].size for cell in results.cells()) for results in studies]
    spare = max(0, FLOATS - sum(min(size, share) for size in sizes))
    contents = []
    for results, size in zip(studies, sizes, strict=True):
        allowed = min(size, share + spare)  # what small studies leave goes to the large ones, first come, first served
        spare -= max(0, allowed - share)
        contents.append(study_content(results, reruns.get(results.name, ()), max(allowed, 1)))
    if not any(contents):
        folders = ", ".join(str(results.folder) for results in studies)
        raise StoreError(f"{folders}: nothing is finished yet, so there is nothing to report; run the study first")
    data = {
        "title": title,
        "studies": [content for content in contents if content],
        "empty": [results.name for results, content in zip(studies, contents, strict=True) if not content],
        "machine": _machine(),
        "blocks": [block.plain() for block in blocks],
    }
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":  # may not stand in a script element
        text = text.replace(character, f"\\u{ord(character):04x}")
    script = "\n".join(_part(name) for name in SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    values = {"TITLE": html.escape(title), "SCRIPT_HASH": f"sha256-{digest}", "STYLE": _part("page.css")}
    values |= {"DATA": text, "SCRIPT": script}
    parts = _part("page.html").split("%%")  # text, name, text, name, ...: values are never looked into
    return "".join(values[part] if i % 2 else part for i, part in enumerate(parts))


def _part(name: str) -> str:
    return resources.files("adadim.report.page").joinpath(name).read_text(encoding="utf-8")


def study_content(results: Results, rerun: Sequence[str], floats: int = FLOATS) -> dict[str, Any] | None:
    """A study as plain data of at most so many floats, or None if no trial of it is finished; see `html_page`."""
    cells = [cell for cell in results.cells() if len(results.replications(*cell))]
    if not cells:
        return None
    instances = [name for name in results.instances if any(name == instance for instance, _ in cells)]
    policies = [name for name in results.policies if any(name == policy for _, policy in cells)]
    keep, most_trials, note = _what_fits(results, cells, floats)
    looks = looks_of(results.study["policies"], results.labels.get("looks"))
    try:
        toml = to_toml(results.study)
    except StudyError as error:  # TOML cannot write all of its values
        toml = f"# {error}\n"
    return {
        "name": results.name,
        "title": title(results),
        "trials": results.trials,
        "seed": results.study.get("seed", 0),
        "version": results.version,
        "policies": [_policy(results, name, looks[name], cells) for name in policies],
        "instances": [
            {"name": name_of(results, "panels", name), "parameters": _parameters(results, name)} for name in instances
        ],
        "cells": [
            {"instance": instances.index(i), "policy": policies.index(p), **_curves(results, (i, p), keep, most_trials)}
            for i, p in cells
        ],
        "note": note,
        "toml": toml,
        "rerun": list(rerun),
    }


def _what_fits(results: Results, cells: Sequence[tuple[str, str]], floats: int) -> tuple[int, int, str]:
    """Rounds and trials to keep of each cell, and a sentence for readers about what is left out."""
    shapes = [(len(results.replications(*cell)), len(results.curves(*cell)[0])) for cell in cells]
    keep, trials = widest, most = max(n for _, n in shapes), max(r for r, _ in shapes)
    while keep > 1 and sum(r * min(n, keep) for r, n in shapes) > floats:
        keep = keep * 3 // 4
    while trials > 1 and sum(min(r, trials) * min(n, keep) for r, n in shapes) > floats:
        trials = trials * 3 // 4
    parts = []
    if keep < widest:
        parts.append(f"about {keep} of {widest} recorded rounds")
    if trials < most:
        parts.append(f"the first {trials} of {most} trials")
    return keep, trials, f"To stay small, this page holds {' and '.join(parts)}." if parts else ""


def _curves(results: Results, cell: tuple[str, str], keep: int, most_trials: int) -> dict[str, Any]:
    """Rounds, trials and regret of a cell, as far as they are kept."""
    times, regret = results.curves(*cell)
    numbers = results.replications(*cell)[:most_trials]
    # Spread evenly, and always with the last round.
    columns = np.unique(np.linspace(len(times) - 1, 0, num=min(keep, len(times))).round().astype(int))
    values = np.ascontiguousarray(regret[: len(numbers), columns], dtype="<f4")
    return {
        "times": times[columns].tolist(),
        "trials": _ranges(numbers.tolist()),
        "regret": base64.b64encode(values.tobytes()).decode("ascii"),
    }


def _ranges(numbers: Sequence[int]) -> list[list[int]]:
    """Rising numbers as ranges [first, last]: of 0, 1, 2, 5 they are [0, 2] and [5, 5]."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


def _policy(results: Results, name: str, look: Mapping[str, Any], cells: Sequence[tuple[str, str]]) -> dict[str, Any]:
    parameters = results.hyper_parameters(*next(cell for cell in cells if cell[1] == name))
    return {
        "name": name,
        "label": policy_label(results, name),
        "told": TRUE_DIM in results.study["policies"][name].values(),
        "kind": parameters.pop("kind"),
        "parameters": {key: finite_or_none(value) for key, value in parameters.items()},
        "colour": look["color"],
        "dash": DASHES[look["linestyle"]],
        "marker": look["marker"],
        "hollow": "markerfacecolor" in look or "fillstyle" in look,
    }


def _parameters(results: Results, instance: str) -> Mapping[str, Any]:
    """Parameters of an instance, and alpha where it has one."""
    parameters = {key: finite_or_none(value) for key, value in results.parameters(instance).items()}
    try:
        return {**parameters, "alpha": hardness(parameters["intrinsic_dim"], parameters["horizon"])}
    except (KeyError, TypeError, InvalidValueError):
        return parameters


def _machine() -> list[tuple[str, str]]:
    """The machine that makes the page: pairs of a thing and its version or size, of packages those installed."""
    versions = []
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions.append((package, metadata.version(package)))
    name = platform.processor() or "unknown"
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    system, processor = f"{platform.system()} {platform.machine()}", f"{name}, {os.cpu_count()} cores"
    return [*versions, ("Python", platform.python_version()), ("system", system), ("processor", processor)]
