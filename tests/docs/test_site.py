"""The documentation site builds without a warning, documents every public name, and loads nothing from elsewhere."""

import operator
import os
import re
import subprocess
import sys

import pytest
from pages_of_docs import ROOT

import adadim

pytest.importorskip("mkdocs", reason="mkdocs is not installed")
pytest.importorskip("material", reason="mkdocs-material is not installed")
pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed")


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
    missing = [page for page in as_index if f'href="{page.as_posix()}.html"' not in home and page.name != "index"]
    assert missing == []  # all are in the navigation


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
