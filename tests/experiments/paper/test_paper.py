"""The paper's experiments are set up as the paper says."""

from __future__ import annotations

import math

import pytest

from adadim import paper
from adadim.policies import DynamicBalancing, LinUCB, LinUCBPlusPlus, LinUCBPlusPlusCorral, SmoothCorral
from adadim.policies.released import ReleasedLinUCBPlusPlus
from adadim.study import Study
from adadim.theory import hardness

DIMS = (5, 10, 15, 20, 25, 30, 35)
#                arms  dim  intrinsic dims  theta      expressive
SETTINGS = {
    "fig2a": (1200, 600, (12,), "uniform", False),
    "fig2b": (1200, 600, DIMS, "uniform", False),
    "fig3a": (800, 400, (12,), "uniform", True),
    "fig3b": (800, 400, DIMS, "uniform", True),
    "fig4a": (1200, 600, DIMS, "decay", False),
    "fig4b": (1200, 600, DIMS, "flip", False),
}
POLICIES = ["linucb", "oracle", "linucb++", "linucb++corral", "smooth-corral", "dynamic-balancing"]


def test_the_figures_are_those_with_experiments():
    assert list(paper.FIGURES) == list(SETTINGS)
    assert all(name == figure.name for name, figure in paper.FIGURES.items())
    assert len({figure.title for figure in paper.FIGURES.values()}) == len(SETTINGS)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("variant", paper.VARIANTS)
def test_instances_have_the_size_in_the_paper(name, variant):
    arms, dim, dims, theta, expressive = SETTINGS[name]
    plan = paper.study(name, variant)
    assert plan.name == f"{name}-{variant}"
    assert (plan.trials, plan.seed) == (100, 0)
    assert list(plan.policies) == POLICIES
    assert list(plan.instances) == [f"d{d}" for d in dims]
    assert len(plan.cells) == 6 * len(dims)
    closure = 6 if expressive else 1  # levels 8, 16, 32, 64, 128 and 400
    for cell in plan.cells:
        assert (cell.arms, cell.dim, cell.horizon) == (arms * closure, dim, 2500)
        assert cell.params["noise"] == 0.1
        assert cell.params["theta"] == theta
        assert cell.instance == f"d{cell.params['intrinsic_dim']}"
        assert cell.times[-1] == 2500
    assert len(plan.cells[0].times) == (100 if name in ("fig2a", "fig3a") else 10)


@pytest.mark.parametrize("name", ["fig2a", "fig3a", "fig4a", "fig4b"])
def test_the_instances_that_come_out_are_the_papers(name):
    dims, theta, expressive = SETTINGS[name][2:]
    cell = paper.study(name, trials=1).cells[0]
    instance = cell.make([0])
    assert instance.problem.arms == cell.arms
    assert instance.problem.noise == 0.1
    d = dims[0]
    shape = {
        "uniform": [1.0] * d,
        "decay": [1 / math.sqrt(j) for j in range(1, d + 1)],
        "flip": [1 / math.sqrt(j) for j in range(d, 0, -1)],
    }[theta]
    norm = math.sqrt(sum(x * x for x in shape))
    assert instance.theta[0, :d].tolist() == pytest.approx([x / norm for x in shape])
    assert not instance.theta[0, d:].any()
    norms = instance.problem.actions.squared_norms()[0]
    assert float(norms.max()) == pytest.approx(1)
    assert (float(norms.min()) < 0.9) == expressive  # truncated arms are shorter


def test_the_oracle_alone_knows_the_intrinsic_dimension():
    for variant in paper.VARIANTS:
        for name, (*_, dims, _, _) in SETTINGS.items():
            cells = paper.study(name, variant).cells
            known = {cell.instance: cell.policy_object.dim for cell in cells if cell.policy == "oracle"}
            assert known == {f"d{d}": d for d in dims}
            assert {cell.policy_object.dim for cell in cells if cell.policy == "linucb"} == {None}
            for policy in POLICIES[2:]:  # the same agent on every instance
                assert len({cell.policy_object for cell in cells if cell.policy == policy}) == 1


