"""Policies and instance generators of the user's own."""

from __future__ import annotations

import pickle
import sys
import textwrap
from dataclasses import fields

import pytest
from small_studies import SPHERE, done_by, six_cells, two_instances

from adadim.errors import InvalidValueError
from adadim.study import Study, StudyError, load, load_plugin

PLUGIN = """
from __future__ import annotations
from dataclasses import dataclass
import numpy as np
import adadim

SHARE = {share}

def cut(dim):
    return max(1, int(dim * SHARE))

@dataclass(frozen=True)
class Part(adadim.Policy):
    ridge: float = 1.0

    def learner(self, problem, streams):
        {comment}
        return adadim.LinUCB(ridge=self.ridge, dim=cut(problem.dim)).learner(problem, streams)

def corners(*, dim, horizon, replications=range(1)):
    features = np.broadcast_to(np.eye(dim), (len(replications), dim, dim))
    return adadim.Instance(
        features, theta=np.eye(dim)[0], horizon=horizon, noise=0.1, replications=replications
    )

def unrelated():
    return "{other}"
"""


def plugin(tmp_path, share=0.5, other="", comment=""):
    file = tmp_path / "mine.py"
    file.write_text(PLUGIN.format(share=share, other=other, comment=comment))
    return load_plugin(file)


def test_plugins_serve_policies_and_instances(tmp_path):
    own = plugin(tmp_path)
    assert sorted(own) == ["Part", "corners"]
    instances = {"c": {"kind": "corners", "dim": 5, "horizon": 20}}
    study = two_instances(instances=instances, policies={"part": {"kind": "Part"}}, plugins=own)
    (cell,) = study.cells
    assert (cell.arms, cell.dim, cell.policy_object.ridge) == (5, 5, 1.0)
    assert cell.make([3]).problem.replications == (3,)


def test_an_edited_plugin_has_another_id_and_an_edit_it_does_not_use_keeps_it(tmp_path):
    def identifier(**edit):
        study = two_instances(policies={"part": {"kind": "Part"}}, plugins=plugin(tmp_path, **edit))
        return study.cells[0].id

    first = identifier()
    assert identifier() == first
    assert identifier(other="something else") == first
    assert identifier(share=0.25) != first
    assert identifier(comment="# half of them") == first
    assert identifier(comment='"""Half of them."""') == first


GUARDED = """
from __future__ import annotations
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated
import adadim
from adadim.core.checks import positive
if TYPE_CHECKING:
    from nowhere import Unknown

Width = Annotated[float, partial(positive, meaning="e.g. 1")]

@dataclass(frozen=True)
class Careful(adadim.Random):
    width: {annotation} = 1.0
"""


def test_fields_of_a_plugin_are_checked_here_and_where_it_travels_by_value(tmp_path):
    file = tmp_path / "guarded_plugin.py"
    file.write_text(GUARDED.format(annotation="Width"))
    kind = load_plugin(file)["Careful"]
    arrived = pickle.loads(pytest.importorskip("cloudpickle").dumps(kind))
    assert arrived.__module__ not in sys.modules
    for guarded in (kind, arrived):
        assert guarded(width=2.0).width == 2.0
        with pytest.raises(InvalidValueError, match="width must be a positive finite number"):
            guarded(width=-1.0)


def test_a_plugin_whose_fields_cannot_be_checked_is_refused(tmp_path):
    file = tmp_path / "guarded_plugin.py"
    file.write_text(GUARDED.format(annotation="Unknown"))
    with pytest.raises(StudyError, match=r"plugins\.Careful: Careful\.width: the annotation Unknown must .* NameError"):
        load_plugin(file)


def test_a_plugin_means_what_its_text_says(tmp_path):
    """Nothing of how adadim is written, such as its future imports, enters what is made of it."""
    text = PLUGIN.format(share=0.5, other="", comment="").replace("from __future__ import annotations\n", "")
    file = tmp_path / "part.py"
    file.write_text(text)
    assert [entry.type for entry in fields(load_plugin(file)["Part"])] == [float]


def test_bad_plugins_are_refused(tmp_path):
    file = tmp_path / "plugin.py"
    with pytest.raises(StudyError, match=r"plugin\.py: no such file"):
        load_plugin(file)
    for code, message in (
        ("1 +", "raised SyntaxError"),
        ("import adadim_no_such_module", "raised ModuleNotFoundError"),
        ("from adadim import LinUCB", "defines no policy"),
        ("import adadim\nclass LinUCB(adadim.Random): pass", "adadim has a LinUCB of its own"),
        ("import adadim\nclass Own(adadim.Random):\n    def __init__(self, x): pass", "make it a frozen dataclass"),
    ):
        file.write_text(textwrap.dedent(code))
        with pytest.raises(StudyError, match=message):
            load_plugin(file)


IN_TURN = """
from dataclasses import dataclass
from adadim import Policy
from adadim.policies.base import Learner

STEP = 1

@dataclass(frozen=True)
class InTurn(Policy):
    first: int = 0

    def learner(self, problem, streams):
        return InTurnLearner(self.first, problem, streams)

class InTurnLearner(Learner):
    def __init__(self, first, problem, streams):
        super().__init__(problem, streams)
        self.arm = first

    def choose(self, rows):
        self.arm = (self.arm + STEP) % self.problem.arms
        return self.xp.full(len(self.problem), self.arm), {}

    def absorb(self, arms, rewards, rows, memo):
        pass
"""


def test_a_policy_from_a_file_runs_in_workers_and_is_computed_anew_when_edited(tmp_path):
    code, file, folder = tmp_path / "turn.py", tmp_path / "study.toml", tmp_path / "results"
    file.write_text(six_cells(instances={"easy": SPHERE}).to_toml() + '\n[policies.mine]\nkind = "InTurn"\nfirst = 3\n')

    def units(text, jobs):
        code.write_text(text)
        return [
            unit.cell.policy for unit in done_by(Study.from_toml(file, load_plugin(code)), folder, jobs=jobs, batch=5)
        ]

    assert sorted(units(IN_TURN, 2)) == ["LinUCB", "mine", "oracle", "random"]
    first = load(folder).final("easy", "mine")
    assert units(IN_TURN + "\nUNUSED = 3  # a remark\n", 1) == []
    assert units(IN_TURN.replace("STEP = 1", "STEP = 3"), 2) == ["mine"]
    assert load(folder).final("easy", "mine").tolist() != first.tolist()
    with pytest.raises(StudyError, match=r"policies\.mine\.kind: no policy 'InTurn'"):
        Study.from_toml(file)
