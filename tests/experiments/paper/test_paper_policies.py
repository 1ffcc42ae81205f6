"""The six policies of the paper's figures in both variants: what they are, that they run, and batch independence."""

from dataclasses import fields

import numpy as np
import pytest

import adadim
from adadim import Corral, DynamicBalancing, LinUCB, LinUCBPlusPlus, LinUCBPlusPlusCorral, SmoothCorral, paper
from adadim.policies.released import ReleasedDynamicBalancing, ReleasedLinUCB, ReleasedLinUCBPlusPlus
from driving import Driver, in_torch, small, told

NAMES = ["linucb", "oracle", "linucb++", "linucb++corral", "smooth-corral", "dynamic-balancing"]
VARIANTS = ["theory", "released"]
all_twelve = pytest.mark.parametrize(("variant", "name"), [(v, name) for v in VARIANTS for name in NAMES])


THREE_ITERATIONS = 120  # of LinUCB++: 32, 64 and 24 rounds, in the first 24, 16 and 8 features


def expressive(replications=range(2), horizon=THREE_ITERATIONS):
    """20 arms cut at 8, 16, 32 and 40; d* = 3."""
    return small(replications, horizon=horizon, arms=20, dim=40, expressive=True, levels=[8, 16, 32, 40])


def differences(one, other):
    """Hyper-parameters in which two policies differ, as name -> pair; those of bases by dotted name."""
    kinds = type(one).__name__, type(other).__name__
    found = {"kind": kinds} if kinds[0] != kinds[1] else {}
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, LinUCB):
            found |= {f"{field.name}.{name}": pair for name, pair in differences(a, b).items()}
        elif a != b:
            found[field.name] = (a, b)
    return found


# What they are


@pytest.mark.parametrize("variant", VARIANTS)
def test_names_and_types(variant):
    policies = paper.policies(variant)
    assert list(policies) == NAMES
    released = variant == "released"
    types = [LinUCB, LinUCB, LinUCBPlusPlus, LinUCBPlusPlusCorral, SmoothCorral, DynamicBalancing]
    if released:
        types[2], types[5] = ReleasedLinUCBPlusPlus, ReleasedDynamicBalancing
    assert type(policies["dynamic-balancing"].base) is (ReleasedLinUCB if released else LinUCB)
    assert [type(policy) for policy in policies.values()] == types
    assert policies == paper.policies(variant)
    assert len(set(policies.values())) == 6


def test_variants_differ_by_the_deviations_named():
    theory, released = (paper.policies(variant) for variant in VARIANTS)
    squared = {"bonus": ("norm", "squared")}
    assert {name: differences(theory[name], released[name]) for name in NAMES} == {
        "linucb": squared,
        "oracle": squared,
        "linucb++": squared | {"kind": ("LinUCBPlusPlus", "ReleasedLinUCBPlusPlus")},
        "linucb++corral": squared | {"index": ("self-normalised", "released")},
        "smooth-corral": {"base.bonus": ("norm", "squared")},
        "dynamic-balancing": {
            "kind": ("DynamicBalancing", "ReleasedDynamicBalancing"),
            "base.kind": ("LinUCB", "ReleasedLinUCB"),
            "base.bonus": ("norm", "squared"),
            "reference": ("lower", "upper"),
        },
    }


def test_expressive_changes_the_arms_used():
    for variant in VARIANTS:
        plain, closed = paper.policies(variant), paper.policies(variant, expressive=True)
        supported = {"base.only_supported": (False, True)}
        assert {name: differences(plain[name], closed[name]) for name in NAMES} == {
            "linucb": {},
            "oracle": {},
            "linucb++": {"expressive": (False, True)},
            "linucb++corral": {"expressive": (False, True)},
            "smooth-corral": supported,
            "dynamic-balancing": supported,
        }


def test_values():
    """The hyper-parameters of the paper's experiments."""
    plain = LinUCB(
        ridge=0.1,
        bonus="norm",
        dim=None,
        radius="noise",
        scale=1.0,
        only_supported=False,
        ties="random",
    )
    theory = paper.policies("theory", intrinsic_dim=7)
    assert theory["linucb"] == plain
    assert differences(plain, theory["oracle"]) == {"dim": (None, 7)}
    assert theory["linucb++"] == LinUCBPlusPlus(
        beta=0.5,
        ridge=0.1,
        bonus="norm",
        radius="noise",
        scale=1.0,
        expressive=False,
        solver="linucb",
        ties="random",
    )
    assert theory["linucb++corral"] == LinUCBPlusPlusCorral(
        beta=0.5,
        ridge=0.1,
        bonus="norm",
        radius="noise",
        scale=1.0,
        index="self-normalised",
        feedback="step2",
        loss_range=(-1.0, 1.0),
        replay=True,
        expressive=False,
        ties="random",
    )
    assert theory["smooth-corral"] == SmoothCorral(
        bases=(),
        base=plain,
        ambient=False,
        beta=0.5,
        eta=None,
        master="corral",
        feedback="step2",
        loss_range=(-1.0, 1.0),
        replay=True,
    )
    assert theory["dynamic-balancing"] == DynamicBalancing(
        bases=(),
        base=plain,
        ambient=False,
        bound="log",
        scalings=None,
        biases=None,
        delta=None,
        c=1.0,
        reference="lower",
    )


