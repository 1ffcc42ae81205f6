"""Linear policies share one model: where they do, and the modules outside `models` that still regress by themselves."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import adadim
from adadim import policies
from adadim.core.randomness import Purpose, Streams
from adadim.models import tensors  # so that all regressions are defined
from adadim.models.linear import LinearModel
from adadim.models.regression import Regression
from adadim.policies.linear.learner import LinearLearner, LinearPolicy
from conformance import problem_of

SOURCE = Path(adadim.__file__).parent
LINEAR = {name: kind for name, kind in policies.kinds().items() if issubclass(kind, LinearPolicy)}
# Policies of the same package that are more than one rule over one model.
COMPOSED = {
    "TwoPriorLinUCB",  # two linear models, between which the data decide
    "SupLinUCB",  # a linear model for each level of accuracy
    *("ALBDim", "ALBNorm", "EpochBalancing", "ModCB", "OSOM"),  # what each round takes: `RoundRegression`
}
# Modules outside `models` that make a regression or solve a system, what they call, and why it is not a `LinearModel`.
BY_THEMSELVES = {
    # It estimates no parameter: it finds which features depend on earlier ones.
    "dimension.py": {"solve_triangular"},
    # SphereTS plays a point of the sphere, and no offer of the model has a continuum of arms.
    "experiments/field/learners.py": {"ContextPosterior"},
    # It estimates no parameter: it inverts the matrix of a design over the arms of a round.
    "policies/linear/linmed.py": {"pinv"},
    # It whitens the features of a round; its regression is that of `round_learner`.
    "policies/linear/modcb.py": {"dpotrf", "solve_triangular"},
    # ALBDim and ALBNorm estimate by least squares without a ridge, which every regression of `models` has.
    "policies/linear/osom.py": {"lstsq"},
    # `RoundRegression` leaves features out and starts again within a replication, which no model does.
    "policies/linear/round_learner.py": {"ContextPosterior", "posterior", "solve"},
    # `NestedLinUCB` computes LinUCB in all prefixes as one recorded sequence of operations, with torch.
    "policies/masters/base.py": {"Lanes"},
    # `PastRegression` gives the regression after every number of pulls, and a model has the last one alone.
    "policies/masters/smooth_corral.py": {"ContextPosterior"},
}
SOLVE = {"solve", "lstsq", "cho_solve", "cho_factor", "inv", "pinv", "solve_triangular", "dpotrf", "dposv"}


@pytest.mark.parametrize("offer", ["fixed", "contexts", "disjoint", "arriving"])
@pytest.mark.parametrize("name", LINEAR)
def test_every_linear_policy_is_a_rule_over_the_one_model(name, offer):
    problem = problem_of(offer, "numpy").with_writable_arms()
    learner = LINEAR[name]().learner(problem, Streams(0, Purpose.POLICY, problem.replications))
    assert type(learner) is LinearLearner
    assert type(learner.model) is LinearModel
    assert isinstance(learner.model.regression, Regression)
    assert type(learner.model.regression).__module__.startswith("adadim.models.")


def test_policies_that_are_more_than_that_are_known():
    here = {name for name, kind in policies.kinds().items() if kind.__module__.startswith("adadim.policies.linear.")}
    assert {"LinUCB", "Greedy", "TaperedLinUCB", "LinTS", "EvidenceLinUCB", "PrefixLinUCB"} <= set(LINEAR)
    assert here - set(LINEAR) == COMPOSED


def regressions(kind=Regression):
    """Names of the classes that are regressions."""
    return {kind.__name__}.union(*map(regressions, kind.__subclasses__()))


def calls_of(tree):
    """Names of what is called in a module, of methods too."""
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {part.id if isinstance(part, ast.Name) else getattr(part, "attr", "") for part in called}


def test_no_other_module_makes_a_regression_of_its_own():
    makers = regressions() | {"posterior", "context_posterior", tensors.Lanes.__name__} | SOLVE
    assert {"HostGram", "ContextPosterior", "SumsRegression", "DeviceGram"} <= makers
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        made = calls_of(ast.parse(path.read_text(encoding="utf-8"))) & makers
        if made and not name.startswith("models/"):
            found[name] = made
    assert found == BY_THEMSELVES
