"""The documentation site builds without a warning, documents every public name, and loads nothing from elsewhere."""

import html
import inspect
import operator
import os
import re
import subprocess
import sys
from pathlib import PurePosixPath
from urllib.parse import unquote

import pytest
import typer.main
from pages_of_docs import ROOT

import adadim
from adadim import cli

pytest.importorskip("mkdocs", reason="mkdocs is not installed")
pytest.importorskip("material", reason="mkdocs-material is not installed")
pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed")
pytest.importorskip("uvicorn", reason="the page of the service needs uvicorn")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    settings = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_there(site):
    pages = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    made = {path.relative_to(site).with_suffix("") for path in site.rglob("*.html")}
    as_index = {page.parent / "index" if page.name == "README" else page for page in pages}
    assert as_index <= made
    home = (site / "index.html").read_text(encoding="utf-8")
    titled = {path for path in (ROOT / "docs").rglob("*.md") if path.read_text(encoding="utf-8").startswith("# ")}
    for path in (ROOT / "docs").rglob("*.md"):
        page = path.relative_to(ROOT / "docs").with_suffix("")
        page = page.parent / "index" if page.name == "README" else page
        listed = f'href="{page.as_posix()}.html"' in home
        assert listed == (path in titled) or page.name == "index", page  # a bare table is reached from a page's text


def test_two_doors_a_reference_and_a_notebook(site):
    home = (site / "index.html").read_text(encoding="utf-8")
    nav = home[home.index("md-nav--primary") :]
    places = [nav.index(f"{title}\n") for title in ("Use it", "Study it", "Reference", "Notebook")]
    assert places == sorted(places)
    assert places[2] < nav.index('href="api/adadim.html"') < places[3]


