"""The documentation's code runs, its commands exist, its links lead somewhere, its pictures can be made again."""

import fnmatch
import importlib
import io
import os
import re
import sys
import tokenize
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer.main
from pages_of_docs import PAGES, ROOT, blocks, commands, inline_commands, named, programs

from adadim import cli
from adadim.study import Study
from shown_output import Program

sys.path.insert(0, str(ROOT / "docs"))
count_words = importlib.import_module("count_words")
per_page = pytest.mark.parametrize("page", PAGES, ids=named)


@per_page
def test_python_blocks_run_and_print_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "page"}
    listed = programs(page)
    for program in listed:
        try:
            program.run(namespace)
        except ImportError as error:  # what an optional package would give
            if "not installed" not in str(error):
                raise
            pytest.skip(str(error))
    assert [difference for program in listed for difference in program.differences()] == []


SHOWN = """
for n in (1, 2):
    print(n, "of",
          3)
    # 1 of 3
    # 2 of ...
print("a")  # a
# not shown
"""


def test_what_a_program_prints_is_compared_with_what_is_shown() -> None:
    def differences(source: str, after: str = "") -> list[str]:
        program = Program(source, after=after)
        program.run({})
        return program.differences()

    assert differences(SHOWN) == []
    assert differences(SHOWN.replace("2 of ...", "3 of ...")) == [
        "the page shows '1 of 3 3 of ...', the program prints '1 of 3\\n2 of 3\\n'"
    ]
    assert differences("print(0.5)  # about a half") == ["the page shows 'about a half', the program prints '0.5\\n'"]
    assert differences("print('x  y')\n\n# a comment") == ["the page does not show what line 1 prints: 'x  y\\n'"]
    assert differences("print('x  y')\nprint(2)", after="    x y\n    2\n") == []
    assert differences("print('x')", after="    y\n") == ["the page shows '    y\\n', the program prints 'x\\n'"]
    assert differences("if False:\n    print(1)  # 1") == ["the page shows '1', the program prints ''"]


@per_page
def test_studies_are_studies(page: Path) -> None:
    for block in blocks(page, "toml"):
        Study.from_dict({"name": "page", **tomllib.loads(block)}).check()


def test_recommended_is_one_policy_in_every_study() -> None:
    texts = [block for page in PAGES for block in blocks(page, "toml")]
    texts += [file.read_text(encoding="utf-8") for file in ROOT.glob("examples/*.toml")]
    listed = [tomllib.loads(text).get("policies", {}).get("recommended") for text in texts]
    named_so = [policy for policy in listed if policy is not None]
    assert len(named_so) >= 2
    assert [policy for policy in named_so if policy != {"kind": "recommended"}] == []


@per_page
def test_commands_are_understood(page: Path) -> None:
    """Every `adadim` command on a page has the arguments and options that the command line knows."""
    for words in commands(page):
        words = words[1:] if words[0] == "time" else words
        if words[0] == "adadim":
            command, rest = typer.main.get_command(cli.app), words[1:]
            while hasattr(command, "commands") and rest[0] in command.commands:
                command, rest = command.commands[rest[0]], rest[1:]
            command.make_context(" ".join(words), rest)
        elif words[0] == "make":
            makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
            assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in words[1:] if "=" not in target)
        elif words[0] == "python" and words[1] not in ("-m", "-c", "--version"):
            assert (ROOT / words[1]).exists(), words


MADE = {  # pages that only the site has, which tests of the site look at
    name
    for script in ("site.py", "generated_pages.py")
    for name in re.findall(r'"([\w/-]+\.md)"', (ROOT / "docs" / script).read_text(encoding="utf-8"))
}


@per_page
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    made = MADE if page.parent == ROOT / "docs" else ()
    missing = [t for t in targets if "://" not in t and t not in made and not (page.parent / t).exists()]
    assert not missing


@per_page
def test_pictures_are_made_by_a_command_on_a_page(page: Path) -> None:
    """A command names the file, copies it there, or runs a script that names it; or a Python block saves it."""
    makers = [words for maker in PAGES for words in commands(maker) + inline_commands(maker)]
    for target in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.endswith(".svg"):
            continue  # written by hand: the file is its own source
        path = os.path.relpath(page.parent / target, ROOT)
        saved = any(f'savefig("{Path(path).name}"' in block for block in blocks(page, "python"))
        assert saved or any(_makes(words, path) for words in makers), f"{named(page)}: what makes {path}?"


def _makes(words: list[str], path: str) -> bool:
    if any(word == path or word.endswith(f"={path}") for word in words):
        return True
    folder, name = os.path.split(path)
    scripts = [ROOT / word for word in words[1:2] if words[0] == "python" and word.endswith(".py")]
    if any(script.exists() and name in script.read_text(encoding="utf-8") for script in scripts):
        return True
    into = words[0] == "cp" and words[-1].rstrip("/") == folder
    return into and any(fnmatch.fnmatch(name, os.path.basename(source)) for source in words[1:-1])


@per_page
def test_comments_do_not_make_code_wider_than_a_page(page: Path) -> None:
    """A page of the site shows about 80 characters of code; a comment that does not fit stands on a line of its own."""
    for block in blocks(page, "python"):
        tokens = tokenize.generate_tokens(io.StringIO(block).readline)
        lines = [token.line.rstrip() for token in tokens if token.type == tokenize.COMMENT]
        assert [line for line in lines if len(line) > 80] == []


@pytest.mark.parametrize("word", ["arm", "context", "offer", "level", "d\\*", "radius", "evidence"])
def test_the_glossary_has_the_words_of_the_field(word: str) -> None:
    page = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    assert f"\n| **{word}** | " in page.partition("## Glossary")[2]


def test_how_it_works_names_the_parts_and_the_loops() -> None:
    picture = ElementTree.parse(ROOT / "docs" / "images" / "how-it-works.svg")
    words = " ".join("".join(text.itertext()) for text in picture.iter("{http://www.w3.org/2000/svg}text"))
    for word in ("offer", "model", "rule", "arm", "reward", "simulate", "Agent", "evaluate"):
        assert word in words
    assert "images/how-it-works.svg" in (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")


def test_every_picture_is_on_a_page() -> None:
    shown = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [p.name for p in ROOT.glob("docs/**/*.png") if p.name not in shown] == []


def test_users_pages_are_short() -> None:
    pages = count_words.users_pages()
    assert {"README.md", "agent.md", "guarantees.md", "your-policy.md"} <= {page.name for page in pages}
    assert not any("notebook" in named(page) for page in pages)
    assert sum(map(count_words.words, pages)) <= count_words.MOST


def test_every_page_of_the_notebook_is_in_its_index() -> None:
    index = ROOT / "docs" / "notebook" / "README.md"
    linked = set(re.findall(r"\]\(([^)#]+\.md)\)", index.read_text(encoding="utf-8")))
    pages = [path for path in index.parent.glob("*.md") if path != index]
    assert [path.name for path in pages if path.name not in linked] == []
