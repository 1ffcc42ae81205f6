"""What each policy can play, as `adadim.testing.check_policy` finds it, in a table.

    PYTHONPATH=tests python tests/conformance.py docs/architecture.md

writes the table into the page, between the marks that stand there.
"""

import sys
from pathlib import Path

from adadim.testing import check_policy
from adadim.testing.worlds import OFFERS, problem_of
from policy_examples import MADE_WITH, PUBLIC, by_default

__all__ = ["BEGIN", "END", "HEADS", "problem_of", "row", "shown_in_table", "table", "written"]
HEADS = (*OFFERS, "torch", "late", "masked", "saved", "add_arms")
BEGIN, END = "<!-- what each policy can play: begin -->\n", "<!-- what each policy can play: end -->\n"


def shown_in_table(name):
    """The policy of a class that the table shows."""
    return (by_default(PUBLIC[name]) + MADE_WITH.get(name, []))[0]


def row(policy):
    """What a policy plays and can do there, by the heads of the table; raises if it does something wrongly."""
    plays = check_policy(policy, torch=True).plays
    return {head: plays[head] for head in HEADS}


def table():
    """The matrix as Markdown, a row for each policy of the library."""
    lines = [
        "| policy | " + " | ".join(head.replace("_", " ") for head in HEADS) + " |",
        "|---" * (len(HEADS) + 1) + "|",
    ]
    for name in PUBLIC:
        cells = row(shown_in_table(name))
        lines.append(f"| `{name}` | " + " | ".join("yes" if cells[head] else "" for head in HEADS) + " |")
    return "\n".join(lines) + "\n"


def written(page):
    """The table that stands in a page."""
    return page.split(BEGIN)[1].split(END)[0]


if __name__ == "__main__":
    path = Path(sys.argv[1])
    page = path.read_text(encoding="utf-8")
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    path.write_text(f"{before}{BEGIN}{table()}{END}{after}", encoding="utf-8")