@pytest.mark.parametrize("variant", paper.VARIANTS)
@pytest.mark.parametrize("expressive", [False, True])
def test_six_policies_with_the_papers_settings(variant, expressive):
    chosen = paper.policies(variant, intrinsic_dim=9, expressive=expressive)
    assert list(chosen) == POLICIES
    kinds = (LinUCB, LinUCB, LinUCBPlusPlus, LinUCBPlusPlusCorral, SmoothCorral, DynamicBalancing)
    assert all(isinstance(policy, kind) for policy, kind in zip(chosen.values(), kinds, strict=True))
    learners = [chosen[n] if hasattr(chosen[n], "ridge") else chosen[n].base for n in POLICIES]
    assert {learner.ridge for learner in learners} == {0.1}
    assert {chosen[n].beta for n in ("linucb++", "linucb++corral", "smooth-corral")} == {0.5}
    assert (chosen["linucb"].dim, chosen["oracle"].dim) == (None, 9)
    assert {learner.bonus for learner in learners} == {"squared" if variant == "released" else "norm"}
    assert isinstance(chosen["linucb++"], ReleasedLinUCBPlusPlus) == (variant == "released")
    assert {chosen[n].expressive for n in ("linucb++", "linucb++corral")} == {expressive}
    assert {chosen[n].base.only_supported for n in ("smooth-corral", "dynamic-balancing")} == {expressive}
    assert {chosen[n].only_supported for n in ("linucb", "oracle")} == {False}


def test_the_variants_differ_and_one_study_is_always_the_same():
    theory, released = (paper.policies(variant) for variant in ("theory", "released"))
    assert [name for name in POLICIES if theory[name] == released[name]] == []
    assert paper.study("fig2b") == paper.study("fig2b")
    ids = {cell.id for name in SETTINGS for variant in paper.VARIANTS for cell in paper.study(name, variant).cells}
    assert len(ids) == 2 * 6 * sum(len(dims) for _, _, dims, _, _ in SETTINGS.values())
    changed = paper.study("fig2a", seed=1, trials=3)
    assert (changed.seed, changed.trials) == (1, 3)
    assert {cell.id for cell in changed.cells}.isdisjoint(ids)


def test_figures_2a_and_2b_share_arms_and_noise():
    # Paired comparisons across d*: replication r has the same arms whatever d* is.
    cells = {cell.instance: cell for cell in paper.study("fig2b").cells}
    five, ten = (cells[name].make([3]) for name in ("d5", "d10"))
    assert (five.problem.actions.base == ten.problem.actions.base).all()


def test_a_study_of_the_paper_survives_toml(tmp_path):
    for name in SETTINGS:
        plan = paper.study(name, "released", trials=7)
        (tmp_path / "plan.toml").write_text(plan.to_toml())
        again = Study.from_toml(tmp_path / "plan.toml")
        assert [cell.id for cell in again.cells] == [cell.id for cell in plan.cells]
        assert again.labels == plan.labels


@pytest.mark.parametrize("variant", paper.VARIANTS)
@pytest.mark.parametrize("name", SETTINGS)
def test_labels_say_what_is_shown(name, variant):
    plan = paper.study(name, variant, trials=1)
    assert (plan.labels["figure"], plan.labels["variant"]) == (name, variant)
    assert plan.labels["title"] == f"{paper.FIGURES[name].title} ({variant})"
    assert list(plan.labels["policies"]) == POLICIES
    assert plan.labels["instances"] == {
        cell.instance: {"intrinsic_dim": cell.params["intrinsic_dim"], "horizon": cell.horizon} for cell in plan.cells
    }


def test_hardness_levels_of_the_figures():
    assert hardness(paper.FIGURES["fig2a"].dims[0], 2500) == pytest.approx(0.32, abs=0.005)
    labels = [f"{hardness(d, 2500):.2f}" for d in paper.FIGURES["fig2b"].dims]
    assert labels == ["0.21", "0.29", "0.35", "0.38", "0.41", "0.43", "0.45"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fig5", "theory"), "figure must be 'fig2a', 'fig2b', 'fig3a', 'fig3b', 'fig4a' or 'fig4b', got 'fig5'"),
        (("fig2a", "both"), "variant must be 'theory' or 'released', got 'both'"),
    ],
)
def test_unknown_names_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        paper.study(*arguments)
