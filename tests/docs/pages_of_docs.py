"""The pages of the documentation, and the code that stands on them."""

import re
import shlex
from pathlib import Path

from shown_output import Program

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
STARTS = ("adadim ", "python ", "make ", "pip ", "cp ", "chromium ", "cd ", "git ", "time ")


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    """Fenced blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def programs(page: Path) -> list[Program]:
    """Blocks of Python, each with the indented block after it that shows what it prints, if there is one."""
    found = []
    pattern = r"```python\n(.*?)```\n(?:\n((?:    [^\n]*\n)+))?"
    for number, match in enumerate(re.finditer(pattern, page.read_text(encoding="utf-8"), flags=re.DOTALL), 1):
        after = match[2] or ""
        found.append(
            Program(match[1], f"{named(page)}, block {number}", "" if after.strip().startswith(STARTS) else after)
        )
    return found


def commands(page: Path) -> list[list[str]]:
    """Command lines in the page's indented and shell blocks, as words."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    without = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    lines = re.findall(r"^    (\S.*)$", without, flags=re.MULTILINE)
    lines += [line for block in blocks(page, "(?:bash|sh|console)") for line in block.splitlines()]
    kept = [part.strip() for line in lines for part in line.split("&&") if part.strip().startswith(STARTS)]
    return [shlex.split(line.partition(" > ")[0], comments=True) for line in kept]


def inline_commands(page: Path) -> list[list[str]]:
    """Command lines in the running text, between backquotes."""
    found = re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8"))
    return [line.split() for line in found if line.startswith(STARTS)]
