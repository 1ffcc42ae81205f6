"""The comparison: what its families cover, and which policies run on them."""

import numpy as np
import pytest

import adadim
from adadim import instances, paper, study
from adadim.errors import InvalidValueError, StudyError
from adadim.experiments import comparison
from adadim.experiments.comparison.plan import NOT_COMPARED
from adadim.study.kinds import make_instance

# Public policies of the library that the comparison does not run, and why.
DEVELOPMENT, HELD_OUT, PAPER, CONTEXTS, CONTEXTS_HELD_OUT, LATE, LATE_HELD_OUT, EVERYDAY, EVERYDAY_HELD_OUT = (
    [family for family in comparison.FAMILIES if family.split == split] for split in comparison.SPLITS
)
OWN = [*DEVELOPMENT, *HELD_OUT]
both = pytest.mark.parametrize("families", [DEVELOPMENT, HELD_OUT], ids=["development", "held-out"])


def build(family, arms=40, replications=(0, 1)):
    """The problems of a family, with fewer arms."""
    kind, params = family.instance["kind"], {k: v for k, v in family.instance.items() if k != "kind"}
    if "arms" in params:
        params["arms"] = min(arms, params["arms"])
    return make_instance(study.instance_kinds()[kind], params, replications, seed=0)


# Families


def test_names_are_unique_and_the_splits_disjoint():
    assert len({family.name for family in comparison.FAMILIES}) == len(comparison.FAMILIES)
    assert not [f.name for f in DEVELOPMENT if f.instance in [g.instance for g in HELD_OUT]]
    assert len(DEVELOPMENT) >= 16
    assert len(HELD_OUT) >= 16


# Contexts have families of their own; the others are those of other papers, whose tables are in `field`.
CONTEXTUAL_KINDS = {"contexts", "labelled"}  # in groups of their own
OTHER_KINDS = CONTEXTUAL_KINDS | {
    "choices",
    "ratings",
    "everyday",
    "growing",
    "biased_arms",
    "owned_arms",
    "shared_contexts",
    "sphere_rounds",
    "informative",
    "end_of_optimism",
    "legendre",
}
WITHOUT_DIMENSION = {"interval", "many_best"}  # there is no d* to adapt to


@both
def test_each_split_covers_every_kind_and_the_whole_range(families):
    tables = [family.instance for family in families]
    drawn = [family for family in families if family.instance["kind"] != "powers"]  # small by nature
    sizes = [(build(f).problem.dim, f.instance["intrinsic_dim"], f.instance["horizon"]) for f in drawn]
    assert {t["kind"] for t in tables} == set(study.instance_kinds()) - WITHOUT_DIMENSION - OTHER_KINDS
    assert {t.get("theta") for t in tables} == {None, "uniform", "decay", "flip", "spike", "heavy"}
    assert {t["target"] > 0 for t in tables if t["kind"] == "lower_bound"} == {True, False}
    assert all(t["expressive"] for t in tables if t["kind"] == "products")
    noises = [t["noise"] for t in tables if "noise" in t]
    assert (min(noises), max(noises)) == (0.03, 1.0)
    assert (min(T for _, _, T in sizes), max(T for _, _, T in sizes)) == (500, 20_000)
    assert (min(d for d, _, _ in sizes), max(d for d, _, _ in sizes)) == (30, 1000)
    assert {d > T for d, _, T in sizes} == {True, False}
    assert any(d_star == 1 for _, d_star, _ in sizes)
    assert any(d_star == d for d, d_star, _ in sizes)


@pytest.mark.parametrize("family", OWN, ids=lambda f: f.name)
def test_the_oracle_knows_the_truth(family):
    """Theta is zero after d* and not before, in every replication; names say d* and d."""
    problem = build(family)
    d_star = family.instance["intrinsic_dim"]
    assert family.name.endswith(f"-{d_star}/{problem.problem.dim}")
    if problem.theta is None:
        assert family.instance["linear"] is False
        assert d_star == problem.problem.dim
    else:
        assert [int(np.flatnonzero(row)[-1]) + 1 for row in problem.theta] == [d_star, d_star]
        if family.instance["kind"] != "powers":  # raw units are what they are there for
            assert (np.linalg.norm(problem.theta, axis=1) <= 1 + 1e-9).all()


def test_paper_families_are_those_of_its_figures():
    expected = [
        table for figure in ("fig2b", "fig3b", "fig4a", "fig4b") for table in paper.FIGURES[figure].instances().values()
    ]
    assert [family.instance for family in PAPER] == expected


# Features that come with each round


