"""What a posterior costs: the form chosen is the cheaper one, and the bytes are those of the arrays held."""

import numpy as np
import pytest

import adadim
from adadim import ActionSet
from adadim.models.cost import STREAM_TO_FLOP, cheaper_form, replication_bytes, state_bytes, streamed_bytes
from adadim.models.fixed import HostFeature, HostGram
from adadim.models.tensors import DeviceFeature, DeviceGram
from posterior_states import FORMS, both_forms, make, unit_rows
from small_problems import small

SHAPES = [(1, 1), (4, 4), (9, 4), (11, 4), (12, 4), (60, 150), (400, 20), (30, 200)]


@pytest.mark.parametrize("levels", [1, 3])
@pytest.mark.parametrize(("base_arms", "dim"), SHAPES)
def test_the_cheaper_form_costs_less(base_arms, dim, levels):
    """K^2 flops of a product against the numbers streamed, one of which costs as much as `STREAM_TO_FLOP` flops."""
    arms = levels * base_arms
    flops, streamed = arms**2, base_arms * dim + dim**2
    expected = "gram" if flops <= STREAM_TO_FLOP * streamed else "feature"
    assert cheaper_form(arms, base_arms, dim) == expected


def test_both_forms_come_up():
    assert {cheaper_form(arms, arms, dim) for arms, dim in SHAPES} == set(FORMS)
    assert cheaper_form(1200, 1200, 600) == "gram"  # the paper's experiments
    # Truncations are new arms for the Gram form, and cost the feature form nothing.
    assert cheaper_form(4000, 800, 400) == "feature"
    assert cheaper_form(800, 800, 400) == "gram"


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("levels", [None, [1, 2, 4]], ids=["plain", "expressive"])
def test_the_form_chosen_is_the_cheaper_one(library, levels, request):
    array, kinds = np.asarray, {"gram": HostGram, "feature": HostFeature}
    if library == "torch":
        array, kinds = request.getfixturevalue("torch").asarray, {"gram": DeviceGram, "feature": DeviceFeature}
    seen = set()
    for base_arms in (2, 5, 6, 8, 12, 13, 40):
        actions = ActionSet(array(unit_rows(np.random.default_rng(0), base_arms, 4)), levels=levels)
        form = cheaper_form(actions.arms, base_arms, 4)
        assert type(adadim.models.posterior(actions, 0.1)) is kinds[form]
        seen.add(form)
    assert seen == set(FORMS)


def matrix(state):
    return state._p if isinstance(state, HostGram | DeviceGram) else getattr(state, "_lanes", state)._w


@both_forms
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize(("arms", "dim"), SHAPES)
def test_bytes_are_those_of_the_matrix_held(form, library, arms, dim, request):
    array = np.asarray if library == "numpy" else request.getfixturevalue("torch").asarray
    state = make(array(unit_rows(np.random.default_rng(1), 3, arms, dim)), 0.1, form)
    assert matrix(state).nbytes == 3 * state_bytes(form, arms, dim)


@pytest.mark.parametrize("levels", [None, [1, 3]], ids=["plain", "expressive"])
def test_streamed_bytes_are_those_read_anew(levels):
    """The features once, whatever the truncations, and half of the symmetric matrix."""
    features = unit_rows(np.random.default_rng(2), 2, 10, 4)
    feature, gram = (make(features, 0.1, form, levels) for form in ("feature", "gram"))
    assert feature.streamed == feature.actions.base[0].nbytes + matrix(feature)[0].nbytes // 2
    assert feature.streamed == streamed_bytes("feature", 10, 4)
    assert gram.streamed == streamed_bytes("gram", 10, 4) == 0


def tensors(value, found, seen):
    """Memory of every tensor that an object holds: address to bytes."""
    if id(value) in seen:
        return
    seen[id(value)] = value
    if hasattr(value, "untyped_storage"):
        found[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        return
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    for part in [*parts, *getattr(value, "__dict__", {}).values()]:
        if not callable(part) and type(part).__name__ != "module":
            tensors(part, found, seen)


POLICIES = [
    adadim.LinUCB(),
    adadim.LinUCB(form="feature"),
    adadim.UCB(),
    adadim.TaperedLinUCB(),
    adadim.EvidenceLinUCB(),
    adadim.LinUCBPlusPlus(),
    adadim.LinUCBPlusPlusCorral(),
    adadim.SmoothCorral(ambient=True),
    adadim.Corral(ambient=True),
    adadim.DynamicBalancing(ambient=True),
    adadim.SupLinUCB(radius=0.2),
    adadim.LinUCBPlusPlus(solver="suplinucb", radius=0.2, ridge=1.0),
]


@pytest.mark.parametrize("policy", POLICIES, ids=[f"{type(p).__name__}{i}" for i, p in enumerate(POLICIES)])
@pytest.mark.parametrize(("arms", "dim"), [(200, 100), (400, 16), (30, 120)])
def test_a_replication_fits_into_the_bytes_said(torch, policy, arms, dim):
    horizon, found = 60, {}  # three iterations of LinUCB++
    outcome = adadim.simulate(policy, small(range(2), arms=arms, dim=dim, horizon=horizon).to("cpu"))
    tensors(outcome.learner, found, {})
    held = sum(found.values()) / 2
    assert held <= replication_bytes(arms, dim, horizon)
    assert held >= 8 * arms * dim  # the features at least


def test_bytes_grow_with_everything():
    base = replication_bytes(200, 100, 500)
    assert all(replication_bytes(*more) > base for more in ((201, 100, 500), (200, 101, 500), (200, 100, 501)))
