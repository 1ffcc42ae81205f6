"""What `make docs` adds to the pages of this folder: the API from docstrings, the changelog, how to contribute.

A hook of mkdocs. The API pages follow the public names, so a new one is documented by its docstring alone.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
FROM_ROOT = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md", "security.md": "SECURITY.md"}

# Page: the module whose public names it documents, its title, and what to say first.
API = {
    "api/adadim.md": ("adadim", "adadim", "Problems, simulation, and what else is used every day."),
    "api/policies.md": ("adadim.policies", "Policies", "Every policy is also a name of `adadim` itself."),
    "api/errors.md": ("adadim.errors", "Errors and warnings", "Every one is also a name of `adadim` itself."),
    "api/instances.md": ("adadim.instances", "Instances", "Generators of problems of known truth."),
    "api/study.md": ("adadim.study", "Studies", "What to run, who runs it, where results are kept."),
    "api/paper.md": ("adadim.experiments.paper", "The paper", "Also available as `adadim.paper`."),
    "api/comparison.md": ("adadim.experiments.comparison", "The comparison", "Every policy on families of problems."),
    "api/tradeoff.md": ("adadim.experiments.tradeoff", "The trade-off", "Frontier, lower bound, measured rates."),
    "api/report.md": ("adadim.report", "Figures and tables", "What every experiment reports with."),
    "api/page.md": ("adadim.report.page", "The web page", "Results as one HTML file."),
    "api/testing.md": ("adadim.testing", "Testing", "Conformance suites: `check_policy`, `check_log`."),
    "api/theory.md": ("adadim.theory", "Theory", "Schedules, rates and bounds as functions."),
}


def on_config(config: Any) -> Any:
    """Put the API pages and pages that nav does not list into nav."""
    listed = set(re.findall(r"[\w/.-]+\.md", str(config.nav)))
    found = sorted(path.relative_to(config.docs_dir).as_posix() for path in Path(config.docs_dir).rglob("*.md"))
    made = [{"Security": "security.md"}] if (ROOT / "SECURITY.md").exists() else []
    more = [page for page in found if page not in listed]
    config.nav += [*([{"More": more}] if more else []), {"API": [{title: page} for page, (_, title, _) in API.items()]}]
    for section in config.nav:
        if "Project" in section:
            section["Project"] += made
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made here."""
    for page, source in FROM_ROOT.items():
        if (ROOT / source).exists():
            files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    for page, (module, title, first) in API.items():
        files.append(File.generated(config, page, content=api_page(module, title, first)))
    return files


def api_page(module: str, title: str, first: str) -> str:
    """Markdown that documents every public name of a module once."""
    lines = [f"# {title}", "", first, ""]
    names = public_names(module)
    for name in names:
        value = getattr(importlib.import_module(module), name)
        lines.append(f"::: {module}.{name}")
        if has_layers(value, names):
            lines += ["    options:", "      inherited_members: true"]
        lines += ["", *shared_parts(value)]
    return "\n".join(lines)


def shared_parts(value: Any) -> list[str]:
    """What the docstring of a policy has from elsewhere: parameters that others have too, the example of masters."""
    if not (isinstance(value, type) and value.__module__.startswith("adadim.policies.")):
        return []
    written = ast.get_docstring(ast.parse(inspect.getsource(value)).body[0]) or ""
    section = (inspect.getdoc(value) or "").partition("Parameters\n----------\n")[2].partition("\n\n")[0] + "\n"
    entries = re.findall(r"^(\w+) : (.*)\n((?:    .*\n)+)", section, flags=re.MULTILINE)
    shared = [entry for entry in entries if f"{entry[0]} : {entry[1]}\n{entry[2]}" not in f"{written}\n"]
    items = [f"- **`{name}`** ({kind}): {' '.join(text.split())}" for name, kind, text in shared]
    lines = [f"Parameters of `{value.__name__}` that other policies have too:", "", *items, ""] if items else []
    example = (inspect.getdoc(value) or "").partition("Examples\n--------\n")[2].strip()
    if example and "Examples\n" not in written:  # that of all masters
        lines += ["```pycon", example, "```", ""]
    return lines


def has_layers(value: Any, names: list[str]) -> bool:
    """Whether a class has methods of adadim's classes that have no entry of their own."""
    below = value.__mro__[1:] if isinstance(value, type) else ()
    return any(kind.__module__.startswith("adadim.") and kind.__name__ not in names for kind in below)


def public_names(module: str) -> list[str]:
    """Names of a package's `__all__` that are no modules, or what a module defines; for `adadim`, what no page has."""
    loaded = importlib.import_module(module)
    own = {name: value for name, value in vars(loaded).items() if getattr(value, "__module__", "") == module}
    made = [name for name, value in own.items() if inspect.isclass(value) or inspect.isfunction(value)]
    names = list(getattr(loaded, "__all__", [name for name in made if not name.startswith("_")]))
    if module == "adadim":
        pages = (importlib.import_module(f"adadim.{room}") for room in ("policies", "errors"))
        elsewhere = {name for page in pages for name in page.__all__}
        more = [name for name in vars(loaded) if not name.startswith("_") and name not in names]
        names = sorted({*names, *more, "run"} - elsewhere)
    kinds = (type(importlib), str, bool)
    return [name for name in names if not isinstance(getattr(loaded, name), kinds)]