@pytest.mark.parametrize("families", [CONTEXTS, CONTEXTS_HELD_OUT], ids=["contexts", "contexts-held-out"])
def test_contextual_groups_cover_laws_shapes_and_tables(families):
    tables = [family.instance for family in families]
    assert {t["kind"] for t in tables} == CONTEXTUAL_KINDS
    drawn = [t for t in tables if t["kind"] == "contexts"]
    assert {"gaussian", "correlated", "bounded", "repeated"} <= {t["distribution"] for t in drawn}
    assert {"uniform", "flip", "spike", "heavy"} <= {t["theta"] for t in drawn}
    assert any(t["intrinsic_dim"] == 1 for t in drawn)
    assert any(t["intrinsic_dim"] == t["dim"] for t in drawn)
    for family, t in zip(families, tables, strict=True):
        if t["kind"] == "contexts":
            assert family.name == f"contexts-{t['distribution']}-{t['theta']}-{t['intrinsic_dim']}/{t['dim']}"
        else:
            assert family.name == f"{t['data']}-{t['intrinsic_dim']}/{t['intrinsic_dim']}"


def test_real_tables_are_split_by_the_alphabet():
    names = {f.instance["data"]: f.split for f in (*CONTEXTS, *CONTEXTS_HELD_OUT) if f.instance["kind"] == "labelled"}
    assert sorted(names) == ["digits", "letter", "optdigits", "penbased", "satimage", "yeast"]
    assert set(names) < set(instances.real.LABELLED)
    assert [names[name] for name in sorted(names)] == ["contexts", "contexts-held-out"] * 3


def test_the_oracle_of_a_table_has_all_features():
    pytest.importorskip("sklearn")
    (family,) = [f for f in CONTEXTS if f.instance.get("data") == "digits"]
    assert build(family).problem.dim == family.instance["intrinsic_dim"]


def test_only_policies_that_can_play_with_contexts_do():
    plan = comparison.study("contexts", trials=1, family=["contexts-gaussian-uniform-4/50"])
    run = {cell.policy for cell in plan.cells}
    assert {"oracle", "recommended", "linucb", "corral", "dynamic-balancing", "lints", "random"} <= run
    assert not {"linucb++", "ucb", "moss"} & run
    for cell in plan.cells:
        cell.policy_object.start(adadim.Problem(arms=20, dim=50, horizon=3000, noise=0.1, reward_range=1.0))
    with pytest.raises(StudyError, match="'ucb' cannot play where features come with each round"):
        comparison.study("contexts", trials=1, policy=["ucb"])


# Rewards that come late


@pytest.mark.parametrize("families", [LATE, LATE_HELD_OUT], ids=["late", "late-held-out"])
def test_late_groups_cover_arms_rewards_and_delays(families):
    tables = [family.instance for family in families]
    clicks = {(t["kind"] == "clicks" or t.get("rewards") == "bernoulli", t["kind"] == "contexts") for t in tables}
    assert clicks == {(False, False), (False, True), (True, False), (True, True)}
    delays = [t["delay"] for t in tables]
    assert {100, 1000} <= {delay.get("rounds") for delay in delays}
    assert {"geometric", "uniform"} <= {delay.get("distribution") for delay in delays}
    assert {delay["never"] for delay in delays} == {0.0, 0.1}
    assert {(d["least"], d["most"]) for d in delays if d.get("distribution") == "uniform"} == {(200, 2000)}
    for family in families:
        assert family.name.startswith("late-")
        assert build(family).delay == adadim.instances.Delay(**family.instance["delay"])
        d_star, dim = family.name.rsplit("-", 1)[1].split("/")
        assert (int(d_star), int(dim)) == (family.instance["intrinsic_dim"], build(family).problem.dim)


def test_no_late_problem_is_in_both_groups():
    def what(family):
        return {key: value for key, value in family.instance.items() if key in ("kind", "theta", "distribution", "dim")}

    assert not [f.name for f in LATE_HELD_OUT if what(f) in map(what, LATE)]


