"""A user's script passes `mypy --strict`, and a mistake in it is found: the types of the package are seen."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy", reason="mypy is not installed")
ROOT = Path(__file__).parents[2]

SCRIPT = """
from dataclasses import dataclass

import numpy as np
import adadim
import adadim.paper
from adadim import paper, study
from adadim.report.page import write_page


@dataclass(frozen=True)
class Mine(adadim.LinUCB):
    width: float = 0.5


def regret(policy: adadim.Policy, rounds: int) -> float:
    instance = adadim.instances.sphere(arms=20, dim=6, intrinsic_dim=2, horizon=rounds, replications=range(2))
    return float(adadim.simulate(policy, instance).final.mean())


problem = adadim.Problem(np.eye(3), horizon=10)
learner = adadim.recommended(problem).start(problem, seed=1)
arm = learner.select()
learner.update(arm, 0.5)
decision = learner.ask()
learner.tell(decision, 0.5)
total: float = regret(Mine(width=0.3), 20) + regret(adadim.LinUCBPlusPlus(beta=0.5), 20)
plan: study.Study = paper.study("fig2a", trials=3)
same: study.Study = adadim.paper.study("fig2a", trials=3)
verdicts: list[paper.Verdict] = paper.claims([])
with_master: adadim.Policy = adadim.D3RB()
outcome: adadim.Outcome = adadim.simulate(
    adadim.Corral(), adadim.instances.sphere(arms=9, dim=4, intrinsic_dim=2, horizon=9)
)
refusal: type[adadim.AdadimError] = adadim.StoreError
answer: adadim.Dimension = adadim.dimension(np.eye(3), np.ones(3))
write_page("page.html", [study.load("results")], "title")
"""

MISTAKES = """
import adadim
from adadim import study

adadim.LinUCB(dim="three")
study.load(7)
adadim.simulate(adadim.Random())
adadim.no_such_name
"""

# Other packages that adadim uses and no public type names are left out, which saves most of the time.
SETTINGS = """
[mypy]
[mypy-polars.*,matplotlib.*,rich.*,typer.*,scipy.*,joblib.*,torch.*,PIL.*,click.*]
follow_imports = skip
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What mypy says of both scripts: lines with a mistake, by file."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "right.py").write_text(SCRIPT)
    (folder / "wrong.py").write_text(MISTAKES)
    (folder / "mypy.ini").write_text(SETTINGS)
    cache = ROOT / ".mypy_cache" / "users"
    command = [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={cache}", "right.py", "wrong.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    return re.findall(r"^(.*?):(\d+): error: (.*)$", done.stdout, re.MULTILINE), done.stdout + done.stderr


def test_a_script_without_mistakes(found):
    mistakes, text = found
    assert [m for m in mistakes if m[0] != "wrong.py"] == [], text


def test_every_mistake_is_found(found):
    mistakes, text = found
    assert sorted({int(line) for file, line, _ in mistakes if file == "wrong.py"}) == [5, 6, 7, 8], text
