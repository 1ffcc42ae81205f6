"""What policies share cannot be changed, and what enters is a copy, whatever its layout, type and library."""

import copy
from dataclasses import dataclass

import numpy as np
import pytest

import adadim
from adadim import ActionSet, Instance, InvalidTypeError, InvalidValueError, Problem, theory
from adadim.study import Study, run

FEATURES = np.linspace(-0.5, 0.5, 12).reshape(4, 3)


@pytest.mark.parametrize(
    "given",
    [
        FEATURES.copy(),
        np.asfortranarray(FEATURES),
        FEATURES.copy()[None],
        np.asfortranarray(FEATURES)[None],
        np.broadcast_to(np.asfortranarray(FEATURES), (3, 4, 3)),
        np.asfortranarray(np.tile(FEATURES, (2, 1))[::2]),
    ],
)
def test_features_are_copied_and_read_only(given):
    actions = ActionSet(given)
    before = actions.base.copy()
    assert not np.may_share_memory(actions.base, given)
    assert not actions.base.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        actions.base[0, 0, 0] = 9.0
    assert (actions.base == before).all()


def test_tensors_are_copied(torch):
    for given in (torch.eye(3, dtype=torch.float64), torch.eye(3, dtype=torch.float64).T, torch.eye(3).expand(2, 3, 3)):
        actions = ActionSet(given)
        given.untyped_storage().fill_(0)
        assert float(actions.base.sum()) == 3.0 * len(actions.base)
    theta = torch.ones(3, dtype=torch.float64)
    instance = Instance(torch.eye(3, dtype=torch.float64), theta=theta, horizon=5, noise=0.1)
    theta.fill_(7.0)
    assert float(instance.theta.sum()) == 3.0


@pytest.mark.parametrize("name", ["theta", "means"])
def test_theta_and_means_are_copied_and_read_only(name):
    given = np.array([0.1, 0.2, 0.3])
    instance = Instance(np.eye(3), **{name: given}, horizon=5, noise=0.1)
    given[:] = 9.0
    for array in (instance.means, instance.best, instance.problem.reward_range, instance.problem.actions.base):
        assert not array.flags.writeable
    assert instance.means.max() == 0.3


def test_a_range_is_copied():
    given = np.array([0.5])
    problem = Problem(np.eye(3), horizon=5, noise=0.1, reward_range=given)
    given[:] = 9.0
    assert problem.reward_range.tolist() == [0.5]


@dataclass(frozen=True)
class Vandal(adadim.Policy):
    """Doubles the features that it was given, if it can."""

    def learner(self, problem, streams):
        problem.actions.base[...] *= 2.0
        return adadim.Random().learner(problem, streams)


def test_a_plugin_cannot_change_what_others_see(tmp_path):
    sphere = {"kind": "sphere", "arms": 5, "dim": 3, "intrinsic_dim": 2, "horizon": 9}
    study = Study("small", {"s": sphere}, {"vandal": Vandal(), "LinUCB": {"kind": "LinUCB"}}, trials=2)
    with pytest.raises(adadim.StudyError, match=r"policies\.vandal: cannot run on instances\.s: .*read-only"):
        run(study, tmp_path, jobs=1)


def test_numbers_of_other_types_are_welcome(torch):
    for given in (
        FEATURES.astype(">f8"),
        FEATURES.astype(">f4"),
        FEATURES.astype("f2"),
        FEATURES.astype(np.longdouble),
    ):
        actions = ActionSet(given)
        assert actions.base.dtype == np.float64
        assert actions.base.dtype.isnative
        assert np.allclose(actions.base[0], FEATURES, atol=1e-3)
    assert ActionSet(torch.eye(3, dtype=torch.bfloat16)).base.dtype == torch.float64
    instance = Instance(np.eye(3), theta=np.array([0.1, 0.2, 0.3], dtype=">f8"), horizon=5, noise=0.1)
    assert adadim.simulate(adadim.LinUCB(), instance).final >= 0


def test_what_is_no_real_number_is_refused():
    masked = np.ma.masked_less(FEATURES, 0)
    with pytest.raises(InvalidTypeError, match="features must be real numbers, got a masked array"):
        ActionSet(masked)
    good = {"horizon": 5, "noise": 0.1}
    for name, value in (("theta", [0.1, 1j, 0]), ("means", np.array([1j, 0, 0]))):
        with pytest.raises(InvalidTypeError, match=f"{name} must be real numbers, got dtype complex128"):
            Instance(np.eye(3), **{name: value}, **good)
    with pytest.raises(InvalidTypeError, match="theta must be real numbers, got a masked array"):
        Instance(np.eye(3), theta=masked[0], **good)
    with pytest.raises(InvalidTypeError, match="reward_range must be real numbers, got dtype"):
        Problem(np.eye(3), reward_range="wide", **good)
    with pytest.raises(InvalidTypeError, match=r"levels must be a sequence of integers, .*, got 5"):
        ActionSet(np.eye(3), levels=5)
    with pytest.raises(InvalidValueError, match="weights must be finite"):
        ActionSet(np.eye(3)).weighted(np.array([1.0, np.nan, 1.0]))


@pytest.mark.parametrize("value", [None, "x", [0.5], {}, 1j, True])
def test_theory_wants_numbers(value):
    for call in (
        lambda: theory.pareto_rate(0.5, value),
        lambda: theory.rate_lower_bound(0.5, value),
        lambda: theory.recommended_beta(value),
        lambda: theory.schedule(100, value, 10),
        lambda: theory.theorem1_bound(2500, value, 0.0, 50.0),
        lambda: theory.theorem1_bound(2500, 0.5, value, 50.0),
        lambda: theory.theorem1_bound(2500, 0.5, 0.0, value),
        lambda: theory.tapered_information(100, 10, value, 1.0),
        lambda: theory.tapered_information(100, 10, 1.0, value),
        lambda: theory.tapered_rate(0.5, value, 0.5),
        lambda: theory.tapered_rate(0.5, 1.0, value),
        lambda: theory.linucbpp_bound_order(100, 10, 0.5, value),
        lambda: theory.dominates(value, value),
    ):
        with pytest.raises(InvalidTypeError, match="must be a"):
            call()


def test_copies_share_their_features():
    """Truncations and moved sets are copies of the set: none of them holds the features twice."""
    actions = ActionSet(np.ones((3, 20, 10)))
    assert np.shares_memory(copy.copy(actions).base, actions.base)
    assert np.shares_memory(actions.truncate(4)[0].base, actions.base)