def test_only_policies_that_take_late_rewards_play_there():
    plan = comparison.study("late", trials=1)
    run = {cell.policy for cell in plan.cells}
    assert {"oracle", "recommended", "linucb", "tapered", "lints", "prefix", "two-prior", "greedy", "ucb"} <= run
    assert not {"linucb++", "corral", "dynamic-balancing", "modcb"} & run
    where = {cell.instance for cell in plan.cells if cell.policy == "ucb"}
    assert where == {f.name for f in LATE if f.instance["kind"] != "contexts"}
    assert {cell.instance for cell in plan.cells if cell.policy == "linucb"} == {f.name for f in LATE}
    with pytest.raises(StudyError, match="'linucb\\+\\+' cannot play where rewards come late"):
        comparison.study("late", trials=1, policy=["linucb++"])
    contextual = [f.name for f in LATE if f.instance["kind"] == "contexts"]
    assert "ucb" not in comparison.study("late", trials=1, family=contextual).policies
    with pytest.raises(StudyError, match="'ucb' cannot play where features come with each round"):
        comparison.study("late", trials=1, family=contextual, policy=["ucb"])


# Problems as users have them


@pytest.mark.parametrize("families", [EVERYDAY, EVERYDAY_HELD_OUT], ids=["everyday", "everyday-held-out"])
def test_everyday_groups_cover_every_way_of_being_awkward(families):
    tables = [family.instance for family in families]
    assert {"one-hot", "groups", "counts", "correlated", "binary", "gaussian"} <= {t["distribution"] for t in tables}
    assert {t.get("column", False) for t in tables if t.get("constant")} == {True, False}
    assert max(abs(t.get("constant", 0.0)) for t in tables) == 50
    assert {t.get("per_round", False) for t in tables if t.get("delay")} >= {True, False}
    assert {t.get("first_relevant", 1) > t["intrinsic_dim"] / 2 for t in tables} == {True, False}
    for family in families:
        built = make_instance(instances.everyday, {k: v for k, v in family.instance.items() if k != "kind"}, (0, 1), 0)
        assert family.contextual == built.problem.contextual
        assert built.problem.noise == family.instance["noise"]


def test_no_everyday_problem_is_in_both_groups():
    def what(family):
        return {key: value for key, value in family.instance.items() if key in ("distribution", "dim", "first", "arms")}

    assert not [f.name for f in EVERYDAY_HELD_OUT if what(f) in map(what, EVERYDAY)]


# Policies


def test_every_policy_runs_or_is_declared():
    run = {type(cell.policy_object).__name__ for cell in comparison.study("development", trials=1).cells}
    assert run | set(NOT_COMPARED) == set(study.policy_kinds())
    assert not run & set(NOT_COMPARED)


@pytest.mark.parametrize("expressive", [False, True], ids=["plain", "expressive"])
@pytest.mark.parametrize(("name", "variant"), [*((n, "theory") for n in paper.policies()), ("linucb++", "released")])
def test_policies_of_the_paper_are_as_the_paper_has_them(name, variant, expressive):
    table = {"arms": 24, "dim": 20, "intrinsic_dim": 3, "horizon": 150, "expressive": expressive}
    instance = instances.sphere(**table, replications=range(2))
    spec = comparison.policies()[f"{name}released" if variant == "released" else name]
    plan = study.Study("one", {"it": {"kind": "sphere", **table}}, {"it": spec}, trials=2)
    theirs = paper.policies(variant, intrinsic_dim=3, expressive=expressive)[name]
    found, expected = (adadim.simulate(p, instance).regret for p in (plan.cells[0].policy_object, theirs))
    np.testing.assert_array_equal(found, expected)


def test_the_oracle_takes_the_dimension_of_each_family():
    plan = comparison.study("held-out", trials=1, policy=["random"])
    dims = {cell.instance: cell.policy_object.dim for cell in plan.cells if cell.policy == "oracle"}
    assert dims == {family.name: family.instance["intrinsic_dim"] for family in HELD_OUT}


def test_a_selection_keeps_the_references():
    plan = comparison.study("development", trials=1, policy=["greedy"], family=["clicks-flip-12/300"])
    assert [(cell.instance, cell.policy) for cell in plan.cells] == [
        ("clicks-flip-12/300", policy) for policy in ("oracle", "linucb++", "greedy")
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"split": "test"},
            "split must be 'development', 'held-out', 'paper', 'contexts', 'contexts-held-out', 'late', "
            "'late-held-out', 'everyday' or 'everyday-held-out', got 'test'",
        ),
        ({"policy": ["taper"]}, "policy: none is called 'taper'; did you mean 'tapered'?"),
        ({"family": ["sphere-flip-8/60"]}, "family: none is called 'sphere-flip-8/60'; did you mean"),  # held-out
    ],
)
def test_unknown_names_are_refused(arguments, message):
    expected = InvalidValueError if "split" in arguments else StudyError
    with pytest.raises(expected) as raised:
        comparison.study(**{"split": "development", "trials": 1} | arguments)
    assert str(raised.value).startswith(message)
