"""Count the words of the users' pages: README.md, the front page, "Use it" and "Study it".

    python docs/count_words.py

Words are what lies between spaces, code and tables included, as `wc -w` counts them.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST = 25_000


def users_pages() -> list[Path]:
    """README, and the pages of mkdocs.yml before Reference."""
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r": (\S+\.md)$", nav.partition("\n  - Reference:\n")[0], flags=re.MULTILINE)
    return [ROOT / "README.md", *(ROOT / "docs" / page for page in listed)]


def words(page: Path) -> int:
    """Number of words of a page."""
    return len(page.read_text(encoding="utf-8").split())


if __name__ == "__main__":
    counts = {page.relative_to(ROOT).as_posix(): words(page) for page in users_pages()}
    for name, count in counts.items():
        print(f"{count:7,}  {name}")
    print(f"{sum(counts.values()):7,}  together, of at most {MOST:,}")
