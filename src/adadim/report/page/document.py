"""The page itself: template, style, script and data in one HTML file.

Names of policies and studies are somebody else's text. They travel as JSON, in which no character can end the element
that holds it, and the script puts them on the page as text and never as HTML. A content security policy admits this one
script, by its hash, and no connection of any kind.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from adadim.errors import StoreError
from adadim.files import write_atomic
from adadim.report.page.blocks import HeatMap, Table
from adadim.report.page.content import FLOATS, study_content
from adadim.report.page.machine import machine
from adadim.study import Results

__all__ = ["html_page", "write_page"]

SCRIPTS = ("elements.js", "charts.js", "tables.js", "page.js")


def write_page(
    path: str | Path,
    studies: Sequence[Results],
    title: str,
    blocks: Sequence[Table | HeatMap] = (),
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
    blocks: Sequence[Table | HeatMap] = (),
    reruns: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Text of a page. The same results on the same machine give the same text: no date goes in.

    Parameters
    ----------
    studies : sequence of Results
        What to show; studies without a finished trial are named and left out.
    title : str
        Heading of the page.
    blocks : sequence of Table or HeatMap
        What to show before the studies.
    reruns : mapping, optional
        Name of a study to the commands that run it again; by default its TOML file is printed to run.
    """
    reruns = reruns or {}
    share = FLOATS // max(len(studies), 1)
    sizes = [_floats(results) for results in studies]
    spare = max(0, FLOATS - sum(min(size, share) for size in sizes))
    contents: list[dict[str, Any]] = []
    empty: list[str] = []
    for results, size in zip(studies, sizes, strict=True):
        allowed = min(size, share + spare)  # what small studies leave goes to the large ones, first come, first served
        spare -= max(0, allowed - share)
        content = study_content(results, reruns.get(results.name, ()), max(allowed, 1))
        if content is None:
            empty.append(results.name)
        else:
            contents.append(content)
    if not contents:
        folders = ", ".join(str(results.folder) for results in studies)
        raise StoreError(f"{folders}: nothing is finished yet, so there is nothing to report; run the study first")
    data = {"title": title, "studies": contents, "empty": empty, "machine": machine(), "blocks": _blocks(blocks)}
    script = "\n".join(_part(name) for name in SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    values = {
        "TITLE": html.escape(title),
        "SCRIPT_HASH": f"sha256-{digest}",
        "STYLE": _part("page.css"),
        "DATA": _json(data),
        "SCRIPT": script,
    }
    parts = _part("page.html").split("%%")  # text, name, text, name, ...: values are never looked into
    return "".join(values[part] if i % 2 else part for i, part in enumerate(parts))


def _floats(results: Results) -> int:
    return sum(results.curves(*cell)[1].size for cell in results.cells())


def _blocks(blocks: Sequence[Table | HeatMap]) -> list[dict[str, Any]]:
    return [{"kind": "table" if isinstance(block, Table) else "heat map", **block.plain()} for block in blocks]


def _json(data: Any) -> str:
    r"""JSON that can stand in a script element: no < > & and no line separators.

    Examples
    --------
    >>> _json("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _part(name: str) -> str:
    return resources.files("adadim.report.page").joinpath(name).read_text(encoding="utf-8")
