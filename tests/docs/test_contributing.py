"""What contributors are told: files that exist, targets that do what is said, hooks that need no network."""

import re

import pytest
from pages_of_docs import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_map_leads_to_files():
    rows = re.findall(r"^\| (.*?) \| (.*?) \| (.*) \|$", TEXT.partition("open this file")[2], flags=re.MULTILINE)[1:]
    wanted = ("a policy", "a family of instances", "a prior", "a rule", "forgets", "second store")
    assert all(word in row[0] for word, row in zip(wanted, rows[:6], strict=True))
    for row in rows:
        paths = re.findall(r"`((?:src|tests|docs)/[^`]*|mkdocs\.yml)`", " ".join(row[1:]))
        assert paths
        assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("Prior", "src/adadim/models/priors.py"),
        ("LinearModel", "src/adadim/models/linear.py"),
        ("Rule", "src/adadim/policies/linear/rules.py"),
        ("LinearPolicy", "src/adadim/policies/linear/learner.py"),
        ("Log", "src/adadim/agent/log.py"),
    ],
)
def test_the_interfaces_stand_where_the_map_says(name, file):
    assert re.search(rf"`{name}` (?:in|\()[ `]*{re.escape(file)}", TEXT)
    assert re.search(rf"^class {name}\b", (ROOT / file).read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_the_check_is_a_part_of_the_tests():
    def recipe(target):
        return re.search(rf"^{target}: \$.*\n((?:\t.*\n)+)", MAKEFILE, flags=re.MULTILINE)[1].splitlines()

    assert recipe("check")[:-1] == recipe("test")[:-1]
    fast = re.search(r"^FAST := ((?:.*\\\n)*.*)$", MAKEFILE, flags=re.MULTILINE)[1].replace("\\\n", " ").split()
    assert len(fast) > 5
    assert [path for path in fast if not (ROOT / path).exists()] == []
    assert {path.partition("/")[0] for path in fast} == {"src", "tests"}


def test_hooks_before_a_commit_download_nothing():
    yaml = pytest.importorskip("yaml")
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert repo["repo"] == "local"
    assert [hook["language"] for hook in repo["hooks"]] == ["system", "system"]
