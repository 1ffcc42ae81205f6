"""The README: short, with links that lead somewhere, with commands that exist; and what the project says elsewhere."""

import re
import runpy
import sys
import tomllib
from types import SimpleNamespace

import pytest
from pages_of_docs import ROOT, blocks

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_it_is_short():
    assert len(TEXT.splitlines()) < 120


def links(text):
    return re.findall(r"\]\(([^)\s]+)\)", text)


def test_links_are_relative_and_lead_to_files_of_this_project():
    """A clone can be read without network."""
    targets = links(TEXT)
    assert len(targets) > 15
    assert [target for target in targets if not (ROOT / target.partition("#")[0]).exists()] == []


def test_the_package_has_them_absolute(monkeypatch):
    """The package index shows the README away from its folder."""
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", SimpleNamespace(MetadataHookInterface=Hook))
    described = {"urls": PROJECT["urls"]}
    hook = runpy.run_path(str(ROOT / "hatch_build.py"))["Description"](ROOT)
    hook.update(described)
    home, text = PROJECT["urls"]["Homepage"], described["readme"]["text"]
    assert PROJECT["dynamic"] == ["readme"]
    assert described["readme"]["content-type"] == "text/markdown"
    assert len(links(text)) == len(links(TEXT))
    for target, before in zip(links(text), links(TEXT), strict=True):
        assert target == f"{home}/{'raw' if before.endswith('.png') else 'blob'}/main/{before}"
    assert re.sub(r"\]\([^)]*\)", "", text) == re.sub(r"\]\([^)]*\)", "", TEXT)


class Hook:
    """What hatchling's class does that the hook derives from."""

    def __init__(self, root):
        self.root = str(root)


def test_two_examples_of_like_weight_before_anything_long():
    headings = re.findall(r"^## (.*)$", TEXT, flags=re.MULTILINE)
    assert headings == ["Decide and learn in a service", "Compare and reproduce", "Which page for whom"]
    first = TEXT.partition("## ")[0]
    assert "docs/images/features-given.png" in first
    assert "pip install adadim" in first
    assert "pip install 'adadim[serve]'" in first
    assert len(first.splitlines()) < 20
    assert [len(block.splitlines()) <= 13 for block in blocks(ROOT / "README.md", "python")] == [True, True]


def test_its_first_program_runs_twice(tmp_path, monkeypatch, capsys):
    """As every program does that somebody tries."""
    monkeypatch.chdir(tmp_path)
    program = blocks(ROOT / "README.md", "python")[0]
    for _ in range(2):
        exec(compile(program, "README.md", "exec"), {"__name__": "__main__"})
        assert "'sku-0': (" in capsys.readouterr().out


def test_what_it_says_of_the_picture_is_in_the_table_of_the_page():
    """Its numbers are those of `benchmarks/features_given.py`, as docs/real-data.md prints them."""
    page = (ROOT / "docs" / "real-data.md").read_text(encoding="utf-8")
    rows = {}
    for line in page.splitlines():
        name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        if "±" in line and name not in rows:
            rows[name] = [float(cell.split()[0]) for cell in cells]
    assert rows.keys() == {"recommended", "LinUCB(scale=0.35)", "LinTS"}
    (caption,) = re.findall(r"!\[([^]]*)\]\(docs/images/features-given\.png\)", TEXT)
    shown = [float(number) for number in re.findall(r"0\.\d+", caption)]
    ends = [rows["LinUCB(scale=0.35)"][0], rows["LinUCB(scale=0.35)"][-1], rows["LinTS"][0], rows["LinTS"][-1]]
    assert shown == [round(number, 2) for number in (rows["recommended"][-1], *ends)]
    assert rows["recommended"][-1] > max(rows["LinUCB(scale=0.35)"] + rows["LinTS"])


def test_it_names_commands_that_exist():
    assert re.findall(r"^    make (\w+)", TEXT, flags=re.MULTILINE) == ["reproduce", "test"]


def test_it_installs_with_extras_that_exist():
    extras = set(re.findall(r"adadim\[(\w+)\]", TEXT))
    assert extras
    assert extras <= PROJECT["optional-dependencies"].keys()


def test_all_is_everything_for_users():
    """All extras but those that build, test and measure adadim, or bring one table of data each."""
    extras = PROJECT["optional-dependencies"]
    others = {"all", "dev", "bench", "docs", "package", "actg175", "keel", "yeast", "mnist"}
    (everything,) = extras["all"]
    assert set(re.search(r"\[(.*)\]", everything)[1].split(",")) == extras.keys() - others


def test_classifiers():
    versions = {
        c.rpartition(" ")[2] for c in PROJECT["classifiers"] if c.startswith("Programming Language :: Python :: 3.")
    }
    assert versions == {"3.11", "3.12", "3.13", "3.14"}


def test_the_recommended_policy_is_the_lowest_line_but_the_oracle():
    """The picture's problem and policies at a reduced size."""
    import adadim
    from adadim.study import Study

    plan = Study.from_toml(ROOT / "examples" / "first_study.toml")
    (table,) = plan.instances.values()
    sizes = {key: value for key, value in table.items() if key != "kind"}
    instance = adadim.instances.sphere(**{**sizes, "horizon": 400}, replications=range(4))
    final = {}
    for cell in plan.cells:
        final[cell.policy] = adadim.simulate(cell.policy_object, instance).final.mean()
    assert sorted(final, key=final.get)[:2] == ["oracle", "recommended"]


def test_citation():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    yaml = pytest.importorskip("yaml")
    cited = yaml.safe_load(text)
    assert cited["version"] == PROJECT["version"]
    assert cited["license"] == PROJECT["license"]
    (paper,) = cited["references"]
    assert (paper["title"], paper["year"]) == ("Pareto Optimal Model Selection in Linear Bandits", 2022)
    assert [author["family-names"] for author in paper["authors"]] == ["Zhu", "Nowak"]
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()


def test_its_python_is_more_than_a_line():
    assert sum(len(block.splitlines()) for block in blocks(ROOT / "README.md", "python")) > 8
