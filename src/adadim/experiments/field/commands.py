"""What `adadim reproduce` does with other people's tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from adadim.experiments.field import plan, verdicts
from adadim.files import Place
from adadim.report.console import (
    VERDICT_COLOURS,
    as_json_text,
    compact_table,
    print_written,
    run_study,
    stdout,
    write_texts,
)

__all__ = ["reproduce_tables"]

COLOURS = {**VERDICT_COLOURS, "agrees": "green", "differs": "red", "other horizon": "yellow"}


def reproduce_tables(
    names: Sequence[str],
    trials: int | None,
    horizon: int | None,
    out_folder: Place,
    seed: int,
    jobs: int | None,
    batch: int | None,
    quiet: bool,
    client: Any = None,
    shared: bool = False,
) -> None:
    """Run what is missing of some tables, write them as Markdown and JSON, and print them."""
    for name in names:
        made = plan.study(name, trials, seed, horizon)
        results = run_study(made, out_folder / made.name, jobs, batch, quiet, client=client, shared=shared)
        found = verdicts.rows([results]) + verdicts.sphere_rows(name, made.trials, seed, horizon)
        texts = {f"{name}.md": verdicts.rows_markdown(found), f"{name}.json": as_json_text(found) + "\n"}
        print_written(write_texts(out_folder / "tables", texts), quiet)
        if not quiet:
            stdout().print(_table(name, found))
            for remark in dict.fromkeys(row.remark for row in found):
                about = dict.fromkeys(row.policy for row in found if row.remark == remark)
                stdout().print(Text(f"{', '.join(about)}: {remark}."), highlight=False)


def _table(name: str, found: Sequence[verdicts.Row]) -> Table:
    title = f"{name}: {found[0].source}, {found[0].trials} trials"
    table = compact_table(title, ("experiment", "learner", "reported", "ours", "verdict"), "learner", 9)
    for row in found:
        table.add_row(
            Text(row.instance),
            Text(row.policy.removeprefix(f"{row.instance}-")),
            f"{row.reported:g} ± {row.error:.0f}",
            f"{row.ours:.4g} [{row.low:.4g}, {row.high:.4g}]",
            Text(row.verdict, style=COLOURS[row.verdict]),
        )
    return table
