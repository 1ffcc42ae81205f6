"""What ``import adadim`` loads, and what it loads only when asked."""

import importlib
import importlib.util
import pkgutil
import rlcompleter
import subprocess
import sys
from pathlib import Path

import pytest

import adadim

HEAVY = ("matplotlib", "polars", "typer", "rich", "joblib")


def loaded(code):
    """Which of the heavy libraries a fresh Python has loaded after some code."""
    script = f"import sys\n{code}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    return set(done.stdout.split())


def test_importing_adadim_loads_no_heavy_library():
    assert loaded("import adadim") == set()
    sphere = "adadim.instances.sphere(arms=5, dim=3, intrinsic_dim=2, horizon=10)"
    assert loaded(f"import adadim\nadadim.simulate(adadim.LinUCB(), {sphere})") == set()


def test_a_command_that_draws_nothing_does_not_load_what_draws():
    assert "matplotlib" not in loaded("import adadim.cli")


@pytest.mark.parametrize(
    "code",
    [
        "import adadim\nassert adadim.paper.FIGURES",
        "from adadim import paper\nassert paper.policies('theory')",
        "import adadim\nassert adadim.paper.study('fig2a', trials=1).cells",
        "import adadim\nassert adadim.experiments.comparison.FAMILIES and adadim.experiments.tradeoff.frontier",
        "from adadim.experiments import paper\nimport adadim\nassert adadim.paper is paper",
        "import adadim.paper\nassert adadim.paper.study('fig2a', trials=1).cells",
        "import adadim.paper as short\nimport adadim.experiments.paper as long\nassert short is long",
        "from adadim.paper import study, Verdict\nfrom adadim.experiments import paper\nassert study is paper.study",
        "import adadim\nassert adadim.study.Study",
        "from adadim import *\nassert paper and study and experiments",
    ],
)
def test_rooms_come_when_asked_for(code):
    found = loaded(code)
    assert "polars" in found
    assert "typer" not in found


def test_what_a_star_imports():
    rooms = {"errors", "experiments", "instances", "paper", "policies", "report", "serve", "study", "testing", "theory"}
    used = {"Problem", "Agent", "recommended", "simulate", "dimension", "evaluate", "load", "plot"}
    policies = {"EvidenceLinUCB", "LinUCB", "LinTS", "LinUCBPlusPlus", "Greedy", "Random"}
    assert set(adadim.__all__) == rooms | used | policies


def test_every_name_can_be_completed():
    shown = {name for name in dir(adadim) if not name.startswith("_")}
    others = {"Outcome", "Replay", "Evaluation", "Dimension", "Instance", "ActionSet", "Features", "run"}
    others |= {"interactions", "interaction_levels"}
    assert shown >= {*adadim.__all__, *adadim.policies.__all__, *adadim.errors.__all__, *others}
    assert not shown & {"TYPE_CHECKING", "core", "models", "play", "startup"}
    for name in dir(adadim):
        assert getattr(adadim, name) is not None
    completer = rlcompleter.Completer({"adadim": adadim})
    assert completer.complete("adadim.Cor", 0).rstrip("()") == "adadim.Corral"


@pytest.mark.parametrize("room", ["policies", "errors"])
def test_every_policy_and_error_can_be_had_from_the_top(room):
    module = getattr(adadim, room)
    assert len(module.__all__) > 15
    for name in module.__all__:
        assert getattr(adadim, name) is getattr(module, name)


@pytest.mark.parametrize("name", ["ActionSet", "Instance", "Outcome", "Evaluation", "Dimension", "interactions", "run"])
def test_what_is_not_shown_is_there(name):
    assert callable(getattr(adadim, name))


def test_names_that_do_not_exist():
    with pytest.raises(AttributeError, match=r"module 'adadim' has no attribute 'papers'; did you mean 'paper'\?"):
        _ = adadim.papers
    with pytest.raises(AttributeError, match=r"module 'adadim' has no attribute 'Corrall'; did you mean 'Corral'\?$"):
        _ = adadim.Corrall
    with pytest.raises(AttributeError, match=r"module 'adadim' has no attribute 'zzzzzz'$"):
        _ = adadim.zzzzzz
    assert not hasattr(adadim, "__wrapped__")
    with pytest.raises(AttributeError, match="choose from comparison, field, paper, tradeoff"):
        _ = adadim.experiments.papers
    with pytest.raises(ImportError):
        from adadim import papers  # noqa: F401


def test_all_that_modules_announce_is_there():
    names = [part.name for part in pkgutil.walk_packages(adadim.__path__, "adadim.")]
    announcing = [importlib.import_module(name) for name in names if "__all__" in source_of(name)]
    assert len(announcing) > 10
    announced = [(module, name) for module in announcing for name in getattr(module, "__all__", ())]
    lacking = [(module.__name__, name) for module, name in announced if not hasattr(module, name)]
    assert lacking == []


def source_of(name):
    return Path(importlib.util.find_spec(name).origin).read_text()