def test_only_the_oracle_knows_the_intrinsic_dimension():
    for variant in VARIANTS:
        one, other = paper.policies(variant, intrinsic_dim=5), paper.policies(variant, intrinsic_dim=9)
        assert [name for name in NAMES if one[name] != other[name]] == ["oracle"]
        assert (one["oracle"].dim, other["oracle"].dim) == (5, 9)
        assert paper.policies(variant)["oracle"].dim == 12


def test_the_default_is_that_of_the_commands():
    assert paper.policies() == paper.policies("released")
    with pytest.raises(ValueError, match="variant"):
        paper.policies("published")


# That they run


@all_twelve
@pytest.mark.parametrize("horizon", [THREE_ITERATIONS, 97])
@pytest.mark.parametrize("closed", [False, True])
def test_exactly_t_steps_and_regret_of_the_real_arm(variant, name, horizon, closed):
    instance = expressive(horizon=horizon) if closed else small(range(2), horizon=horizon)
    policy = paper.policies(variant, 3, closed)[name]
    outcome = adadim.simulate(policy, instance, seed=1, record=horizon)
    assert (outcome.pulls.sum(axis=1) == horizon).all()
    gaps = instance.best[:, None] - instance.means
    np.testing.assert_allclose(outcome.final, (outcome.pulls * gaps).sum(axis=1), rtol=1e-9)
    driver = Driver(policy, instance, seed=1).run()
    pulled = np.array(driver.arms)
    counted = [np.bincount(arms, minlength=instance.problem.arms) for arms in pulled]
    np.testing.assert_array_equal(counted, outcome.pulls)
    regret = np.cumsum(gaps[np.arange(2)[:, None], pulled], axis=1)
    np.testing.assert_allclose(outcome.regret, regret, rtol=0, atol=1e-9)


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_adapts_beats_what_does_not(variant):
    """d = 200 against T = 600: the oracle first, LinUCB in all features last."""
    instance = small(range(6), horizon=600, arms=200, dim=200)
    final = {name: adadim.simulate(p, instance).final.mean() for name, p in paper.policies(variant, 3).items()}
    assert min(final, key=final.get) == "oracle"
    assert final["linucb++"] < 0.9 * final["linucb"]
    assert final["dynamic-balancing"] < 0.9 * final["linucb"]


# Replication r depends on (seed, r) alone

MORE = {
    "linucb++ suplinucb": LinUCBPlusPlus(solver="suplinucb", ridge=1.0),
    "linucb++ full": ReleasedLinUCBPlusPlus(beta=0.6, radius="full", form="feature"),
    "linucb++corral mean": LinUCBPlusPlusCorral(feedback="mean", index="subgaussian", loss_range=(-0.5, 0.5)),
    "linucb++corral no replay": LinUCBPlusPlusCorral(replay=False, index="ucb1"),
    "smooth-corral exp3p": SmoothCorral(master="exp3p", ambient=True),
    "smooth-corral tight": SmoothCorral(eta=1.0, loss_range=(-0.3, 0.3), feedback="sum"),
    "stochastic corral": SmoothCorral(replay=False, loss_range=(-0.3, 0.3)),
    "corral": Corral(eta=0.5, loss_range=(-0.3, 0.3)),
    "corral importance": Corral(feedback="importance", eta=0.2, ambient=True),
    "dynamic-balancing sqrt": DynamicBalancing(bound="sqrt", beta=0.6, c=0.05),
    "dynamic-balancing upper": ReleasedDynamicBalancing(bound="sqrt", reference="upper", c=0.2),
}
EVERY = {f"{variant} {name}": policy for variant in VARIANTS for name, policy in paper.policies(variant, 3).items()}
EVERY |= MORE


def assert_same_replication(together, r, alone):
    """Bit for bit."""
    np.testing.assert_array_equal(together.regret[r], alone.regret[0])
    np.testing.assert_array_equal(together.pulls[r], alone.pulls[0])
    assert together.learner.describe()[r] == alone.learner.describe()[0]


@pytest.mark.parametrize("range_known", [True, False])
@pytest.mark.parametrize("name", EVERY)
def test_batch_does_not_matter(name, range_known):
    def which(numbers):
        return told(small(numbers, horizon=THREE_ITERATIONS), range_known)

    numbers = [3, 0, 8, 5]
    together = adadim.simulate(EVERY[name], which(numbers), seed=11)
    for r in (0, 3):
        alone = adadim.simulate(EVERY[name], which([numbers[r]]), seed=11)
        assert_same_replication(together, r, alone)
    assert (together.pulls[0] != together.pulls[1]).any()


@all_twelve
def test_batch_does_not_matter_on_expressive_sets(variant, name):
    policy = paper.policies(variant, 3, expressive=True)[name]
    together = adadim.simulate(policy, expressive([3, 0, 8]), seed=11)
    assert_same_replication(together, 2, adadim.simulate(policy, expressive([8]), seed=11))


# Torch


@pytest.mark.parametrize("name", EVERY)
def test_torch_chooses_the_same(name, torch):
    instance = small(range(3), horizon=THREE_ITERATIONS)
    ours, theirs = (Driver(EVERY[name], which, seed=4).run() for which in (instance, in_torch(instance, torch)))
    assert theirs.arms == ours.arms
    assert theirs.choices == ours.choices


@all_twelve
def test_torch_chooses_the_same_on_expressive_sets(variant, name, torch):
    policy, instance = paper.policies(variant, 3, expressive=True)[name], expressive()
    ours, theirs = (Driver(policy, which, seed=4).run() for which in (instance, in_torch(instance, torch)))
    assert theirs.arms == ours.arms