def test_nothing_is_loaded_from_elsewhere(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]*\ssrc=[\"']?(?:https?:)?//[^\s\"'>]+", text)
        loaded += re.findall(
            r"<link[^>]*rel=[\"']?(?:stylesheet|preconnect|preload|icon)[^>]*(?:https?:)?//[^>]+>", text
        )
        loaded += re.findall(r"class=[\"']?mermaid", text)  # which material would fetch its script for
        assert loaded == [], page.name
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import )[\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8")), sheet.name


def test_every_public_name_is_documented(site):
    text = "".join(page.read_text(encoding="utf-8") for page in (site / "api").glob("*.html"))
    documented = set(re.findall(r'<h2 id="[\w.]*\.(\w+)"', text))
    names = {*adadim.__all__, *(name for name in vars(adadim) if not name.startswith("_")), "run"}
    others = {name for name in names if isinstance(getattr(adadim, name), (type(adadim), bool))}
    assert {"D3RB", "StoreError", "Outcome", "simulate"} <= names
    assert names - others - documented == set()


@pytest.mark.parametrize(("page", "name"), [("policies", "policies.Learner"), ("instances", "instances.TableInstance")])
def test_a_class_made_of_layers_is_documented_whole(site, page, name):
    text = (site / "api" / f"{page}.html").read_text(encoding="utf-8")
    kind = operator.attrgetter(name)(adadim)
    layers = [layer for layer in kind.__mro__ if layer.__module__.startswith("adadim.")]
    methods = {m for layer in layers for m, value in vars(layer).items() if not m.startswith("_") and callable(value)}
    written = {m for m in methods if getattr(kind, m).__doc__}
    assert len(layers) > 1
    assert {m for m in written if f'id="adadim.{name}.{m}"' not in text} == set()


def test_parameters_are_in_words(site):
    for page in (site / "api").glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "Annotated" not in text, page.name
        assert "partial(" not in text, page.name
        assert "d<em>" not in text, page.name  # d* is no emphasis
    for page, words in (
        ("policies", r"ridge\s*\(float > 0, default"),
        ("policies", r"beta\s*\(float in \[0\.5, 1\), default"),
        ("serve", r"port\s*\(int in 0\.\.65535, default"),
        ("policies", r"levels\s*\('one' or 'each', default"),
    ):
        text = html.unescape(re.sub("<[^>]+>", "", (site / "api" / f"{page}.html").read_text(encoding="utf-8")))
        assert re.search(words, text), words


def test_a_docstring_names_the_parameters_of_its_class_alone():
    """A constant of the class is no parameter of it."""
    assert "\nreward_scale : " not in inspect.getdoc(adadim.Guarded)
    assert "\nreward_scale : " in inspect.getdoc(adadim.D3RB)


def test_a_page_begins_with_a_table_of_its_names_and_everyday_names_are_first(site):
    text = (site / "api" / "adadim.html").read_text(encoding="utf-8")
    linked = re.findall(r'<td><a href="#adadim\.(\w+)"', text)
    assert linked[:4] == ["Agent", "recommended", "Problem", "simulate"]
    assert {"evaluate", "dimension", "load", "run"} <= set(linked)
    assert [name for name in linked if f'id="adadim.{name}"' not in text] == []
    text = (site / "api" / "serve.html").read_text(encoding="utf-8")
    assert re.findall(r'<td><a href="#adadim\.serve\.(\w+)"', text)[:3] == ["Client", "Service", "Settings"]


def test_dimension_is_the_function(site):
    text = (site / "api" / "adadim.html").read_text(encoding="utf-8")
    assert "checked_prior" not in text
    assert 'id="adadim.dimension.dimension"' in text


def test_sources_are_linked(site):
    text = (site / "api" / "adadim.html").read_text(encoding="utf-8")
    (path, start) = re.search(r'href="[^"]*/blob/main/(src/adadim/play/simulate\.py)#L(\d+)-L\d+"', text).groups()
    assert (ROOT / path).read_text(encoding="utf-8").splitlines()[int(start) - 1].startswith(("def ", "class ", "@"))


def linked_pages(site, page, body):
    """Pages of the site to which a page links, in its text or anywhere, with the anchors."""
    text = (site / page).read_text(encoding="utf-8")
    text = text[text.index("<article") : text.index("</article>")] if body else text
    found = set()
    for target in re.findall(r'href="([^"#:]+\.html)(#[^"]*)?"', text):
        path = os.path.normpath(PurePosixPath(page).parent / unquote(target[0]))
        found.add((path, html.unescape(target[1])))
    return found


@pytest.mark.parametrize(
    ("question", "page", "anchor", "answer"),
    [
        (
            "how do I log probabilities?",
            "evaluate.html",
            "",
            "every choice has probability 1, and such a log cannot be used",
        ),
        ("what is proved of the default?", "guarantees.html", "", "Nothing is proved about the recommended policy."),
        ("how do I add my algorithm to figure 2?", "tutorials/your-policy.html", "", "add it to figure 2"),
    ],
)
def test_questions_are_answered_in_two_clicks_from_the_front_page(site, question, page, anchor, answer):
    """By links in the text of the pages, without the menu."""
    clicked = {(page, "") for page, _ in linked_pages(site, "index.html", body=True)}
    within = clicked | {found for first, _ in clicked for found in linked_pages(site, first, body=True)}
    assert page in {found for found, _ in within}, question
    text = re.sub(r"\s+", " ", re.sub("<[^>]+>", "", (site / page).read_text(encoding="utf-8")))
    assert answer in text, question


def test_every_page_is_reached_in_two_clicks_from_the_front_page(site):
    front = {page for page, _ in linked_pages(site, "index.html", body=False)}
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html")} - {"404.html", "index.html"}
    two = front | {page for first in front for page, _ in linked_pages(site, first, body=False)}
    assert pages - two == set()


def test_links_within_the_site_have_their_anchors(site):
    """Also those that mkdocs does not check: to pages that are made when the site is built."""
    pages = [path.relative_to(site).as_posix() for path in site.rglob("*.html") if path.name != "404.html"]
    text = {page: (site / page).read_text(encoding="utf-8") for page in pages}
    missing = [
        (page, target, anchor)
        for page in pages
        for target, anchor in linked_pages(site, page, body=True)
        if target not in text or (anchor and f'id="{anchor[1:]}"' not in text[target])
    ]
    assert missing == []


def test_the_command_line_and_the_service_are_pages(site):
    text = (site / "command-line.html").read_text(encoding="utf-8")
    group = typer.main.get_command(cli.app)
    for name, command in group.commands.items():
        for words in [f"{name} {one}" for one in getattr(command, "commands", ())] or [name]:
            assert f'id="adadim-{words.replace(" ", "-")}"' in text, words
    assert "--token-file" in text
    plain = re.sub("<[^>]+>", "", (site / "http.html").read_text(encoding="utf-8"))
    for path in ("POST /ask", "POST /tell", "DELETE /arms", "GET /metrics", "GET /health"):
        assert path in plain
    assert "curl http://127.0.0.1:8000/ask --json" in plain


def test_an_agent_is_documented_without_its_constructor(site):
    text = re.sub("<[^>]+>", "", (site / "api" / "adadim.html").read_text(encoding="utf-8"))
    assert "plugins:" not in text.partition("A bandit whose log")[0]
    assert "Agent.create" in text
