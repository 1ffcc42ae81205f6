"""What pages show as the output of their programs, compared with what these print.

The output of a `print` stands in a comment: on its line, or on the lines after it. A page that shows it in an indented
block after the program has no such comments. White space does not count, and "..." stands for anything.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Printed:
    """A `print` of a program: its lines, what the page shows of it (None: nothing), and what it has printed."""

    first: int
    last: int
    shown: str | None
    output: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.output)


class Program:
    """A block of Python on a page; `run` runs it and keeps what each `print` prints."""

    def __init__(self, source: str, name: str = "program", after: str = "") -> None:
        self.source, self.name = source, name
        self.after = after  # an indented block that follows it on the page
        self.prints = prints_of(source)

    def run(self, namespace: dict[str, Any]) -> None:
        """Run it after the programs before it on the page, whose names it shares."""
        programs = namespace.setdefault("programs of the page", {})  # not a name that a program could use
        programs[self.name] = self

        def recorded(*values: Any, **options: Any) -> None:
            caller, text = sys._getframe(1), io.StringIO()
            print(*values, **{**options, "file": text})
            for one in programs[caller.f_code.co_filename].prints:
                if one.first <= caller.f_lineno <= one.last:
                    one.output.append(text.getvalue())

        namespace["print"] = recorded
        exec(compile(self.source, self.name, "exec", dont_inherit=True), namespace)

    def differences(self) -> list[str]:
        """What the page shows and the program does not print, or the other way round."""
        found = []
        unshown = [p for p in self.prints if p.shown is None]
        for one in self.prints:
            if one.shown is not None and not agrees(one.shown, one.text):
                found.append(f"the page shows {one.shown!r}, the program prints {one.text!r}")
        text = "".join(one.text for one in unshown)
        if unshown and not self.after:
            found += [f"the page does not show what line {one.first} prints: {one.text!r}" for one in unshown]
        elif unshown and not agrees(self.after, text):
            found.append(f"the page shows {self.after!r}, the program prints {text!r}")
        return found


def prints_of(source: str) -> list[Printed]:
    """Every `print` of a program, with the comment that shows its output."""
    beside, alone = {}, {}  # comments by their line: after code, and on lines of their own
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            where = beside if token.line[: token.start[1]].strip() else alone
            where[token.start[0]] = token.string.removeprefix("#").strip()
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            last = node.end_lineno or node.lineno
            lines = [beside[last]] if last in beside else []
            while last not in beside and (line := alone.get(last + 1 + len(lines))) is not None:
                lines.append(line)
            found.append(Printed(node.lineno, last, " ".join(lines) if lines else None))
    return sorted(found, key=lambda one: one.first)


def agrees(shown: str, printed: str) -> bool:
    """Whether a text is what was printed, "..." standing for anything and white space for white space."""
    parts = [r"\s+".join(map(re.escape, part.split())) for part in shown.split("...")]
    pattern = r"\s*.*?\s*".join(parts)
    return re.fullmatch(rf"\s*{pattern}\s*", printed, flags=re.DOTALL) is not None
