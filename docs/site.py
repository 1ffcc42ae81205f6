"""What `make docs` adds to the pages of this folder: the API from docstrings, the changelog, how to contribute.

A hook of mkdocs, and an extension of griffe, which reads the docstrings. The API pages follow the public names, so a
new one is documented by its docstring alone.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import re
import sys
import tomllib
import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import griffe
from mkdocs.structure.files import File

from adadim.errors import AdadimError

ROOT = Path(__file__).resolve().parent.parent
HOME = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Homepage"]
FROM_ROOT = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md", "security.md": "SECURITY.md"}

# Page: the module whose public names it documents, its title, and what to say first.
API = {
    "api/adadim.md": ("adadim", "Everyday names", "What most programs need, as names of `adadim` itself."),
    "api/agent.md": ("adadim.agent", "Agent", "An agent's own types. `Agent` itself is a name of `adadim` too."),
    "api/serve.md": ("adadim.serve", "Service", "The agent over HTTP: its client, its server and their settings."),
    "api/policies.md": ("adadim.policies", "Policies", "Every policy is also a name of `adadim` itself."),
    "api/instances.md": ("adadim.instances", "Instances", "Generators of problems of known truth."),
    "api/study.md": ("adadim.study", "Studies", "What to run, who runs it, where results are kept."),
    "api/report.md": ("adadim.report", "Figures and tables", "What every experiment reports with."),
    "api/page.md": ("adadim.report.page", "The web page", "Results as one HTML file."),
    "api/paper.md": ("adadim.experiments.paper", "The paper", "Also available as `adadim.paper`."),
    "api/comparison.md": ("adadim.experiments.comparison", "The comparison", "Every policy on families of problems."),
    "api/tradeoff.md": ("adadim.experiments.tradeoff", "The trade-off", "Frontier, lower bound, measured rates."),
    "api/theory.md": ("adadim.theory", "Theory", "Schedules, rates and bounds as functions."),
    "api/testing.md": ("adadim.testing", "Testing", "Conformance suites: `check_policy`, `check_log`."),
    "api/errors.md": ("adadim.errors", "Errors and warnings", "Every one is also a name of `adadim` itself."),
}
# The names that most programs use stand first on their page; the others follow in the order of the alphabet.
FIRST = {
    "adadim": ["Agent", "recommended", "Problem", "simulate", "Outcome", "plot", "evaluate", "dimension", "Features"],
    "adadim.policies": ["EvidenceLinUCB", "LinUCB", "LinTS", "LinUCBPlusPlus", "Greedy", "Random", "Policy", "Learner"],
    "adadim.serve": ["Client", "Service", "Settings"],
    "adadim.instances": ["sphere", "contexts", "clicks", "labelled", "choices", "ratings", "table"],
    "adadim.study": ["Study", "run", "load", "Results", "status"],
}


def on_config(config: Any) -> Any:
    """Put the API pages into Reference, and pages that nav does not list into Notebook, but tables without a title."""
    listed = set(re.findall(r"[\w/.-]+\.md", str(config.nav)))
    found = sorted(path for path in Path(config.docs_dir).rglob("*.md") if path.read_text("utf-8").startswith("# "))
    named = [path.relative_to(config.docs_dir).as_posix() for path in found]
    more = [page for page in named if page not in listed]
    sections = {title: pages for section in config.nav for title, pages in section.items()}
    sections["Reference"].insert(0, {"API": [{title: page} for page, (_, title, _) in API.items()]})
    sections["Notebook"] += more
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made here."""
    for page, source in FROM_ROOT.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    for page, (module, title, first) in API.items():
        files.append(File.generated(config, page, content=api_page(module, title, first)))
    return files


def api_page(module: str, title: str, first: str) -> str:
    """Markdown that documents every public name of a module once, after a table of them."""
    names = public_names(module)
    loaded = importlib.import_module(module)
    lines = [f"# {title}", "", first, "", "| name | what it is |", "| --- | --- |"]
    lines += [f"| [`{name}`](#{module}.{name}) | {summary(getattr(loaded, name))} |" for name in names]
    lines.append("")
    for name in names:
        value = getattr(loaded, name)
        lines += [f"::: {object_path(value, f'{module}.{name}')}", "    options:", f"      heading: {name}"]
        lines += [f"      toc_label: {name}"]
        if has_layers(value, names):
            lines.append("      inherited_members: true")
        if guarded(value):  # the parameters below say it in words
            lines.append("      show_signature_annotations: false")
        lines.append("")
    text = "\n".join(lines)
    for name in names:  # an anchor that is the public name, wherever the object is defined
        path = object_path(getattr(loaded, name), f"{module}.{name}")
        if path != f"{module}.{name}":
            text = text.replace(f"::: {path}\n", f'<a id="{module}.{name}"></a>\n\n::: {path}\n')
    return text


def object_path(value: Any, public: str) -> str:
    """Where griffe finds an object: `adadim.dimension` is a function and the module that defines it."""
    return f"{value.__module__}.{value.__qualname__}" if public in sys.modules else public


def summary(value: Any) -> str:
    """The first sentence of a docstring, for a cell of a table."""
    first = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split()) if callable(value) else ""
    sentence = re.split(r"(?<=[.;])\s", first)[0].rstrip(";.").replace("|", "\\|").replace("``", "`")
    return sentence and as_markdown(f"{sentence}.")


def source_link(value: Any) -> str:
    """A link to where the repository defines a function or a class; empty for a constant."""
    try:
        file, (lines, start) = inspect.getsourcefile(value), inspect.getsourcelines(value)
    except TypeError:
        return ""
    path = Path(str(file)).relative_to(ROOT).as_posix()
    target = f"{path}#L{start}-L{start + len(lines) - 1}"
    return f"Source: [`{path}`, line {start}]({HOME}/blob/main/{target})"


@functools.cache
def sources() -> dict[str, str]:
    """The link to the source of every public function and class, by its full name."""
    values = [
        getattr(importlib.import_module(module), n) for module, _, _ in API.values() for n in public_names(module)
    ]
    public = [value for value in values if inspect.isclass(value) or inspect.isfunction(value)]
    return {f"{value.__module__}.{value.__qualname__}": source_link(value) for value in public}


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
        pages = (importlib.import_module(f"adadim.{page}") for page in ("policies", "errors"))
        elsewhere = {name for page in pages for name in page.__all__}
        more = [name for name in vars(loaded) if not name.startswith("_") and name not in names]
        names = sorted({*names, *more, "run"} - elsewhere)
    if module == "adadim.agent":
        names = [name for name in names if not hasattr(importlib.import_module("adadim"), name)]
    first = [name for name in FIRST.get(module, []) if name in names]
    kinds = (types.ModuleType, str, bool)
    ordered = [*first, *sorted((name for name in names if name not in first), key=str.lower)]
    return [name for name in ordered if not isinstance(getattr(loaded, name), kinds)]


def guarded(value: Any) -> dict[str, Any]:
    """The fields of a dataclass whose annotation names a check, with the annotation."""
    if not (isinstance(value, type) and dataclasses.is_dataclass(value)):
        return {}
    try:
        hints = get_type_hints(value, include_extras=True)
    except NameError:  # a name that only type checkers import
        return {}
    fields = {field.name for field in dataclasses.fields(value)}
    return {name: hint for name, hint in hints.items() if name in fields and "Annotated" in str(hint)}


def in_words(hint: Any) -> str:
    """An annotation as a reader would say it: ``Annotated[float, partial(positive, ...)]`` is ``float > 0``."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind is Annotated:
        return limited(in_words(parts[0]), next(filter(callable, parts[1:]), None))
    if kind is Literal:
        return " or ".join(f'"{part}"' if isinstance(part, str) else repr(part) for part in parts)
    if kind in (Union, types.UnionType):
        return " or ".join(in_words(part) for part in parts)
    if kind is tuple:
        return f"tuple of {in_words(parts[0])}" if parts[-1] is ... else f"({', '.join(map(in_words, parts))})"
    if hint is types.NoneType:
        return "None"
    return "callable" if "Callable" in str(kind) else str(getattr(hint, "__name__", hint))


def limited(kind: str, guard: Any) -> str:
    """A type with the values that a guard of `adadim.core.checks` allows."""
    given = guard.keywords if isinstance(guard, functools.partial) else {}
    name = getattr(guard.func if isinstance(guard, functools.partial) else guard, "__name__", "")
    if name in ("positive", "check_factor"):
        return f"{kind} > 0"
    if name == "not_negative":
        return f"{kind} >= 0"
    if name == "between":
        first, last = given.get("ends", "[]")
        return f"{kind} in {first}{given['low']:g}, {given['high']:g}{last}"
    if name == "integer":
        least = given.get("least", 1)
        return f"{kind} in {least}..{given['most']}" if "most" in given else f"{kind} >= {least}"
    return kind


class CompletedDocstrings(griffe.Extension):
    """Give classes with checked fields the docstring they have when imported, and its parameters the checks' words.

    A policy's docstring is completed on import by the parameters and the example that it shares with others. The first
    paragraph of what is public is followed by a link to the source.
    """

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Make plain text Markdown."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Complete the docstring of a class."""
        if cls.path == "adadim.agent.agent.Agent":
            cls.del_member("__init__")  # agents are made by `create` and `open`
        if cls.docstring is not None and cls.path.startswith("adadim."):
            words_for_checks(cls)
            link_source(cls)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Complete the docstring of a function."""
        link_source(func)


def words_for_checks(cls: griffe.Class) -> None:
    """Say in words what the checked fields of a class may be."""
    try:
        value = getattr(importlib.import_module(cls.module.path), cls.name)
    except (AttributeError, ImportError, AdadimError):  # a module that needs a package which is not installed
        return
    if hints := guarded(value):
        text = inspect.getdoc(value) or ""
        for name, hint in hints.items():
            words = in_words(hint)
            text = re.sub(rf"^{name} : .*$", lambda _, n=name, w=words: f"{n} : {w}", text, flags=re.MULTILINE)
        cls.docstring.value = as_markdown(text)


def as_markdown(text: str) -> str:
    """A docstring whose stars, as in d*, are stars, and whose choices, as in {"a", "b"}, are words."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if choices := re.fullmatch(r"(\w+) : \{(.+)\}(.*)", line):
            line = f"{choices[1]} : {' or '.join(choices[2].split(', '))}{choices[3]}"
        if not line.lstrip().startswith((">>>", "...")):
            parts = line.split("`")  # those between backquotes are code
            parts[::2] = [re.sub(r"(?<=\w)\*(?!\*)", r"\\*", part) for part in parts[::2]]
            line = "`".join(parts)
        lines[at] = line
    return "\n".join(lines)


def link_source(of: griffe.Object) -> None:
    """Put the link to the source of something public after the first paragraph of its docstring."""
    if of.docstring is not None and (link := sources().get(of.path)):
        first, blank, rest = of.docstring.value.partition("\n\n")
        of.docstring.value = f"{first}\n\n{link}{blank}{rest}"
